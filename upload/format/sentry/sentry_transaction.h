/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transaction item of a Sentry envelope: from the facts of the program, or
 * without them from the slice.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_TRANSACTION_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_TRANSACTION_H

#include "ringbuf/base/json.h"
#include "upload/format/parts/options.h"
#include "upload/format/sentry/sentry_profile.h"

struct fgt_sentry_transaction {
	const struct fgt_ring_slice *slice;
	/* Has its spans: a profile may begin after the first of them, and end
	 * before the last. */
	const struct fgt_ring_slice *whole;
	const struct fgt_format_options *options;
	const struct fgt_sentry_profile
		*profile; /* NULL: an envelope without one */
	const char *name;
	char event_id[33], trace_id[33], span_id[17];
	/* CLOCK_MONOTONIC and the wall clock (whole µs) at the same instants;
	 * the end is begin + duration, so that it stays after the begin
	 * when the clock is set. */
	uint64_t begin_ns, end_ns;
	uint64_t begin_wall_ns, end_wall_ns;
};

/* Name and ids are those of the options, else made here. -EINVAL: malformed id;
 * errno of getrandom(2). */
int fgt_sentry_transaction_init(struct fgt_sentry_transaction *transaction,
				const struct fgt_ring_slice *slice,
				const struct fgt_format_options *options);

void fgt_sentry_transaction_set_times(
	struct fgt_sentry_transaction *transaction, uint64_t begin_ns,
	uint64_t end_ns);

/* The time of a transaction in a slice; facts without times mean the slice's
 * last 30 s. */
void fgt_sentry_facts_range(const struct fgt_transaction_facts *facts,
			    const struct fgt_ring_slice *slice,
			    uint64_t *ret_begin_ns, uint64_t *ret_end_ns);

/* The wall clock at another instant of it. */
uint64_t
fgt_sentry_transaction_wall_ns(const struct fgt_sentry_transaction *transaction,
			       uint64_t mono_ns);

/* As the put of a fgt_sentry_body; context: the transaction.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_transaction_put(void *context, struct fgt_json *json);

/* "os": {…} and "device": {…} into an open object. */
void fgt_sentry_put_os_and_device(struct fgt_json *json,
				  const struct fgt_process_info *process,
				  const char *architecture_key);

#endif
