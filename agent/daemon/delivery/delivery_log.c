/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for the ends and the pauses of deliveries. Runs in the daemon's loop.
 */
#include "agent/daemon/delivery/delivery_log.h"

#include <stdbool.h>
#include <stdio.h>

#include "agent/daemon/loop/log.h"

#define TRIES_SIZE 32

/* "" unless it took several. */
static const char *describe_tries(unsigned int tries, char text[TRIES_SIZE])
{
	text[0] = '\0';
	if (tries > 1)
		snprintf(text, TRIES_SIZE, " after %u tries", tries);
	return text;
}

void fgt_delivery_log_done(const struct fgt_delivery_about *about,
			   const struct fgt_delivery_result *result)
{
	char tries[TRIES_SIZE];

	fgt_log(FGT_LOG_INFO, "delivered",
		"pid %d, '%s' to %s%s: event %s, %llu bytes", about->pid,
		about->name, result->where, describe_tries(about->tries, tries),
		result->event_id, (unsigned long long)result->bytes);
}

void fgt_delivery_log_retry(const struct fgt_delivery_about *about,
			    uint64_t seconds, unsigned int tries_max,
			    const char *why)
{
	bool is_warned = (about->tries & (about->tries - 1)) == 0;

	fgt_log(is_warned ? FGT_LOG_WARNING : FGT_LOG_DEBUG, "delivery_retry",
		"pid %d, '%s' in %llu s, try %u of %u failed: %s", about->pid,
		about->name, (unsigned long long)seconds, about->tries,
		tries_max, why);
}

void fgt_delivery_log_given_up(const struct fgt_delivery_about *about,
			       const char *where, const char *why)
{
	char tries[TRIES_SIZE];

	fgt_log(FGT_LOG_WARNING, "undelivered", "pid %d, '%s'%s%s%s: %s",
		about->pid, about->name, *where ? " to " : "", where,
		describe_tries(about->tries, tries), why);
}
