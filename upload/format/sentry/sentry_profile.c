/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans a Sentry profile: which ticks, threads, stacks and frames it has. Runs
 * in any thread; must not keep anything that grows with the number of samples.
 */
#include "upload/format/sentry/sentry_profile.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/timeline.h"

static uint32_t run_end(const struct fgt_run *run)
{
	return run->first_tick + run->tick_count;
}

/* The first and last tick of any run at or after first_tick. */
static int find_range(struct fgt_sentry_profile *profile, uint32_t first_tick)
{
	const struct fgt_ring_slice *slice = profile->slice;
	uint32_t first = UINT32_MAX, last = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t start = run->first_tick;

		if (run_end(run) <= first_tick)
			continue;
		if (start < first_tick)
			start = first_tick;
		if (start < first)
			first = start;
		if (run_end(run) - 1 > last)
			last = run_end(run) - 1;
	}
	if (first >= last)
		return -ENODATA;
	profile->first_tick = first;
	profile->last_tick = last;
	return 0;
}

/* Cuts the oldest ticks until the profile is short enough for Relay. */
static int choose_ticks(struct fgt_sentry_profile *profile, uint32_t first_tick)
{
	const uint64_t *tick_ns = profile->slice->tick_ns;
	uint32_t uncut;
	int r;

	r = find_range(profile, 0);
	if (r)
		return r;
	uncut = profile->first_tick;
	if (first_tick < uncut)
		first_tick = uncut;
	while (first_tick < profile->last_tick &&
	       tick_ns[profile->last_tick] - tick_ns[first_tick] >
		       FGT_SENTRY_PROFILE_MAX_NS)
		first_tick++;
	/* The tick of the cut may have no sample: begin at one. */
	r = find_range(profile, first_tick);
	if (r)
		return r;
	profile->cut_ticks = profile->first_tick - uncut;
	return 0;
}

static uint32_t ticks_in_range(const struct fgt_sentry_profile *profile,
			       const struct fgt_run *run)
{
	uint32_t start = run->first_tick;

	if (start < profile->first_tick)
		start = profile->first_tick;
	return run_end(run) > start ? run_end(run) - start : 0;
}

/* The thread that began the transaction, else the first of the process. */
static bool is_principal(const struct fgt_sentry_profile *profile, int32_t tid)
{
	const struct fgt_transaction_facts *facts = profile->scope.facts;

	return facts && facts->active_tid ? tid == facts->active_tid
					  : tid == profile->slice->process.pid;
}

/* In this order: running ticks, all ticks, the lower tid. */
static void prefer_thread(struct fgt_sentry_profile *profile, uint32_t thread,
			  uint64_t best[2])
{
	const struct fgt_ring_slice *slice = profile->slice;
	uint64_t ticks = profile->threads[thread].ticks;
	uint64_t running = profile->threads[thread].running_ticks;

	if (is_principal(profile, slice->threads[thread].tid))
		running = UINT64_MAX;
	if (running < best[0] || (running == best[0] && ticks <= best[1]))
		return;
	best[0] = running;
	best[1] = ticks;
	profile->active_thread = thread;
}

/* Runs are ordered by thread: one pass fills the threads. */
static void count_runs(struct fgt_sentry_profile *profile)
{
	const struct fgt_ring_slice *slice = profile->slice;
	uint32_t i = 0;

	for (uint32_t t = 0; t < slice->thread_count; t++) {
		struct fgt_sentry_thread *thread = &profile->threads[t];

		thread->first_run = thread->run_end = i;
		for (; i < slice->run_count && slice->runs[i].thread == t;
		     i++) {
			uint32_t covered =
				ticks_in_range(profile, &slice->runs[i]);

			if (!thread->ticks)
				thread->first_run = i;
			thread->ticks += covered;
			if (slice->runs[i].state == FGT_STATE_RUNNING)
				thread->running_ticks += covered;
			thread->last_tick = run_end(&slice->runs[i]) - 1;
		}
		thread->run_end = i;
	}
}

/* next: the first tick of the next thread of that tid, UINT32_MAX if there is
 * none. */
