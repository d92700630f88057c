/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of the deliveries' queue: one server that is down or slow must leave
 * room for the other destinations of its user, and one user for the others.
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_TALLY_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

#define FGT_DELIVERIES_MAX	       128 /* in all */
#define FGT_DELIVERIES_PER_USER	       32 /* root included */
#define FGT_DELIVERIES_PER_DESTINATION 16
#define FGT_DELIVERIES_LAST	       16 /* more, for last words */

#define FGT_DELIVERIES_AT_WORK		       8 /* processes at once */
#define FGT_DELIVERIES_AT_WORK_PER_USER	       4
#define FGT_DELIVERIES_AT_WORK_PER_DESTINATION 2

/* Of descriptors, cut or handed in: they cannot be written to disk. */
#define FGT_DELIVERIES_BYTES_MAX      ((uint64_t)256 << 20)
#define FGT_DELIVERIES_BYTES_PER_USER ((uint64_t)128 << 20)

/* What waits or is sent: all, of the user, and to the user's destination. */
struct fgt_delivery_tally {
	size_t all, of_user, to_destination;
	size_t sent, sent_of_user, sent_to_destination;
	uint64_t bytes, bytes_of_user;
};

/* May one more be queued, of so many bytes? A last word, of what has ended, is
 * not said again, and has room of its own. -EBUSY, why is set. */
int fgt_delivery_tally_check(const struct fgt_delivery_tally *tally,
			     uint64_t bytes, bool is_last_word,
			     struct fgt_why *why);
/* Is there memory for what is queued? */
bool fgt_delivery_tally_fits(const struct fgt_delivery_tally *tally);
/* May one more be sent? */
bool fgt_delivery_tally_may_send(const struct fgt_delivery_tally *tally);

#endif
