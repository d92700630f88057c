/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The "spans" of a Sentry transaction: the tasks and spans of a slice.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_SPANS_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_SPANS_H

#include "ringbuf/base/json.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/parts/transaction.h"

/* Sentry drops all spans above this number; the longest ones are written. */
#define FGT_SENTRY_SPANS_MAX 1000

/* The transaction that they belong to; borrowed. */
struct fgt_sentry_spans {
	const struct fgt_ring_slice *slice;
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t begin_wall_ns; /* the same instant; whole µs */
	const char *trace_id; /* 32 hex digits */
	const char *span_id; /* of the transaction, 16 hex digits */
	/* Only spans of these threads that began since begin_ns; count 0: all
	 * that overlap, cut to fit. */
	const struct fgt_thread_run *thread_runs;
	size_t thread_run_count;
};

/*
 * Writes the key "spans" with its array, also if that is empty; the same bytes
 * each time. At most 900 KiB, since a transaction may have 1 MiB. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_spans_put(const struct fgt_sentry_spans *about,
			 struct fgt_json *json);

#endif
