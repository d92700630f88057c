/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules and limits of keeping. Runs in the program's threads at the end of each
 * transaction. Must not wait, except for the lock of the counts.
 */
#include "agent/lib/transactions/sampling_rules.h"

#include <string.h>

#define MINUTE_NS (UINT64_C(60) * 1000000000)

bool fgt_sampling_is_wanted(const struct fgt_sampling_rules *rules,
			    const struct fgt_sampling_facts *facts)
{
	if (facts->is_error && rules->is_error_kept)
		return true;
	return facts->share < rules->sample_rate &&
	       facts->end_ns - facts->begin_ns >= rules->min_duration_ns;
}

void fgt_sampling_limit_init(struct fgt_sampling_limit *limit)
{
	memset(limit, 0, sizeof(*limit));
	atomic_init(&limit->next_ns, 0);
	pthread_mutex_init(&limit->lock, NULL);
}

void fgt_sampling_limit_begin(struct fgt_sampling_limit *limit,
			      const struct fgt_sampling_rules *rules,
			      uint64_t now_ns)
{
	uint64_t gap_ns = rules->min_gap_ns, latest_ns = 0;

	if (gap_ns != FGT_SAMPLING_NO_GAP_LIMIT)
		latest_ns = now_ns > UINT64_MAX - gap_ns ? UINT64_MAX
							 : now_ns + gap_ns;
	pthread_mutex_lock(&limit->lock);
	if (atomic_load_explicit(&limit->next_ns, memory_order_relaxed) >
	    latest_ns)
		atomic_store_explicit(&limit->next_ns, latest_ns,
				      memory_order_relaxed);
	pthread_mutex_unlock(&limit->lock);
}

/* Forgets minutes that are more than an hour old. */
static void advance(struct fgt_sampling_limit *limit, uint64_t minute)
{
	if (minute - limit->minute >= FGT_SAMPLING_MINUTES) {
		memset(limit->counts, 0, sizeof(limit->counts));
		limit->minute = minute;
	}
	while (limit->minute < minute)
		limit->counts[++limit->minute % FGT_SAMPLING_MINUTES] = 0;
}

static uint32_t count_hour(const struct fgt_sampling_limit *limit)
{
	uint32_t count = 0;

	for (int i = 0; i < FGT_SAMPLING_MINUTES; i++)
		count += limit->counts[i];
	return count;
}

/* Under the lock. */
static bool take(struct fgt_sampling_limit *limit,
		 const struct fgt_sampling_rules *rules, uint64_t now_ns)
{
	uint64_t gap_ns = rules->min_gap_ns;

	if (now_ns <
	    atomic_load_explicit(&limit->next_ns, memory_order_relaxed))
		return false;
	if (now_ns / MINUTE_NS > limit->minute)
		advance(limit, now_ns / MINUTE_NS);
	if (rules->max_per_hour != FGT_SAMPLING_NO_HOUR_LIMIT &&
	    count_hour(limit) >= rules->max_per_hour)
		return false;
	/* A now_ns that is older than the last minute counts for that. */
	limit->counts[limit->minute % FGT_SAMPLING_MINUTES]++;
	if (gap_ns != FGT_SAMPLING_NO_GAP_LIMIT)
		atomic_store_explicit(&limit->next_ns,
				      now_ns > UINT64_MAX - gap_ns
					      ? UINT64_MAX
					      : now_ns + gap_ns,
				      memory_order_relaxed);
	return true;
}

bool fgt_sampling_limit_take(struct fgt_sampling_limit *limit,
			     const struct fgt_sampling_rules *rules,
			     uint64_t now_ns)
{
	bool is_taken;

	/* Many transactions at once leave here, without the lock. */
	if (now_ns <
	    atomic_load_explicit(&limit->next_ns, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&limit->lock);
	is_taken = take(limit, rules, now_ns);
	pthread_mutex_unlock(&limit->lock);
	return is_taken;
}