static enum fgt_sentry_close close_of(const struct fgt_sentry_profile *profile,
				      const struct fgt_sentry_thread *thread,
				      uint32_t next)
{
	uint32_t last = thread->last_tick;

	if (last >= profile->last_tick)
		return FGT_SENTRY_CLOSE_NONE;
	if (next == UINT32_MAX)
		return FGT_SENTRY_CLOSE_STACK;
	return next > last + 1 || fgt_timeline_is_gap(profile->slice, last)
		       ? FGT_SENTRY_CLOSE_GAP
		       : FGT_SENTRY_CLOSE_NONE;
}

/* Backward: what closes a thread depends on the next one of its tid. */
static void choose_closes(struct fgt_sentry_profile *profile)
{
	const struct fgt_ring_slice *slice = profile->slice;
	uint32_t next = UINT32_MAX;
	int32_t tid = 0;

	for (uint32_t t = slice->thread_count; t-- > 0;) {
		struct fgt_sentry_thread *thread = &profile->threads[t];
		uint32_t first;

		if (!thread->ticks || slice->threads[t].tid <= 0)
			continue;
		if (slice->threads[t].tid != tid)
			next = UINT32_MAX;
		thread->close = close_of(profile, thread, next);
		thread->is_kept = thread->ticks >= 2 ||
				  thread->close != FGT_SENTRY_CLOSE_NONE ||
				  next != UINT32_MAX;
		if (!thread->is_kept)
			continue;
		tid = slice->threads[t].tid;
		first = slice->runs[thread->first_run].first_tick;
		next = first > profile->first_tick ? first
						   : profile->first_tick;
	}
}

static int choose_threads(struct fgt_sentry_profile *profile)
{
	uint64_t best[2] = { 0, 0 };

	profile->active_thread = UINT32_MAX;
	count_runs(profile);
	choose_closes(profile);
	for (uint32_t t = 0; t < profile->slice->thread_count; t++) {
		struct fgt_sentry_thread *thread = &profile->threads[t];

		profile->dropped_threads += thread->ticks && !thread->is_kept;
		thread->is_thinned = thread->is_kept;
		profile->thinned_threads += thread->is_kept;
		if (thread->is_kept)
			prefer_thread(profile, t, best);
	}
	return profile->active_thread == UINT32_MAX ? -ENODATA : 0;
}

static bool has_same_content(const struct fgt_ring_slice *slice,
			     const struct fgt_slice_frame *a,
			     const struct fgt_slice_frame *b)
{
	if (a->frame.image != b->frame.image ||
	    a->symbol_count != b->symbol_count ||
	    (a->frame.flags ^ b->frame.flags) & FGT_FRAME_MARKER)
		return false;
	return !a->symbol_count ||
	       !memcmp(slice->symbols + a->symbol_first,
		       slice->symbols + b->symbol_first,
		       a->symbol_count * sizeof(*slice->symbols));
}

