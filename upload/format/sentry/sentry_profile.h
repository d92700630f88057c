/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The "profile" part of a Sentry profile: frames, stacks, samples, threads.
 * Planned once, then written as often as needed, the same bytes each time.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_PROFILE_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/id_map.h"
#include "ringbuf/base/json.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/transaction.h"
#include "upload/format/sentry/sentry_envelope.h"

/* Relay refuses a profile whose last sample is later than this. */
#define FGT_SENTRY_PROFILE_MAX_NS UINT64_C(30000000000)

/* How a thread is written that has no sample at the profile's last tick. For
 * Sentry a sample lasts until the next one of its tid, so the last one of a
 * thread needs one that closes it. */
enum fgt_sentry_close {
	FGT_SENTRY_CLOSE_NONE, /* no: another of its tid goes on at once */
	FGT_SENTRY_CLOSE_STACK, /* with its stack again, one tick later */
	FGT_SENTRY_CLOSE_GAP, /* as a gap: another one of its tid comes later */
};

/* What is written of one thread of the slice. */
struct fgt_sentry_thread {
	uint32_t first_run, run_end; /* its runs that reach the range */
	uint32_t last_tick; /* with a sample of it */
	uint64_t ticks, running_ticks; /* in the range */
	enum fgt_sentry_close close;
	/* Two samples at least, with the closing one, or Sentry refuses it. */
	bool is_kept;
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
	/* The transaction, which names the active thread. NULL: the busiest
	 * thread is active. */
	const struct fgt_transaction_facts *facts;
};

struct fgt_sentry_profile {
	const struct fgt_ring_slice *slice;
	struct fgt_sentry_scope scope;

	/* Ticks that are written: [first_tick, last_tick]. */
	uint32_t first_tick, last_tick;
	uint32_t cut_ticks; /* older ones, left out */
	uint32_t dropped_threads; /* of a single sample, at the last tick */
	uint32_t thinned_threads; /* of those that are kept; all at first */
	bool has_gap_stack;
	uint32_t active_thread; /* index */

	struct fgt_sentry_thread *threads; /* [thread_count] */
	uint32_t *run_stacks; /* [run_count] → stack */
	struct fgt_id_map stacks; /* (leaf, state name) → stack */
	struct fgt_id_map frames; /* frame or level → frame */
	uint32_t *frame_first; /* [frames.count + 1] first id of its levels */
	uint32_t *canonical; /* [frame_count] → first frame of equal content */
};

/*
 * Plans the ticks from scope->first_tick on, at most the last 30 s. -ENODATA if
 * there are no two ticks with samples, or no thread is kept; -ENOMEM.
 */
int fgt_sentry_profile_init(struct fgt_sentry_profile *profile,
			    const struct fgt_ring_slice *slice,
			    const struct fgt_sentry_scope *scope);
void fgt_sentry_profile_done(struct fgt_sentry_profile *profile);

/*
 * Plans a profile whose item is small enough:
 *  - Up to 10 MiB each thread has a sample a tick. Beyond that, only the active
 *    thread and those that ran or changed their stack have, the busiest first;
 *    the other ones have a sample a change.
 *  - Beyond 48 MiB the oldest ticks are left out.
 * body writes the item of *profile. Errors of fgt_sentry_profile_init() and of
 * the body; fgt_sentry_profile_done() follows in any case.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_profile_fit(struct fgt_sentry_profile *profile,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_sentry_scope *scope,
			   const struct fgt_sentry_body *body,
			   uint64_t *ret_len);

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

/*
 * The tables that samples point into: "frames": […] and "stacks": […] into an
 * open object. -EINVAL if the plan lacks a frame.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_sentry_frames_put(const struct fgt_sentry_profile *profile,
			   struct fgt_json *json);
int fgt_sentry_stacks_put(const struct fgt_sentry_profile *profile,
			  struct fgt_json *json);

/* ---- Keys of stacks and frames ------------------------------------------ */

/* A stack: its leaf node and the string id of its state's name. */
static inline uint64_t fgt_sentry_stack_key(uint32_t leaf, uint32_t state_name)
{
	return (uint64_t)leaf << 32 | state_name;
}

/* No samples. (No slice has that many nodes.) */
#define FGT_SENTRY_GAP_STACK ((uint64_t)(UINT32_MAX - 1) << 32)

/* Frames of one stack: a slice's, and the state. */
#define FGT_SENTRY_FRAMES_MAX (FGT_SLICE_DEPTH_MAX + 1)

/*
 * The frames of a stack, leaf first; returns how many. A key is the index of a
 * frame of the slice, or that of a level; no such level is of kind 0.
 */
size_t fgt_sentry_stack_frames(const struct fgt_sentry_profile *profile,
			       uint64_t stack,
			       uint64_t ret_keys[FGT_SENTRY_FRAMES_MAX]);

#endif
