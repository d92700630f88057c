/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transactions are kept, decided when they end. Clock and chance come
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
#define FGT_SAMPLING_MINUTES	   61 /* an hour and the minute that runs */

/* As in struct fgt_options, defaults filled in. */
struct fgt_sampling_rules {
	double sample_rate; /* 0 to 1 */
	uint64_t min_duration_ns;
	bool is_error_kept;
	uint64_t min_gap_ns;
	uint32_t max_per_hour;
};

/* What a transaction turned out to be. */
struct fgt_sampling_facts {
	uint64_t begin_ns, end_ns;
	bool is_error;
	double share; /* 0 to 1, by its trace: below the sample rate is kept */
};

/* By what the rules say of the transaction itself. MT-Safe | AS-Safe */
bool fgt_sampling_is_wanted(const struct fgt_sampling_rules *rules,
			    const struct fgt_sampling_facts *facts);

/* How many were kept lately; of the whole process. */
struct fgt_sampling_limit {
	/* Not before; its one writer holds the lock. Relaxed: who reads an old
	 * value takes the lock in vain. */
	_Atomic uint64_t next_ns;
	/* Protects the counts; innermost, held for some dozen instructions. */
	pthread_mutex_t lock;
	uint64_t minute; /* since boot, that count[minute % …] is of */
	uint32_t counts[FGT_SAMPLING_MINUTES];
};

void fgt_sampling_limit_init(struct fgt_sampling_limit *limit);

/*
 * May one more be kept at now_ns (CLOCK_MONOTONIC)? True counts it. In no 60
 * minutes are there more than max_per_hour, between no two less than
 * min_gap_ns.
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_sampling_limit_take(struct fgt_sampling_limit *limit,
			     const struct fgt_sampling_rules *rules,
			     uint64_t now_ns);

#endif
