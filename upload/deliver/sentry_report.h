/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was not delivered to Sentry, and why: its client reports, which ride
 * along with an envelope. A server counts by itself what it has answered with
 * 429.
 */
#ifndef FGT_UPLOAD_DELIVER_SENTRY_REPORT_H
#define FGT_UPLOAD_DELIVER_SENTRY_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/json.h"
#include "upload/deliver/ratelimit.h"

/* X(id, Sentry's name) */
#define FGT_DISCARD_REASONS(X)                                                 \
	X(LIMITED, "ratelimit_backoff") /* not sent, by an earlier limit */    \
	X(NETWORK, "network_error") /* no answer to any try */                 \
	X(QUEUE, "queue_overflow")                                             \
	X(CACHE, "cache_overflow") /* left the spool unsent: it was full */    \
	X(SEND, "send_error") /* an answer that is an error, but 429 */        \
	X(NO_DATA, "insufficient_data") /* the ring has it no longer */        \
	X(INTERNAL, "internal_sdk_error") /* not cut, or not encoded */

#define FGT_DISCARD_REASON(id, name) FGT_DISCARD_##id,
enum fgt_discard_reason {
	FGT_DISCARD_REASONS(FGT_DISCARD_REASON) FGT_DISCARD_COUNT
};

/* { 0 }: nothing. */
struct fgt_sentry_discards {
	uint32_t counts[FGT_DISCARD_COUNT][FGT_CATEGORY_COUNT];
};

bool fgt_sentry_discards_are_any(const struct fgt_sentry_discards *discards);
void fgt_sentry_discards_add(struct fgt_sentry_discards *discards,
			     const struct fgt_sentry_discards *more);

/* For struct fgt_sentry_body: the report's JSON. context: one of these. */
struct fgt_sentry_report {
	const struct fgt_sentry_discards *discards;
	uint64_t wall_ns;
};
int fgt_sentry_report_put(void *context, struct fgt_json *json);

#endif
