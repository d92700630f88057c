/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what is shown of a thread at which instant. Runs in any thread; must
 * not hold more than two stacks.
 */
#include "upload/format/parts/drawing.h"

#include "ringbuf/slice/edge.h"
#include "upload/format/parts/reasons.h"
#include "upload/format/parts/timeline.h"

/* Seven of these between two ticks are 3 % of the time. */
#define BRIEF_NS 50000u

struct drawn {
	const struct fgt_ring_slice *slice;
	const struct fgt_drawing *drawing;
	struct fgt_levels levels[2]; /* of stacks that are compared */
	uint64_t last_ns; /* of its last change, 0: none yet */
	uint32_t next_edge; /* of the slice, not yet read */
	struct fgt_edge_list edges; /* of the tick that is being written */
	/* [0]: blocked, [1]: running. The last run that was written, and the
	 * first one from the one that is written on; NULL: there is none. */
	const struct fgt_run *seen[2], *coming[2];
	const struct fgt_run *end; /* of the thread's runs */
	/* A state, and what it is without its reason. */
	uint32_t reasoned, base;
	/* Drawn as running so far, less what the ticks amount to. */
	int64_t ahead_ns;
};

void fgt_levels_expand_shown(struct fgt_levels *levels,
			     const struct fgt_shown *shown)
{
	if (shown->is_brief && levels->state_frames == FGT_STATE_FRAMES_LEAF)
		fgt_levels_expand_bare(levels, shown->blocked_stack);
	else if (shown->is_sampled)
		fgt_levels_expand(levels, shown->stack, shown->state);
	else
		fgt_levels_expand_unsampled(levels, shown->stack, shown->state);
}

uint32_t fgt_levels_in_common(const struct fgt_levels *a,
			      const struct fgt_levels *b)
{
	uint32_t common = 0;

	while (common < a->count && common < b->count &&
	       fgt_level_is_equal(a->items[a->count - 1 - common],
				  b->items[b->count - 1 - common]))
		common++;
	return common;
}

static void show(struct drawn *track, const struct fgt_shown *shown,
		 uint64_t mono_ns)
{
	if (track->drawing->show(track->drawing->context, shown, mono_ns))
		track->last_ns = mono_ns;
}

/* ---- Between two ticks -------------------------------------------------- */

static bool is_blocked(const struct fgt_run *run)
{
	return fgt_state_is_blocked(run->state);
}

static bool is_running(const struct fgt_run *run)
{
	return run->state == FGT_STATE_RUNNING;
}

static uint64_t midway(uint64_t from_ns, uint64_t to_ns)
{
	return from_ns + (to_ns - from_ns) / 2;
}

static bool is_like(const struct fgt_run *run, bool is_on)
{
	return is_on ? is_running(run) : is_blocked(run);
}

static bool is_ever(const struct drawn *track, bool is_on)
{
	return track->seen[is_on] || track->coming[is_on];
}

/* Whether both show the same. */
static bool is_same_shown(struct drawn *track, const struct fgt_run *a,
			  const struct fgt_run *b)
{
	struct fgt_levels *levels = track->levels;

	if (!a || !b || a->state != b->state)
		return false;
	if (a->stack == b->stack)
		return true;
	fgt_levels_expand(&levels[0], a->stack, a->state);
	fgt_levels_expand(&levels[1], b->stack, b->state);
	return levels[0].count == levels[1].count &&
	       fgt_levels_in_common(&levels[0], &levels[1]) == levels[0].count;
}

/* What ends when another thread gives it up or ends: the thread has it now, and
 * the next such wait is no continuation. */
static bool is_over(const struct drawn *track, const struct fgt_run *run)
{
	switch (run->wait ? track->slice->waits[run->wait - 1].kind
			  : (uint32_t)FGT_WAIT_UNKNOWN) {
	case FGT_WAIT_MUTEX:
	case FGT_WAIT_RWLOCK:
	case FGT_WAIT_PI_LOCK:
	case FGT_WAIT_JOIN:
	case FGT_WAIT_CHILD:
		return true;
	default:
		return false;
	}
}

static uint32_t without_reason(struct drawn *track, uint32_t state)
{
	if (state != track->reasoned) {
		track->reasoned = state;
		track->base = fgt_reasons_base(track->slice, state);
	}
	return track->base;
}

/*
 * With the stack that the thread was last seen with, or is seen with next, in
 * that state. There is no marker where both are the same, as there is none
 * between two ticks of one run: all samples around it show this stack, so the
 * time that is marked is that of the ticks. A thread that no tick found so has
 * the last stack that is known of it, marked: most frames stay. A block is
 * another one than those that the ticks found, so it has no reason, and if they
 * differ no call.
 */
