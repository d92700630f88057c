/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that encodes and uploads for a program: this very program,
 * executed again, with that program's user and nothing more. What goes wrong in
 * it (a server that misbehaves, a slice made to harm) costs a process of that
 * user, and what it may write is what that user may write. The destination,
 * which may hold a secret, travels over a socket only.
 *
 * Runs in the loop's thread, except _cut, which is a job, and _serve_if_asked,
 * which is the main thread of the child. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_CHILD_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/capture/target.h"
#include "agent/daemon/loop/loop.h"
#include "agent/daemon/targets/gate.h"
#include "agent/symbols/symbolizer.h"
#include "upload/deliver/destination.h"
#include "upload/deliver/sentry_upload.h"

#define FGT_DELIVERY_NAME     "fgt-delivery"
#define FGT_DELIVERY_VERB     "deliver-slice"
#define FGT_DELIVERY_BODY_MAX 65536
#define FGT_DELIVERY_MAX_S    90 /* of its life: the agent ends it then */
#define FGT_DELIVERY_ALARM_S  95 /* it ends by itself, if no agent does */
#define FGT_DELIVERY_DATA_MAX ((uint64_t)64 << 20) /* a .fgt file */

#define FGT_DELIVERY_TRIGGER 64 /* bytes of a trigger's name */
#define FGT_DELIVERY_CAUSE   199

/* Why the agent itself delivers a slice: written into it. */
struct fgt_delivery_trigger {
	char name[FGT_DELIVERY_TRIGGER + 1]; /* "": no trigger */
	char cause[FGT_DELIVERY_CAUSE + 1];
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	int32_t tid; /* that it was about, or 0 */
};

/* A chunk of a target's life: exactly its ticks, see continuous.h. */
struct fgt_delivery_chunk {
	char profiler_id[33]; /* "": it is none */
	char chunk_id[33];
	struct fgt_anchor anchor; /* the clocks of all chunks */
	bool has_next_tick; /* the first one from to_ns on, too */
	uint64_t wait_until_ns; /* for that tick, where the rate is lowered */
};

enum fgt_delivery_kind {
	FGT_DELIVERY_FILE, /* data is a .fgt file, with names */
	FGT_DELIVERY_RING, /* data is the ring of a process that is no more */
	FGT_DELIVERY_PAYLOAD, /* data is the file of a spool's entry */
};

/* The descriptors of a delivery, each -1 if there is none. */
enum fgt_delivery_fd {
	FGT_DELIVERY_DATA, /* a memfd, of a kind */
	FGT_DELIVERY_SPANS, /* memfd of a span log */
	/* Where the program is, if the agent is elsewhere: */
	FGT_DELIVERY_NET, /* its network namespace */
	FGT_DELIVERY_ROOT, /* its root, below which directories lie */
	/* A memfd: payloads go there, see delivery_pieces.h, and are not
	 * sent. */
	FGT_DELIVERY_OUTPUT,
	FGT_DELIVERY_FDS,
};

struct fgt_delivery_fds {
	int fd[FGT_DELIVERY_FDS];
};
#define FGT_DELIVERY_FDS_NONE                                                  \
	((struct fgt_delivery_fds){ { -1, -1, -1, -1, -1 } })

/* All that are open; they are -1 afterwards. */
void fgt_delivery_fds_close(struct fgt_delivery_fds *fds);

/*
 * Where a process delivers: opens _NET and _ROOT of fds if they are not the
 * agent's own. pid_fd: of the process, which must live. An agent that is not
 * root, and may not look, delivers as it is itself. In any thread, see aside.h;
 * uid: whose process it is. -ESRCH; -EAGAIN it cannot be read; errno of open(2)
 * and statx(2); why is set.
 */
int fgt_delivery_places_open(int32_t pid, int pid_fd, uint32_t uid,
			     struct fgt_delivery_fds *fds, struct fgt_why *why);

/* Puts copies of those places into fds, which are closed before. A place that
 * is left out would be the agent's: errno of fcntl(2); why is set. */
int fgt_delivery_places_copy(const struct fgt_delivery_fds *places,
			     struct fgt_delivery_fds *fds, struct fgt_why *why);

/* What travels to the child in one message: this, then a msgpack map of
 * "destination", "ca_file" and "allow_http" or, for one of the configuration,
 * of the members of struct fgt_destination; and "facts", the bytes of a map in
 * it; with the descriptors. */
struct fgt_delivery_head {
	uint32_t uid, gid; /* to become */
	uint32_t has_fds; /* bit n: descriptor n of fgt_delivery_fds comes */
	uint32_t kind; /* enum fgt_delivery_kind */
	uint32_t limited, is_sentry_v1; /* see struct fgt_upload_limits */
	struct fgt_sentry_discards discards; /* likewise */
	uint64_t from_ns, to_ns; /* of a ring */
};

