/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The "profile" part of a Sentry profile: frames, stacks, samples, threads.
 * Planned once, then written as often as needed, the same bytes each time.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_PROFILE_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_PROFILE_H

#include "ringbuf/base/json.h"
#include "upload/format/parts/id_map.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/transaction.h"

/* Relay refuses a profile whose last sample is later than this. */
#define FGT_SENTRY_PROFILE_MAX_NS UINT64_C(30000000000)

/* What is written of one thread of the slice. */
struct fgt_sentry_thread {
	uint32_t first_run, run_end; /* its runs that reach the range */
	uint32_t last_tick; /* with a sample of it */
	uint64_t ticks, running_ticks; /* in the range */
	bool is_kept; /* two samples at least, or Sentry refuses it */
	/* A sample for each change instead of each tick: same durations. */
	bool is_thinned;
};

/* What to write, and in which version of the format. */
struct fgt_sentry_scope {
	enum fgt_state_frames state_frames;
	uint32_t first_tick; /* older ones are left out */
	/* Version 2: samples have the wall clock, which is wall_offset_ns ahead
	 * of the monotonic one. Version 1: the time since the first sample. */
	bool is_wall;
	uint64_t wall_offset_ns;
	/* Version 1: times count from here, if no sample is older and none
	 * would be too late; 0: from the first sample. */
	uint64_t zero_ns;
	/* Of the transaction: the active thread. NULL: the busiest one. */
	const struct fgt_transaction_facts *facts;
};

struct fgt_sentry_profile {
	const struct fgt_ring_slice *slice;
	struct fgt_sentry_scope scope;

	/* Ticks that are written: [first_tick, last_tick]. */
	uint32_t first_tick, last_tick;
	uint32_t cut_ticks; /* older ones, left out */
	uint32_t dropped_threads; /* of a single sample */
	uint32_t thinned_threads; /* of those that are kept; all at first */
	bool has_gap_stack;
	uint32_t active_thread; /* index */

	struct fgt_sentry_thread *threads; /* [thread_count] */
	uint32_t *run_stacks; /* [run_count] → stack */
	struct fgt_id_map stacks; /* (leaf, state name) → stack */
	struct fgt_id_map
		frames; /* frame or state name (sentry_keys.h) → frame */
	uint32_t *frame_first; /* [frames.count] first id of its levels */
	uint32_t *canonical; /* [frame_count] → first frame of equal content */
};

/*
 * Plans the ticks from scope->first_tick on, at most the last 30 s. -ENODATA if
 * no thread has two samples; -ENOMEM.
 */
int fgt_sentry_profile_init(struct fgt_sentry_profile *profile,
			    const struct fgt_ring_slice *slice,
			    const struct fgt_sentry_scope *scope);
void fgt_sentry_profile_done(struct fgt_sentry_profile *profile);

/* The monotonic instants that times count from, and of the last sample. */
uint64_t fgt_sentry_profile_start_ns(const struct fgt_sentry_profile *profile);
uint64_t fgt_sentry_profile_end_ns(const struct fgt_sentry_profile *profile);

/*
 * Writes "profile": {…} into an open object. -ENOMEM; the sink's errors stay
 * in json.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_profile_put(const struct fgt_sentry_profile *profile,
			   struct fgt_json *json);

#endif
