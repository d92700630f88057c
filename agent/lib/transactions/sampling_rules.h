/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides at the end of a transaction whether it is kept. Time and chance come
 * from the caller.
 */
#ifndef FGT_AGENT_LIB_TRANSACTIONS_SAMPLING_RULES_H
#define FGT_AGENT_LIB_TRANSACTIONS_SAMPLING_RULES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FGT_SAMPLING_NO_GAP_LIMIT  UINT64_MAX
#define FGT_SAMPLING_NO_HOUR_LIMIT UINT32_MAX
#define FGT_SAMPLING_MINUTES	   61 /* an hour and the current minute */

/* The fields of struct fgt_options, with defaults filled in. */
struct fgt_sampling_rules {
	double sample_rate; /* 0 to 1 */
	uint64_t min_duration_ns;
	bool is_error_kept;
	uint64_t min_gap_ns;
	uint32_t max_per_hour;
};

/* One transaction at its end. */
struct fgt_sampling_facts {
	uint64_t begin_ns, end_ns;
	bool is_error;
	double share; /* 0 to 1, by its trace: kept if below sample_rate */
};

/* The answer of the rules for one transaction, without the limits.
 * MT-Safe | AS-Safe */
bool fgt_sampling_is_wanted(const struct fgt_sampling_rules *rules,
			    const struct fgt_sampling_facts *facts);

/* Counts of kept transactions, of the whole process. */
struct fgt_sampling_limit {
	/* Earliest time of the next one. Written under the lock. Relaxed: a
	 * reader of an old value takes the lock needlessly. */
	_Atomic uint64_t next_ns;
	/* Protects the counts. Innermost, held for about 50 instructions. */
	pthread_mutex_t lock;
	uint64_t minute; /* since boot; the last one in counts */
	uint32_t counts[FGT_SAMPLING_MINUTES];
};

void fgt_sampling_limit_init(struct fgt_sampling_limit *limit);

/* New rules: what was kept before counts, but no longer than by their gap.
 * MT-Safe | AS-Unsafe */
void fgt_sampling_limit_begin(struct fgt_sampling_limit *limit,
			      const struct fgt_sampling_rules *rules,
			      uint64_t now_ns);

/*
 * True, and counted: one more may be kept at now_ns (CLOCK_MONOTONIC). At most
 * max_per_hour in any 60 minutes, at least min_gap_ns between two.
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_sampling_limit_take(struct fgt_sampling_limit *limit,
			     const struct fgt_sampling_rules *rules,
			     uint64_t now_ns);

#endif