/* An address that was sampled as leaf and as caller needs one frame only. */
static int find_canonical_frames(struct fgt_sentry_profile *profile)
{
	const struct fgt_ring_slice *slice = profile->slice;
	struct fgt_id_map first = { 0 };
	uint32_t *first_frame;
	int r = 0;

	if (!FGT_ARRAY_NEW(first_frame, slice->frame_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->frame_count && !r; i++) {
		const struct fgt_slice_frame *frame = &slice->frames[i];
		uint32_t known = first.count, id;

		profile->canonical[i] = i;
		r = fgt_id_map_add(&first, frame->frame.address, &id);
		if (r)
			break;
		if (first.count > known)
			first_frame[id] = i;
		else if (has_same_content(slice, frame,
					  &slice->frames[first_frame[id]]))
			profile->canonical[i] = first_frame[id];
	}
	fgt_id_map_done(&first);
	free(first_frame);
	return r;
}

static int add_stack(struct fgt_sentry_profile *profile, uint64_t key,
		     uint32_t *ret_stack)
{
	uint32_t known = profile->stacks.count, ignored;
	uint64_t frames[FGT_SENTRY_FRAMES_MAX];
	int r = fgt_id_map_add(&profile->stacks, key, ret_stack);
	size_t count = 0;

	if (!r && profile->stacks.count > known)
		count = fgt_sentry_stack_frames(profile, key, frames);
	for (size_t i = 0; i < count && !r; i++)
		r = fgt_id_map_add(&profile->frames, frames[i], &ignored);
	return r;
}

static int add_run(struct fgt_sentry_profile *profile, uint32_t index)
{
	const struct fgt_ring_slice *slice = profile->slice;
	const struct fgt_run *run = &slice->runs[index];
	uint32_t state = 0;

	if (!profile->threads[run->thread].is_kept ||
	    !ticks_in_range(profile, run))
		return 0;
	if (profile->scope.state_frames != FGT_STATE_FRAMES_NO)
		state = fgt_levels_state_name(slice, run->state);
	return add_stack(profile, fgt_sentry_stack_key(run->stack, state),
			 &profile->run_stacks[index]);
}

/* Whether the profile has a time without samples of a thread. */
static bool has_gap(const struct fgt_sentry_profile *profile)
{
	const struct fgt_ring_slice *slice = profile->slice;

	for (uint32_t i = profile->first_tick; i < profile->last_tick; i++)
		if (fgt_timeline_is_gap(slice, i))
			return true;
	for (uint32_t i = 1; i < slice->run_count; i++)
		if (slice->runs[i].thread == slice->runs[i - 1].thread &&
		    slice->runs[i].first_tick != run_end(&slice->runs[i - 1]))
			return true;
	for (uint32_t i = 0; i < slice->thread_count; i++)
		if (profile->threads[i].close == FGT_SENTRY_CLOSE_GAP)
			return true;
	return false;
}

static int number_frames(struct fgt_sentry_profile *profile)
{
	uint32_t next = 0;

	if (!FGT_ARRAY_NEW(profile->frame_first, profile->frames.count))
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->frames.count; i++) {
		uint64_t key = profile->frames.keys[i];

		profile->frame_first[i] = next;
		next += key >> 32 ? 1
				  : fgt_levels_of_frame(profile->slice,
							(uint32_t)key);
	}
	profile->frame_first[profile->frames.count] = next;
	return 0;
}

static int collect(struct fgt_sentry_profile *profile)
{
	uint32_t ignored;
	int r;

	r = find_canonical_frames(profile);
	for (uint32_t i = 0; i < profile->slice->run_count && !r; i++)
		r = add_run(profile, i);
	profile->has_gap_stack = has_gap(profile);
	/* Added last: fgt_sentry_profile_put() finds it there. */
	if (!r && profile->has_gap_stack)
		r = add_stack(profile, FGT_SENTRY_GAP_STACK, &ignored);
	return r ? r : number_frames(profile);
}

static int allocate(struct fgt_sentry_profile *profile)
{
	const struct fgt_ring_slice *slice = profile->slice;

	if (!FGT_ARRAY_NEW(profile->threads, slice->thread_count) ||
	    !FGT_ARRAY_NEW(profile->run_stacks, slice->run_count) ||
	    !FGT_ARRAY_NEW(profile->canonical, slice->frame_count))
		return -ENOMEM;
	return 0;
}

int fgt_sentry_profile_init(struct fgt_sentry_profile *profile,
			    const struct fgt_ring_slice *slice,
			    const struct fgt_sentry_scope *scope)
{
	int r;

	*profile = (struct fgt_sentry_profile){
		.slice = slice,
		.scope = *scope,
	};
	r = allocate(profile);
	if (!r)
		r = choose_ticks(profile, scope->first_tick);
	if (!r)
		r = choose_threads(profile);
	if (!r)
		r = collect(profile);
	if (r)
		fgt_sentry_profile_done(profile);
	return r;
}

void fgt_sentry_profile_done(struct fgt_sentry_profile *profile)
{
	free(profile->threads);
	free(profile->run_stacks);
	free(profile->canonical);
	free(profile->frame_first);
	fgt_id_map_done(&profile->stacks);
	fgt_id_map_done(&profile->frames);
	*profile = (struct fgt_sentry_profile){ 0 };
}

uint64_t fgt_sentry_profile_start_ns(const struct fgt_sentry_profile *profile)
{
	uint64_t zero_ns = profile->scope.zero_ns;

	return zero_ns &&
			       zero_ns <=
				       profile->slice
					       ->tick_ns[profile->first_tick] &&
			       fgt_sentry_profile_end_ns(profile) - zero_ns <=
				       FGT_SENTRY_PROFILE_MAX_NS
		       ? zero_ns
		       : profile->slice->tick_ns[profile->first_tick];
}

uint64_t fgt_sentry_profile_end_ns(const struct fgt_sentry_profile *profile)
{
	return profile->slice->tick_ns[profile->last_tick];
}
