/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction on its way into an envelope: what sentry.c decides, and
 * sentry_extra.c describes.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_TRANSACTION_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_TRANSACTION_H

#include "upload/format/parts/options.h"
#include "upload/format/sentry/sentry_envelope.h"
#include "upload/format/sentry/sentry_profile.h"

struct fgt_sentry_transaction {
	const struct fgt_ring_slice *slice;
	/* Has its spans: a profile may begin after the first of them, and end
	 * before the last. */
	const struct fgt_ring_slice *whole;
	const struct fgt_format_options *options;
	/* NULL: an envelope without one. */
	const struct fgt_sentry_profile *profile;
	const char *name;
	/* Its thread if neither facts nor a profile name one; 0: unknown. */
	int32_t active_tid;
	char event_id[33], trace_id[33], span_id[17];
	/* CLOCK_MONOTONIC and the wall clock (whole µs) at the same instants;
	 * the end is begin + duration, so that it stays after the begin
	 * when the clock is set. */
	uint64_t begin_ns, end_ns;
	uint64_t begin_wall_ns, end_wall_ns;
};

/*
 * "extra": {…} into an open object: what is worth knowing of the slice, and
 * what its profile lacks.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_sentry_put_extra(const struct fgt_sentry_transaction *transaction,
			  struct fgt_json *json);

#endif
