/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destinations of the configuration: with their secrets, and what became of
 * deliveries to each of them.
 *
 * Who may use them: a program's user gets no secret, and cannot read the
 * process that has it. Programs of root and of the agent's own user may name
 * any destination; those of other users only the ones in upload.transactions.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DESTINATIONS_H
#define FGT_AGENT_DAEMON_DELIVERY_DESTINATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config/config.h"
#include "agent/protocol/builder.h"
#include "ringbuf/base/why.h"
#include "upload/deliver/destination.h"

#define FGT_DESTINATION_NAME_MAX 64 /* with its NUL */

/* X(id, name in status): why deliveries came to nothing. */
#define FGT_DROP_REASONS(X)                                                    \
	X(REFUSED, "refused") /* 401, 403 */                                   \
	X(TOO_LARGE, "too_large")                                              \
	X(REJECTED, "rejected") /* any other answer or error that is final */  \
	X(UNREACHABLE, "unreachable") /* all tries failed */                   \
	X(LIMITED, "rate_limited") /* the server wants a pause */              \
	X(QUEUE_FULL, "queue_full")                                            \
	X(NO_DATA, "no_data") /* it could not be cut */                        \
	X(LEAVING, "leaving") /* the agent ends */

#define FGT_DROP_REASON(id, name) FGT_DROP_##id,
enum fgt_drop_reason {
	FGT_DROP_REASONS(FGT_DROP_REASON) FGT_DROP_COUNT
};

struct fgt_destination_entry {
	char name[FGT_DESTINATION_NAME_MAX];
	char where[FGT_DESTINATION_WHERE_MAX]; /* without secrets */
	struct fgt_destination *destination; /* NULL: why it has none */
	struct fgt_why why;
	uint64_t loaded_ns; /* CLOCK_MONOTONIC: the last try */
	bool is_of_transactions; /* named in upload.transactions */
	bool is_proven; /* its last try succeeded: it may have two at once */
	bool is_refused; /* it answered 401 or 403 since it was loaded */
	uint64_t delivered, bytes, retried;
	uint64_t dropped[FGT_DROP_COUNT];
	uint64_t success_wall_ns, error_wall_ns; /* the last ones; 0: none */
	struct fgt_why error; /* the last one */
	uint64_t next_try_ns; /* CLOCK_MONOTONIC; 0: none waits for it */
	uint64_t sequence; /* {seq} of the last delivery */
};

/* { 0 } has none. */
struct fgt_destinations {
	struct fgt_destination_entry *entries;
	size_t count;
	const struct fgt_config *config; /* borrowed; NULL without memory */
};

/*
 * Takes over what a configuration has, which lives until the next call: reads
 * secrets, and logs what cannot be read. Counters of destinations that keep
 * their name stay.
 */
void fgt_destinations_load(struct fgt_destinations *destinations,
			   const struct fgt_config *config);
void fgt_destinations_done(struct fgt_destinations *destinations);

/* NULL: there is none of that name. */
struct fgt_destination_entry *
fgt_destinations_find(struct fgt_destinations *destinations, const char *name);

/* {seq} of another delivery: the nanoseconds since 1970, so that it does not
 * repeat after a restart either, and more than that of the one before. */
uint64_t
fgt_destination_entry_next_sequence(struct fgt_destination_entry *entry);

/* May it be used now? -ENOENT it could not be loaded, not even again 10 s later;
 * -EACCES it refused; why has the remedy. */
int fgt_destination_entry_check(const struct fgt_destinations *destinations,
				struct fgt_destination_entry *entry,
				struct fgt_why *why);

/* What became of a delivery. */
void fgt_destination_entry_delivered(struct fgt_destination_entry *entry,
				     uint64_t bytes);
void fgt_destination_entry_retried(struct fgt_destination_entry *entry,
				   const char *why, uint64_t next_try_ns);
void fgt_destination_entry_dropped(struct fgt_destination_entry *entry,
				   enum fgt_drop_reason reason,
				   const char *why);

/* It let the agent not in: nothing more is sent until a reload. */
void fgt_destination_entry_refuse(struct fgt_destination_entry *entry,
				  const char *why);

/* One map of an open array: all of the above without secrets, and how many
 * wait. */
struct fgt_destination_waiting {
	size_t queued; /* in memory */
	uint64_t spooled, spooled_bytes, next_try_ns; /* in the spool */
};
void fgt_destination_entry_put(const struct fgt_destination_entry *entry,
			       const struct fgt_destination_waiting *waiting,
			       uint64_t now_ns, struct fgt_builder *builder);

#endif
