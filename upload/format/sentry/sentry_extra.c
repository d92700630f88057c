/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extra data of a transaction. Runs in any thread; must write the same
 * bytes each time.
 */
#include "upload/format/sentry/sentry_transaction.h"

#include <stdio.h>

#include "ringbuf/slice/pace.h"

/* Fewer missing samples are not reported: one may come late. */
#define PERIODS_MISSED_MIN 3

/* What the profile lacks, and why. */
static void put_profile_notes(const struct fgt_sentry_profile *profile,
			      struct fgt_json *json)
{
	fgt_json_put_uint(json, "cut_ticks", profile->cut_ticks);
	fgt_json_put_uint(json, "single_sample_threads",
			  profile->dropped_threads);
	if (profile->cut_ticks)
		fgt_json_put_string(json, "cut",
				    "the oldest ticks were left out: a profile "
				    "holds at most 30 s and 48 MiB");
	fgt_json_put_uint(json, "thinned_threads", profile->thinned_threads);
	if (profile->thinned_threads)
		fgt_json_put_string(json, "thinned",
				    "the least busy threads have samples at "
				    "changes only, to stay below 10 MiB; "
				    "durations are exact");
}

static void put_unsampled(struct fgt_json *json, const char *key,
			  const char *which, uint64_t ns, uint64_t period_ns)
{
	char text[128];

	if (ns <= PERIODS_MISSED_MIN * period_ns)
		return;
	snprintf(text, sizeof(text),
		 "no samples of the %s %.3f s: the sampler could not run, or "
		 "the ring has dropped them",
		 which, (double)ns / 1e9);
	fgt_json_put_string(json, key, text);
}

/* Ticks missing at the ends are no gap between two ticks. */
static void put_unsampled_ends(const struct fgt_sentry_transaction *transaction,
			       struct fgt_json *json)
{
	const struct fgt_ring_slice *slice = transaction->slice;
	uint32_t last = slice->tick_count - 1;
	uint64_t first_ns = slice->tick_ns[0], last_ns = slice->tick_ns[last];

	if (transaction->begin_ns < first_ns)
		put_unsampled(json, "unsampled_begin", "first",
			      first_ns - transaction->begin_ns,
			      fgt_pace_ns(slice, 0));
	if (transaction->end_ns > last_ns)
		put_unsampled(json, "unsampled_end", "last",
			      transaction->end_ns - last_ns,
			      fgt_pace_ns(slice, last));
}

static const char *
why_no_profile(const struct fgt_sentry_transaction *transaction)
{
	if (transaction->options->without_profile)
		return "the server limits profiles now";
	return transaction->slice->thread_count
		       ? "no thread has two samples in this time"
		       : "nothing was sampled at this time";
}

void fgt_sentry_put_extra(const struct fgt_sentry_transaction *transaction,
			  struct fgt_json *json)
{
	const struct fgt_ring_slice *slice = transaction->slice;
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	fgt_json_begin_object(json, "extra");
	fgt_json_put_int(json, "pid", slice->process.pid);
	fgt_json_put_string(json, "exe", slice->process.exe);
	fgt_json_put_double(json, "effective_hz", slice->effective_hz);
	if (slowest > 1)
		fgt_json_put_string(json, "lowered",
				    "the rate was lowered at times, to keep "
				    "sampling.max_cpu_percent; durations are "
				    "exact");
	fgt_json_put_time(json, "requested_from",
			  fgt_slice_wall_ns(slice, slice->requested_from_ns));
	fgt_json_put_time(json, "requested_to",
			  fgt_slice_wall_ns(slice, slice->requested_to_ns));
	fgt_json_put_uint_string(json, "missed_ticks", slice->missed_ticks);
	fgt_json_put_uint_string(json, "evicted_ticks", slice->evicted_ticks);
	fgt_json_put_uint_string(json, "lapped_ticks", slice->lapped_ticks);
	if (transaction->profile) {
		put_profile_notes(transaction->profile, json);
		put_unsampled_ends(transaction, json);
	} else if (!fgt_sentry_given(transaction->options->profiler_id)) {
		fgt_json_put_string(json, "no_profile",
				    why_no_profile(transaction));
	}
	fgt_json_end_object(json);
}
