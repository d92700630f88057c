/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was accepted last. A program that was told so too late asks again: what
 * it asks for has been done then.
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_RECENT_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#define FGT_DELIVERY_RECENT_MAX 256u

/* { 0 } has none. */
struct fgt_delivery_recent {
	struct {
		int32_t pid;
		char event_id[33]; /* as in transaction.h */
	} rows[FGT_DELIVERY_RECENT_MAX];
	unsigned int next;
};

/* Takes the place of the one that was added first. "" is none. */
void fgt_delivery_recent_add(struct fgt_delivery_recent *recent, int32_t pid,
			     const char *event_id);
bool fgt_delivery_recent_has(const struct fgt_delivery_recent *recent,
			     int32_t pid, const char *event_id);

#endif