/* What comes back. */
struct fgt_delivery_result {
	int32_t error; /* 0, -EAGAIN: try later; else do not try again */
	uint32_t retry_after_s;
	uint32_t payloads;
	uint32_t is_refused; /* as in struct fgt_dispatch_outcome */
	uint32_t is_partial; /* without some of its profile */
	uint32_t is_reported; /* the head's discards have arrived */
	struct fgt_ratelimits limits;
	uint32_t limited[FGT_CATEGORY_COUNT]; /* payloads not sent by them */
	uint32_t category; /* of the last payload */
	int32_t status; /* of its HTTP answer, 0: none */
	uint64_t bytes;
	char event_id[33];
	char where[512]; /* without secrets */
	char why[400];
};

struct fgt_delivery_child {
	int fd; /* -1: none; readable: it has a result, or has ended */
	int pid_fd;
};
#define FGT_DELIVERY_CHILD_NONE ((struct fgt_delivery_child){ -1, -1 })

/* What the body of the message is made of; borrowed. */
struct fgt_delivery_content {
	const char *destination; /* of the program; or */
	const struct fgt_destination *configured; /* instead of it */
	const struct fgt_upload_limits *limits; /* of destination; NULL: none */
	const uint8_t *facts; /* NULL: none */
	size_t facts_len;
};

/* The body of the message. It may hold a secret. -EMSGSIZE, -ENOMEM. */
int fgt_delivery_body_new(const struct fgt_delivery_content *content,
			  uint8_t **ret_body, size_t *ret_len);

/* body: from _body_new(). The descriptors stay the caller's. -EAGAIN: it could
 * not be started. */
int fgt_delivery_child_start(struct fgt_delivery_child *child,
			     const struct fgt_delivery_head *head,
			     const uint8_t *body, size_t body_len,
			     const struct fgt_delivery_fds *fds);

/* Does not wait. -EAGAIN nothing yet, -EPIPE it ended without a result. */
int fgt_delivery_child_receive(struct fgt_delivery_child *child,
			       struct fgt_delivery_result *ret_result);

/* ---- The slice that the child gets -------------------------------------- */

/* Cut out of a target's ring, named, and written into a memfd. */
struct fgt_delivery_cut {
	struct fgt_target *target;
	struct fgt_symbolizer *symbolizer;
	struct fgt_gate gate;
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	bool is_transaction; /* delivered even if nothing was sampled then */
	struct fgt_delivery_trigger trigger;
	struct fgt_delivery_chunk chunk;
};

/*
 * May take seconds. -ENODATA fewer than two ticks, unless it is a transaction;
 * -EACCES its user may not see the program that it is now; -EFBIG larger than
 * FGT_DELIVERY_DATA_MAX; -ENOMEM, errno of memfd_create and write; else the
 * errors of fgt_ring_cut().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_delivery_cut(const struct fgt_delivery_cut *cut, int *ret_fd,
		     uint64_t *ret_bytes);

/* What a memfd takes of memory: it may be larger than what of it has ever been
 * touched. 0 for -1. */
uint64_t fgt_delivery_bytes(int fd);

/* ---- Processes that have been killed and have not ended yet ------------- */

/* Embedded by its owner. */
struct fgt_delivery_endings {
	struct fgt_loop *loop;
	void (*gone)(void *context); /* one of them; on the loop */
	void *context;
	LIST_HEAD(, fgt_delivery_ending) all;
};

/* Takes the child over and ends it. A file system of its user may hold it, so
 * the daemon does not wait for it. */
void fgt_delivery_endings_add(struct fgt_delivery_endings *endings,
			      struct fgt_delivery_child *child, uint32_t uid);

/* Has that user any? Then no other is started, so that they stay few. */
bool fgt_delivery_endings_has(const struct fgt_delivery_endings *endings,
			      uint32_t uid);

/* Those that do not go within a second are left to init. */
void fgt_delivery_endings_done(struct fgt_delivery_endings *endings);

/* ---- Log lines, without secrets ------------------------------------------ */

/* Which delivery, after so many tries. */
struct fgt_delivery_about {
	int32_t pid;
	const char *name;
	unsigned int tries;
};

void fgt_delivery_log_done(const struct fgt_delivery_about *about,
			   const struct fgt_delivery_result *result);
/* Warns after the first, the second and the fourth try, and so on. */
void fgt_delivery_log_retry(const struct fgt_delivery_about *about,
			    uint64_t seconds, unsigned int tries_max,
			    const char *why);
/* where: "" if it is not known. */
void fgt_delivery_log_given_up(const struct fgt_delivery_about *about,
			       const char *where, const char *why);

/* ---- The child's side --------------------------------------------------- */

/*
 * The child's life; returns only if these are not its arguments. The first
 * thing in main().
 */
void fgt_delivery_serve_if_asked(int argc, char **argv);

#endif