static void show_unseen(struct drawn *track, bool is_on, uint64_t begin_ns,
			uint64_t end_ns)
{
	const struct fgt_run *seen = track->seen[is_on];
	const struct fgt_run *like = seen ? seen : track->coming[is_on];
	const struct fgt_run *known = like ? like : track->seen[!is_on];
	const struct fgt_run *blocked = track->seen[false];
	struct fgt_shown shown = {
		.stack = known ? known->stack : FGT_NODE_NONE,
		.state = is_on ? FGT_STATE_RUNNING : FGT_STATE_UNKNOWN,
		.is_sampled =
			is_same_shown(track, seen, track->coming[is_on]) &&
			!is_over(track, seen),
	};

	if (!is_on && shown.is_sampled)
		shown.state = without_reason(track, seen->state);
	if (is_on && blocked && !shown.is_sampled &&
	    end_ns - begin_ns < BRIEF_NS) {
		shown.is_brief = true;
		shown.blocked_stack = blocked->stack;
	}
	show(track, &shown, begin_ns);
}

/*
 * All that edges show of the time between two ticks; returns when what the
 * later one shows began. Waits for a CPU have no edges and change midway.
 */
static uint64_t show_edges(struct drawn *track, const struct fgt_run *before,
			   const struct fgt_run *after, const uint64_t *tick_ns)
{
	const struct fgt_edge_list *edges = &track->edges;
	bool is_on = !edges->is_on_first;
	uint64_t from_ns = tick_ns[-1], end_ns;

	/* It had been put off its CPU, and got one again. */
	if (is_on && !is_running(before) && edges->ns[0] > from_ns + 4) {
		from_ns = midway(from_ns, edges->ns[0]);
		show_unseen(track, is_on, from_ns, UINT64_MAX);
	}
	for (uint32_t i = 0; i < edges->count; i++) {
		if (is_on)
			track->ahead_ns += (int64_t)(edges->ns[i] - from_ns);
		is_on = !is_on;
		from_ns = edges->ns[i];
		if (i + 1 < edges->count || !is_like(after, is_on))
			show_unseen(track, is_on, from_ns,
				    i + 1 < edges->count ? edges->ns[i + 1]
							 : UINT64_MAX);
	}
	end_ns = is_like(after, is_on) ? tick_ns[0]
				       : midway(from_ns, tick_ns[0]);
	if (is_on)
		track->ahead_ns += (int64_t)(end_ns - from_ns);
	return is_like(after, is_on) ? from_ns : end_ns;
}

/*
 * Nothing shows when it changed. From or to running: so that what was drawn too
 * much, or too little, is made up for.
 */
static uint64_t show_change(struct drawn *track, const struct fgt_run *before,
			    const struct fgt_run *after,
			    const uint64_t *tick_ns)
{
	int64_t apart_ns = (int64_t)(tick_ns[0] - tick_ns[-1]);
	int64_t into_ns = apart_ns / 2;

	if (is_running(before) != is_running(after))
		into_ns += is_running(before) ? -track->ahead_ns
					      : track->ahead_ns;
	if (into_ns > apart_ns - 1)
		into_ns = apart_ns - 1;
	if (into_ns < 2)
		into_ns = 2;
	if (is_running(before))
		track->ahead_ns += into_ns;
	if (is_running(after))
		track->ahead_ns += apart_ns - into_ns;
	return tick_ns[-1] + (uint64_t)into_ns;
}

/*
 * After the instant of the tick before, and what was written last. A tick's
 * time is read when the sampler gets a CPU, which may be late; its instant is
 * later than the time of the tick before it. Of several processes, one that is
 * sampled less often has no look at some ticks.
 */
static uint64_t earliest_edge_ns(const struct drawn *track,
				 const uint64_t *tick_ns)
{
	const uint64_t *first_ns = track->slice->tick_ns;
	bool is_of_one = !track->slice->process_count;
	uint64_t after_ns = is_of_one && tick_ns - first_ns > 1 ? tick_ns[-2]
								: *first_ns;

	if (after_ns < track->last_ns)
		after_ns = track->last_ns;
	return after_ns + 2;
}

/* Leaves in track->edges all that happened between the tick before and this
 * one, if that is known. */
static bool take_edges(struct drawn *track, const struct fgt_run *before,
		       const struct fgt_run *after, uint32_t tick)
{
	const uint64_t *tick_ns = &track->slice->tick_ns[tick];
	struct fgt_edge_list *edges = &track->edges;

	fgt_edges_take(track->slice, &track->next_edge, after->thread, tick,
		       earliest_edge_ns(track, tick_ns), edges);
	/* A thread that no tick found blocked is shown running throughout. */
	return edges->count && is_ever(track, false) &&
	       fgt_edges_are_possible(edges->is_on_first, edges->count,
				      before->state, after->state);
}

/* What was between the tick before, of the same thread, and this one; returns
 * when what this one shows began, 0: it just went on. */
static uint64_t show_between(struct drawn *track, const struct fgt_run *before,
			     const struct fgt_run *after, uint32_t tick)
{
	const uint64_t *tick_ns = &track->slice->tick_ns[tick];
	int64_t half_ns = (int64_t)(tick_ns[0] - tick_ns[-1]) / 2;
	bool has_edges = take_edges(track, before, after, tick);
	uint64_t ns;

	if (!has_edges && before == after)
		return 0;
	ns = has_edges ? show_edges(track, before, after, tick_ns)
		       : show_change(track, before, after, tick_ns);
	track->ahead_ns -= half_ns * (is_running(before) + is_running(after));
	return ns > track->last_ns ? ns : track->last_ns + 2;
}

