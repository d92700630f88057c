/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The "profile" part of a Sentry profile: frames, stacks, samples, threads.
 * Planned once, then written as often as needed, the same bytes each time.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_PROFILE_H
#define FGT_UPLOAD_FORMAT_SENTRY_PROFILE_H

#include "upload/format/format.h"
#include "upload/format/id_map.h"
#include "upload/format/json.h"

/* What is told of each thread of the slice. */
struct fgt_sentry_thread {
	uint32_t first_run, run_end; /* its runs that reach the range */
	uint32_t last_tick; /* the last one that it was seen at */
	uint64_t ticks, running_ticks; /* in the range */
	bool is_kept; /* two samples at least (R1) */
	/* A sample for each change instead of each tick: same durations. */
	bool is_thinned;
};

struct fgt_sentry_profile {
	const struct fgt_slice *slice;
	enum fgt_state_frames state_frames;

	/* Ticks that are told: [first_tick, last_tick]. */
	uint32_t first_tick, last_tick;
	uint32_t cut_ticks; /* older ones, left out */
	uint32_t dropped_threads; /* seen at a single tick */
	uint32_t thinned_threads; /* of those that are kept; all at first */
	bool has_gap_stack;
	uint32_t active_thread; /* index */

	struct fgt_sentry_thread *threads; /* [thread_count] */
	uint32_t *run_stacks; /* [run_count] → stack */
	struct fgt_id_map stacks; /* (leaf, state name) → stack */
	struct fgt_id_map frames; /* frame, or state name: see .c → frame */
	uint32_t *frame_first; /* [frames.count] first id of its levels */
	uint32_t *canonical; /* [frame_count] → frame that shows the same */
};

/*
 * Chooses what to tell of ticks from first_tick on, at most 30 s before the
 * last. -ENODATA if no thread has two samples; -ENOMEM.
 */
int fgt_sentry_profile_init(struct fgt_sentry_profile *profile,
			    const struct fgt_slice *slice,
			    enum fgt_state_frames state_frames,
			    uint32_t first_tick);
void fgt_sentry_profile_done(struct fgt_sentry_profile *profile);

/* The monotonic instants of the first and the last sample. */
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
