/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries for registered processes: a bounded queue, a thread that cuts,
 * processes that upload.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERIES_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERIES_H

#include <stdint.h>

#include "agent/daemon/delivery/delivery_child.h"
#include "agent/protocol/builder.h"
#include "ringbuf/base/why.h"
#include "upload/deliver/sentry_upload.h"

#define FGT_DELIVERY_CONFIGURED 64 /* a name in the configuration, its NUL */
#define FGT_DELIVERIES_TRIES	5 /* after 2, 8, 32, 128 s */

struct fgt_config;
struct fgt_deliveries;

struct fgt_delivery_order {
	int32_t pid; /* for the log */
	uint32_t uid, gid; /* delivered as this user */
	/* One of both: what is to be cut, borrowed; or data of a kind. */
	struct fgt_target *target;
	struct fgt_gate gate; /* that it is cut through */
	enum fgt_delivery_kind kind;
	/* Taken over in any case, also on errors. */
	struct fgt_delivery_fds fds;
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	uint64_t not_before_ns; /* the tick after the end is there then */
	/* One of both: the text of a program, which may be a secret, copied; or
	 * one of the configuration, by its name. */
	const char *destination;
	const char *configured;
	const struct fgt_upload_limits *limits; /* NULL: none; copied */
	const char *name, *event_id; /* of a transaction; NULL; copied */
	/* fgt_facts_pack() made them; NULL: none. Copied, not read: they may be
	 * of a program that means harm. */
	const uint8_t *facts;
	size_t facts_len;
	bool is_transaction; /* its facts have begin and end */
	struct fgt_delivery_trigger trigger; /* of a target */
	struct fgt_delivery_chunk chunk; /* of a target */
	bool is_last_word; /* of a process that has ended: not sent again */
	bool is_repeated; /* it found no room before, which was counted */
	/*
	 * For FGT_DELIVERY_PAYLOAD: called in the end instead of the log, after
	 * one try; -ECANCELED: it was not tried. Not after an error of
	 * fgt_deliveries_submit().
	 */
	void (*settled)(void *context,
			const struct fgt_delivery_result *result);
	void *settled_context;
};

/* An encoded delivery. */
struct fgt_delivery_kept {
	int fd; /* the keeper's from now on; payloads, see delivery_pieces.h */
	int32_t pid;
	uint32_t uid, gid;
	bool is_chunk; /* of continuous mode; else a transaction and chunks */
	char name[FGT_TRANSACTION_NAME + 1]; /* for the log */
	char configured[FGT_DELIVERY_CONFIGURED];
};

struct fgt_delivery_kept_count {
	uint64_t entries, bytes;
	uint64_t next_try_ns; /* CLOCK_MONOTONIC; 0: at once */
};

/* Keeps what is encoded for destinations of the configuration, and submits it
 * as FGT_DELIVERY_PAYLOAD. */
struct fgt_delivery_keeper {
	bool (*is_ready)(void *context); /* else they are sent at once */
	void (*keep)(void *context, const struct fgt_delivery_kept *kept);
	/* What it has for one of them. */
	void (*count)(void *context, const char *configured,
		      struct fgt_delivery_kept_count *ret_count);
	void *context;
};

/* The symbolizer outlives this. -ENOMEM, -EAGAIN. */
int fgt_deliveries_new(struct fgt_loop *loop, struct fgt_symbolizer *symbolizer,
		       struct fgt_deliveries **ret_deliveries);
/* Ends those at work. */
void fgt_deliveries_free(struct fgt_deliveries *deliveries);
FGT_DEFINE_AUTO(struct fgt_deliveries *, fgt_deliveries_free);

/* Takes over the destinations of a configuration, see fgt_destinations_load().
 * Until then there are none. */
void fgt_deliveries_configure(struct fgt_deliveries *deliveries,
			      const struct fgt_config *config);

/* NULL: there is none. Borrowed. */
void fgt_deliveries_set_keeper(struct fgt_deliveries *deliveries,
			       const struct fgt_delivery_keeper *keeper);

/* Who asks for a delivery. */
struct fgt_delivery_asker {
	/* Where the program wants it: "" as upload.transactions has it, a name
	 * of the configuration, else a DSN, URL or directory. */
	const char *destination;
	uint32_t uid;
};

/*
 * Queues the order for each destination that the asker means; sets destination
 * and configured of the order, and takes over its descriptors. 0: at least one
 * has taken it; -ENOENT no such destination, or none is configured; -EPERM this
 * user may not name it; else the error of the last fgt_deliveries_submit(); why
 * is set.
 */
int fgt_deliveries_route(struct fgt_deliveries *deliveries,
			 const struct fgt_delivery_order *order,
			 const struct fgt_delivery_asker *asker,
			 struct fgt_why *why);

/* Does upload.transactions name any? */
bool fgt_deliveries_has_default(const struct fgt_deliveries *deliveries);

/* "destinations": an array, see fgt_destination_entry_put(). */
void fgt_deliveries_put_destinations(const struct fgt_deliveries *deliveries,
				     struct fgt_builder *builder);

/*
 * Queues; what becomes of it goes to the log. 0 also if a transaction of this
 * process and id was queued before. -EBUSY full (the share of the destination,
 * of the user, or all; see delivery_limits.h), -EINVAL no destination, -ENOENT,
 * -EACCES of fgt_destination_entry_check(), -EMSGSIZE facts too long,
 * -ESHUTDOWN, -ENOMEM; why is set.
 */
int fgt_deliveries_submit(struct fgt_deliveries *deliveries,
			  const struct fgt_delivery_order *order,
			  struct fgt_why *why);

/*
 * The same for what the configuration alone orders: sets user, gate, limits and
 * destination of the order to the agent's. place: the absolute path of a
 * directory, or the name of a destination. Its data are the agent owner's: its
 * user delivers them, in the agent's network and below its root. The errors of
 * fgt_deliveries_route().
 */
int fgt_deliveries_submit_owned(struct fgt_deliveries *deliveries,
				const struct fgt_config *config,
				const struct fgt_delivery_order *order,
				const char *place, struct fgt_why *why);

/* Takes only the last deliveries of processes that ended; tries once what
 * waits. */
void fgt_deliveries_leave(struct fgt_deliveries *deliveries);

/* A payload that was kept came to nothing: it is in the next report to the
 * destination of that name. */
void fgt_deliveries_discard(struct fgt_deliveries *deliveries, const char *name,
			    enum fgt_discard_reason reason,
			    enum fgt_sentry_category category);

/* The same for all of what was handed to the keeper. */
void fgt_deliveries_discard_kept(struct fgt_deliveries *deliveries,
				 const struct fgt_delivery_kept *kept,
				 enum fgt_discard_reason reason);

struct fgt_deliveries_counters {
	uint64_t delivered, failed; /* failed: given up */
	uint64_t refused; /* full */
	uint64_t retried;
	size_t waiting, active; /* now */
};

void fgt_deliveries_get_counters(const struct fgt_deliveries *deliveries,
				 struct fgt_deliveries_counters *ret_counters);

#endif
