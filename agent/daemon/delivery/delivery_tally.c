/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides by figures alone. Runs in the daemon's loop.
 */
#include "agent/daemon/delivery/delivery_tally.h"

#include <errno.h>

bool fgt_delivery_tally_fits(const struct fgt_delivery_tally *tally)
{
	return tally->bytes <= FGT_DELIVERIES_BYTES_MAX &&
	       tally->bytes_of_user <= FGT_DELIVERIES_BYTES_PER_USER;
}

int fgt_delivery_tally_check(const struct fgt_delivery_tally *tally,
			     uint64_t bytes, bool is_last_word,
			     struct fgt_why *why)
{
	struct fgt_delivery_tally more = *tally;
	size_t last = is_last_word ? FGT_DELIVERIES_LAST : 0;

	more.bytes += bytes;
	more.bytes_of_user += bytes;
	if (tally->to_destination >= FGT_DELIVERIES_PER_DESTINATION + last)
		return fgt_why_set(why, -EBUSY,
				   "busy: %d deliveries to this destination "
				   "wait already; is it reachable?",
				   FGT_DELIVERIES_PER_DESTINATION);
	if (tally->of_user >= FGT_DELIVERIES_PER_USER + last)
		return fgt_why_set(why, -EBUSY,
				   "busy: %d deliveries of this user wait "
				   "already; are their destinations reachable?",
				   FGT_DELIVERIES_PER_USER);
	if (tally->all >= FGT_DELIVERIES_MAX + last ||
	    !fgt_delivery_tally_fits(&more))
		return fgt_why_set(why, -EBUSY,
				   "busy: too much waits to be delivered "
				   "already; are the destinations reachable?");
	return 0;
}

bool fgt_delivery_tally_may_send(const struct fgt_delivery_tally *tally)
{
	return tally->sent < FGT_DELIVERIES_AT_WORK &&
	       tally->sent_of_user < FGT_DELIVERIES_AT_WORK_PER_USER &&
	       tally->sent_to_destination <
		       FGT_DELIVERIES_AT_WORK_PER_DESTINATION;
}
