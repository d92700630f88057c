/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of events' ids. Runs in the daemon's loop.
 */
#include "agent/daemon/delivery/delivery_recent.h"

#include <stdio.h>
#include <string.h>

void fgt_delivery_recent_add(struct fgt_delivery_recent *recent, int32_t pid,
			     const char *event_id)
{
	unsigned int row = recent->next++ % FGT_DELIVERY_RECENT_MAX;

	recent->rows[row].pid = pid;
	snprintf(recent->rows[row].event_id, sizeof(recent->rows[row].event_id),
		 "%s", event_id);
}

bool fgt_delivery_recent_has(const struct fgt_delivery_recent *recent,
			     int32_t pid, const char *event_id)
{
	if (!*event_id)
		return false;
	for (unsigned int i = 0; i < FGT_DELIVERY_RECENT_MAX; i++)
		if (recent->rows[i].pid == pid &&
		    strcmp(recent->rows[i].event_id, event_id) == 0)
			return true;
	return false;
}
