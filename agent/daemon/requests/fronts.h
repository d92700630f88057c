/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fronts: the processes that read what clients of the control socket send, so
 * that no msgpack of another user is decoded in the daemon, which has
 * capabilities. A front is this program, executed again, with a user id that
 * nothing else has, no capabilities, and the system calls that it needs to get
 * bytes from the daemon and to answer (agent/daemon/front).
 *
 * A front is a function: a frame goes in, a struct fgt_request comes out. It
 * has no socket but the daemon's, no file, no descriptor of a client. The
 * daemon itself accepts connections and takes bytes, credentials and
 * descriptors from them, unread: the kernel names the sender of a byte only to
 * the process that receives it, and one that received for all could claim
 * anything for anyone (struct fgt_peer: is_sender, since_ns).
 *
 * Each user has a front. One that is taken over by what it reads (only that
 * user's requests reach it) can
 *  - claim that the user asked for something else: for what the user could
 *    have asked for, and gets no more by;
 *  - end, or not answer: that user's requests fail then.
 * It cannot see or change the requests of other users, name another process as
 * the sender, pass descriptors, write to clients, or touch files.
 *
 * Where none can be started, requests fail and the log names the cause: who
 * uses up processes or memory must not be able to bring the decoding back into
 * the daemon. Without seccomp a front has no filter, all else holds.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_REQUESTS_FRONTS_H
#define FGT_AGENT_DAEMON_REQUESTS_FRONTS_H

#include <sys/queue.h>

#include "agent/daemon/loop/loop.h"
#include "agent/daemon/requests/request.h"

#define FGT_FRONTS_MAX	   8 /* one of them is the daemon's user's */
#define FGT_FRONT_IDLE_S   60 /* then it is ended; not the daemon's user's */
#define FGT_FRONT_INLINE   32768 /* longer frames travel as a memfd */
#define FGT_FRONT_START_MS 10 /* the first pause after one that failed */

/* No user id: root of another namespace, who must not change root's
 * requests. */
#define FGT_FRONT_OTHER_ROOT UINT32_MAX
/* Nor: requests of the HTTP server, a process without rights. */
#define FGT_FRONT_HTTP (UINT32_MAX - 1)

/* How a front is started. */
#define FGT_FRONT_NAME "fgt-front"
#define FGT_FRONT_VERB "read-requests"

/* What travels to the front, followed by len bytes, unless a memfd comes. */
struct fgt_front_head {
	uint32_t len;
	uint32_t is_kept;
};

struct fgt_fronts;
struct fgt_front;

struct fgt_fronts_options {
	const char *path; /* what to execute, NULL: /proc/self/exe */
	unsigned int timeout_ms; /* of one request; 0: 5000 */
	/* NULL; tests: reads in this process. */
	void (*read)(const struct fgt_request_frame *frame,
		     struct fgt_request *ret_request);
};

/* One request that is to be read; embedded by its owner. */
struct fgt_reading {
	/* Called once, perhaps before _submit returns; request is valid until
	 * then. A front that fails makes a refusal. May withdraw other
	 * readings, and free the reading. */
	void (*done)(void *context, const struct fgt_request *request);
	void *context;
	uint32_t uid; /* whose request it is */
	struct fgt_request_frame frame; /* borrowed until done */
	struct fgt_front *front; /* NULL: it is not being read */
	STAILQ_ENTRY(fgt_reading) link;
};

/* Starts the front of the daemon's user. -ENOMEM. */
int fgt_fronts_new(struct fgt_loop *loop,
		   const struct fgt_fronts_options *options,
		   struct fgt_fronts **ret_fronts);
/* Nothing may be read any more. */
void fgt_fronts_free(struct fgt_fronts *fronts);
FGT_DEFINE_AUTO(struct fgt_fronts *, fgt_fronts_free);

/* The owner bounds how many there are. */
void fgt_fronts_submit(struct fgt_fronts *fronts, struct fgt_reading *reading);
/* done is not called any more. Nothing if it is not being read. */
void fgt_fronts_withdraw(struct fgt_reading *reading);

/* Once a second: ends those that have had nothing to do. */
void fgt_fronts_tend(struct fgt_fronts *fronts);

#endif
