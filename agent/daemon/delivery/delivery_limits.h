/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of deliveries: shares of the queue, pauses that servers asked for
 * (429), and the ids that were accepted last. One server that is down or slow
 * must leave room for the other destinations of its user, and one user for the
 * other users.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_LIMITS_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "upload/deliver/sentry_report.h"

/* ---- Shares ------------------------------------------------------------ */

#define FGT_DELIVERIES_MAX	       128 /* in all */
#define FGT_DELIVERIES_PER_USER	       32 /* root included */
#define FGT_DELIVERIES_PER_DESTINATION 16
#define FGT_DELIVERIES_PER_SHARED      32 /* of all users */
#define FGT_DELIVERIES_LAST	       16 /* more, for last words */

/* Processes at once: to destinations of programs, and as many to shared ones,
 * where servers that hang leave room for others: one process more for each
 * destination that has none. */
#define FGT_DELIVERIES_AT_WORK		       8
#define FGT_DELIVERIES_AT_WORK_FIRST	       16
#define FGT_DELIVERIES_AT_WORK_PER_USER	       4
#define FGT_DELIVERIES_AT_WORK_PER_DESTINATION 2
#define FGT_DELIVERIES_ENCODED_PER_DESTINATION 4 /* for the keeper, not sent */

/* Bytes in memory behind descriptors, cut or handed in: they cannot be written
 * to disk. */
#define FGT_DELIVERIES_BYTES_MAX      ((uint64_t)256 << 20)
#define FGT_DELIVERIES_BYTES_PER_USER ((uint64_t)128 << 20)

/*
 * What waits or is sent: all, of the user, and to the destination. To one that
 * is shared, what waits of the user counts apart, so that no user fills it; and
 * such deliveries do not count in of_user, so that one that is down leaves room
 * for the user's other deliveries.
 */
struct fgt_delivery_tally {
	size_t all, of_user, to_destination;
	size_t to_shared; /* of all users, if it is shared */
	size_t sent, sent_of_user, sent_to_destination;
	size_t encoded, encoded_for_destination; /* in sent, too */
	bool is_shared; /* the destination */
	uint64_t bytes, bytes_of_user;
};

/* May one more be queued, of so many bytes? A process that has ended cannot
 * send again: its last delivery has room in addition. -EBUSY, why is set. */
int fgt_delivery_tally_check(const struct fgt_delivery_tally *tally,
			     uint64_t bytes, bool is_last_word,
			     struct fgt_why *why);
/* Is there memory for what is queued? */
bool fgt_delivery_tally_fits(const struct fgt_delivery_tally *tally);
/* May one more be sent? */
bool fgt_delivery_tally_may_send(const struct fgt_delivery_tally *tally);

/* ---- Pauses ------------------------------------------------------------ */

#define FGT_DELIVERY_LIMITS_MAX 32

/* A destination of a user, without its secrets; or one of the configuration,
 * which all users share. */
struct fgt_delivery_address {
	uint64_t hash;
	uint32_t uid;
	bool is_shared;
};

struct fgt_delivery_address fgt_delivery_address_of(uint32_t uid,
						    const char *destination);

struct fgt_delivery_address fgt_delivery_address_of_name(uint32_t uid,
							 const char *name);

/* The same destination? */
bool fgt_delivery_address_is_same(const struct fgt_delivery_address *a,
				  const struct fgt_delivery_address *b);

/* { 0 } has none. Where there is no row left, the one whose pauses end soonest
 * is forgotten. */
struct fgt_delivery_limits {
	struct {
		bool is_used;
		struct fgt_delivery_address address;
		struct fgt_pauses pauses;
		struct fgt_sentry_discards discards; /* not reported yet */
	} rows[FGT_DELIVERY_LIMITS_MAX];
};

/* Until then it wants no more of anything; pauses that end later stay. */
void fgt_delivery_limits_set(struct fgt_delivery_limits *limits,
			     const struct fgt_delivery_address *address,
			     uint64_t until_ns);
/* What Sentry asks for. */
void fgt_delivery_limits_extend(struct fgt_delivery_limits *limits,
				const struct fgt_delivery_address *address,
				const struct fgt_ratelimits *asked,
				uint64_t now_ns);

/* When a transaction may be sent, or what is of no category. 0: it has not
 * asked. */
uint64_t fgt_delivery_limits_until(const struct fgt_delivery_limits *limits,
				   const struct fgt_delivery_address *address);
/* Bit n: it wants none of enum fgt_sentry_category n. */
uint32_t fgt_delivery_limits_mask(const struct fgt_delivery_limits *limits,
				  const struct fgt_delivery_address *address,
				  uint64_t now_ns);

/* ---- Reports for Sentry -------------------------------------------------- */

/* One more delivery came to nothing. */
void fgt_delivery_limits_discard(struct fgt_delivery_limits *limits,
				 const struct fgt_delivery_address *address,
				 enum fgt_discard_reason reason,
				 uint32_t category);
/* Moves all of an address out, or back in. */
struct fgt_sentry_discards
fgt_delivery_limits_take(struct fgt_delivery_limits *limits,
			 const struct fgt_delivery_address *address);
void fgt_delivery_limits_restore(struct fgt_delivery_limits *limits,
				 const struct fgt_delivery_address *address,
				 const struct fgt_sentry_discards *discards);

/* ---- Accepted ids ------------------------------------------------------ */

/* A program that got the answer too late sends the same again: it has been
 * queued then. */
#define FGT_DELIVERY_RECENT_MAX 256u

/* A delivery of a process to a destination of the configuration, "" for its
 * own. event_id as in transaction.h. */
struct fgt_delivery_mark {
	int32_t pid;
	const char *event_id, *configured;
};

/* { 0 } has none. */
struct fgt_delivery_recent {
	struct {
		int32_t pid;
		char event_id[33];
		uint64_t configured; /* its hash */
	} rows[FGT_DELIVERY_RECENT_MAX];
	unsigned int next;
};

/* Takes the place of the one that was added first. The id "" is none. */
void fgt_delivery_recent_add(struct fgt_delivery_recent *recent,
			     const struct fgt_delivery_mark *mark);
bool fgt_delivery_recent_has(const struct fgt_delivery_recent *recent,
			     const struct fgt_delivery_mark *mark);

#endif