/* ---- Runs --------------------------------------------------------------- */

/* The first such one from run on, or NULL. */
static const struct fgt_run *find_run(const struct drawn *track,
				      const struct fgt_run *run, bool is_on)
{
	while (run < track->end && !is_like(run, is_on))
		run++;
	return run < track->end ? run : NULL;
}

static void look_ahead(struct drawn *track, const struct fgt_run *run)
{
	for (int is_on = 0; is_on < 2; is_on++)
		if (track->coming[is_on] && track->coming[is_on] < run)
			track->coming[is_on] = find_run(track, run, is_on);
}

static void note_seen(struct drawn *track, const struct fgt_run *run)
{
	if (is_running(run))
		track->seen[true] = run;
	if (is_blocked(run))
		track->seen[false] = run;
}

static void begin_run(struct drawn *track, const struct fgt_run *run,
		      uint64_t ns)
{
	const struct fgt_shown shown = {
		.stack = run->stack,
		.state = run->state,
		.is_sampled = true,
	};

	show(track, &shown, ns);
}

/* Of a thread's first run, or after a gap. */
static uint64_t begin_alone(struct drawn *track, const struct fgt_run *run)
{
	const struct fgt_edge_list *edges = &track->edges;
	uint32_t tick = run->first_tick;
	const uint64_t *tick_ns = &track->slice->tick_ns[tick];

	if (!tick)
		return tick_ns[0];
	fgt_edges_take(track->slice, &track->next_edge, run->thread, tick,
		       earliest_edge_ns(track, tick_ns), &track->edges);
	if (is_blocked(run) && edges->count &&
	    !fgt_edges_are_on_last(edges->is_on_first, edges->count))
		return edges->ns[edges->count - 1];
	return tick_ns[0];
}

/* previous: the thread's run before, NULL if there is none. */
static void put_run(struct drawn *track, const struct fgt_run *run,
		    const struct fgt_run *previous)
{
	const struct fgt_ring_slice *slice = track->slice;
	uint32_t last = run->first_tick + run->tick_count - 1;

	if (previous) {
		uint32_t end = previous->first_tick + previous->tick_count;

		if (end != run->first_tick ||
		    fgt_timeline_is_gap(slice, end - 1)) {
			show(track, NULL, fgt_timeline_end_ns(slice, end - 1));
			previous = NULL;
		}
	}
	begin_run(track, run,
		  previous ? show_between(track, previous, run, run->first_tick)
			   : begin_alone(track, run));
	note_seen(track, run);
	for (uint32_t tick = run->first_tick; tick < last; tick++) {
		uint64_t ns;

		if (fgt_timeline_is_gap(slice, tick)) {
			show(track, NULL, fgt_timeline_end_ns(slice, tick));
			begin_run(track, run, slice->tick_ns[tick + 1]);
			continue;
		}
		ns = show_between(track, run, run, tick + 1);
		if (ns)
			begin_run(track, run, ns);
	}
}

static void put_thread(struct drawn *track, const struct fgt_run *runs,
		       uint32_t count)
{
	const struct fgt_ring_slice *slice = track->slice;
	const struct fgt_run *last = &runs[count - 1];

	track->drawing->begin_thread(track->drawing->context, runs->thread);
	track->last_ns = 0;
	track->ahead_ns = 0;
	track->end = runs + count;
	for (int is_on = 0; is_on < 2; is_on++) {
		track->seen[is_on] = NULL;
		track->coming[is_on] = find_run(track, runs, is_on);
	}
	for (uint32_t i = 0; i < count; i++) {
		look_ahead(track, &runs[i]);
		put_run(track, &runs[i], i ? &runs[i - 1] : NULL);
	}
	show(track, NULL,
	     fgt_timeline_end_ns(slice,
				 last->first_tick + last->tick_count - 1));
}

static void put_threads(struct drawn *track)
{
	const struct fgt_ring_slice *slice = track->slice;
	uint32_t first = 0;

	while (first < slice->run_count) {
		uint32_t end = first + 1;

		while (end < slice->run_count &&
		       slice->runs[end].thread == slice->runs[first].thread)
			end++;
		put_thread(track, &slice->runs[first], end - first);
		first = end;
	}
}

int fgt_draw(const struct fgt_ring_slice *slice,
	     const struct fgt_drawing *drawing)
{
	struct drawn track = { .slice = slice,
			       .drawing = drawing,
			       .reasoned = FGT_STATE_UNKNOWN,
			       .base = FGT_STATE_UNKNOWN };
	int r = 0;

	for (int i = 0; i < 2 && !r; i++)
		r = fgt_levels_init(&track.levels[i], slice,
				    FGT_STATE_FRAMES_NO, drawing->levels_max);
	if (!r)
		put_threads(&track);
	for (int i = 0; i < 2; i++)
		fgt_levels_done(&track.levels[i]);
	return r;
}
