/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes runs as nested B and E events: at each change first the E's from the
 * leaf upward, then the B's from the root downward, at the same ts. A gap
 * closes the stack. B has neither args nor cat. Runs in any thread; must not
 * hold more than three stacks.
 *
 * Where context switches are known, what lies between two ticks is drawn as it
 * was, runs between blocked ticks and blocks between running ones. Elsewhere
 * a change is drawn midway, and from or to running so that the time shown
 * running is that of the ticks: which intervals are known is no chance, since
 * those with many switches are not.
 */
#include <string.h>

#include "ringbuf/slice/edge.h"
#include "upload/format/chrome/chrome.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/timeline.h"

/* Perfetto drops events that nest deeper than 512. */
#define DEPTH_MAX 500

/* The time of a tick is read so long after the instant that it is about, at
 * most. */
#define LAG_MAX_NS 500000u

struct track {
	const struct fgt_ring_slice *slice;
	struct fgt_json *json;
	struct fgt_levels open; /* levels with a B and no E yet */
	struct fgt_levels next; /* levels of the next run */
	struct fgt_levels other; /* to compare them with */
	uint64_t pid, tid; /* of the track that is being written */
	uint64_t last_ns; /* of its last event, 0: none yet */
	uint32_t next_edge; /* of the slice, not yet read */
	struct fgt_edge_list edges; /* of the tick that is being written */
	/* [0]: blocked, [1]: running. The last run that was written, and the
	 * first one from the one that is written on; NULL: there is none. */
	const struct fgt_run *seen[2], *coming[2];
	const struct fgt_run *end; /* of the thread's runs */
	/* Drawn as running so far, less what the ticks amount to. */
	int64_t ahead_ns;
};

static void put_edge(struct track *track, struct fgt_level level,
		     const char *phase, uint64_t mono_ns)
{
	char buffer[FGT_LEVEL_NAME_MAX];
	const char *name = fgt_level_name(track->slice, level, buffer);

	track->last_ns = mono_ns;
	fgt_chrome_begin(track->json, name, phase, track->pid, track->tid);
	fgt_json_put_decimal(track->json, "ts",
			     mono_ns - track->slice->tick_ns[0], 3);
	fgt_json_end_object(track->json);
}

/* From the leaf upward until keep levels stay open. */
static void close_levels(struct track *track, uint32_t keep, uint64_t mono_ns)
{
	struct fgt_levels *open = &track->open;

	for (uint32_t i = 0; i + keep < open->count; i++)
		put_edge(track, open->items[i], "E", mono_ns);
}

/* From the root downward, all but the first keep levels. */
static void open_levels(struct track *track, uint32_t keep, uint64_t mono_ns)
{
	struct fgt_levels *next = &track->next;

	for (uint32_t i = next->count - keep; i > 0; i--)
		put_edge(track, next->items[i - 1], "B", mono_ns);
}

static void close_all(struct track *track, uint64_t mono_ns)
{
	close_levels(track, 0, mono_ns);
	track->open.count = 0;
}

/* Levels that both stacks have in common, from the root. */
static uint32_t common_levels(const struct fgt_levels *a,
			      const struct fgt_levels *b)
{
	uint32_t common = 0;

	while (common < a->count && common < b->count &&
	       fgt_level_is_equal(a->items[a->count - 1 - common],
				  b->items[b->count - 1 - common]))
		common++;
	return common;
}

/*
 * speedscope reads a B before an E of the same name and the same ts. Where the
 * first B has the name of a level that closes, it would match the closing
 * levels crosswise, and one would stay open to the end.
 */
static bool is_ambiguous(const struct track *track, uint32_t keep)
{
	const struct fgt_levels *open = &track->open, *next = &track->next;
	char buffers[2][FGT_LEVEL_NAME_MAX];
	const char *first;

	if (keep == next->count)
		return false;
	first = fgt_level_name(track->slice,
			       next->items[next->count - 1 - keep], buffers[0]);
	for (uint32_t i = 0; i + keep < open->count; i++)
		if (!strcmp(first, fgt_level_name(track->slice, open->items[i],
						  buffers[1])))
			return true;
	return false;
}

/* Goes from the open stack to the next one, both at the same ts. */
static void change_stack(struct track *track, uint64_t mono_ns)
{
	uint32_t keep = common_levels(&track->open, &track->next);
	struct fgt_levels shown = track->next;

	/* Changes lie more than 1 ns apart: still after the B's. */
	close_levels(track, keep, mono_ns - is_ambiguous(track, keep));
	open_levels(track, keep, mono_ns);
	track->next = track->open;
	track->open = shown;
}

static void reopen_after_gap(struct track *track, uint32_t tick)
{
	const struct fgt_ring_slice *slice = track->slice;
	uint32_t count = track->open.count;

	close_all(track, fgt_timeline_end_ns(slice, tick));
	/* The same levels again: hand them over as the next stack. */
	memcpy(track->next.items, track->open.items,
	       count * sizeof(*track->open.items));
	track->next.count = count;
	change_stack(track, slice->tick_ns[tick + 1]);
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

static bool is_ever(const struct track *track, bool is_on)
{
	return track->seen[is_on] || track->coming[is_on];
}

/* Leaves in track->next what both show, if that is the same. */
static bool is_same_shown(struct track *track, const struct fgt_run *a,
			  const struct fgt_run *b)
{
	if (!a || !b || a->state != b->state)
		return false;
	fgt_levels_expand(&track->next, a->stack, a->state);
	if (a->stack == b->stack)
		return true;
	fgt_levels_expand(&track->other, b->stack, b->state);
	return track->next.count == track->other.count &&
	       common_levels(&track->next, &track->other) == track->next.count;
}

/*
 * With the stack that the thread was last seen with, or is seen with next, in
 * that state. There is no marker where both are the same, as there is none
 * between two ticks of one run: all samples around it show this stack, so the
 * time that is marked is that of the ticks.
 */
static void show_unseen(struct track *track, bool is_on, uint64_t begin_ns)
{
	const struct fgt_run *seen = track->seen[is_on];
	const struct fgt_run *like = seen ? seen : track->coming[is_on];

	if (!is_same_shown(track, seen, track->coming[is_on]))
		fgt_levels_expand_unsampled(&track->next,
					    like ? like->stack : FGT_NODE_NONE,
					    like    ? like->state
					    : is_on ? FGT_STATE_RUNNING
						    : FGT_STATE_UNKNOWN);
	change_stack(track, begin_ns);
}

/*
 * All that edges show of the time between two ticks; returns when what the
 * later one shows began. Waits for a CPU have no edges and change midway.
 */
static uint64_t show_edges(struct track *track, const struct fgt_run *before,
			   const struct fgt_run *after, const uint64_t *tick_ns)
{
	const struct fgt_edge_list *edges = &track->edges;
	bool is_on = !edges->is_on_first;
	uint64_t from_ns = tick_ns[-1], end_ns;

	/* It had been put off its CPU, and got one again. */
	if (is_on && !is_running(before) && edges->ns[0] > from_ns + 4) {
		from_ns = midway(from_ns, edges->ns[0]);
		show_unseen(track, is_on, from_ns);
	}
	for (uint32_t i = 0; i < edges->count; i++) {
		if (is_on)
			track->ahead_ns += (int64_t)(edges->ns[i] - from_ns);
		is_on = !is_on;
		from_ns = edges->ns[i];
		if (i + 1 < edges->count || !is_like(after, is_on))
			show_unseen(track, is_on, from_ns);
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
static uint64_t show_change(struct track *track, const struct fgt_run *before,
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

/* After the instant of the tick before, and what was written last. */
static uint64_t earliest_edge_ns(const struct track *track,
				 const uint64_t *tick_ns)
{
	uint64_t after_ns = tick_ns[-1] - track->slice->tick_ns[0] > LAG_MAX_NS
				    ? tick_ns[-1] - LAG_MAX_NS
				    : track->slice->tick_ns[0];

	if (after_ns < track->last_ns)
		after_ns = track->last_ns;
	return after_ns + 2;
}

/* Leaves in track->edges all that happened between the tick before and this
 * one, if that is known. */
static bool take_edges(struct track *track, const struct fgt_run *before,
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
static uint64_t show_between(struct track *track, const struct fgt_run *before,
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
static const struct fgt_run *find_run(const struct track *track,
				      const struct fgt_run *run, bool is_on)
{
	while (run < track->end && !is_like(run, is_on))
		run++;
	return run < track->end ? run : NULL;
}

static void look_ahead(struct track *track, const struct fgt_run *run)
{
	for (int is_on = 0; is_on < 2; is_on++)
		if (track->coming[is_on] && track->coming[is_on] < run)
			track->coming[is_on] = find_run(track, run, is_on);
}

static void note_seen(struct track *track, const struct fgt_run *run)
{
	if (is_running(run))
		track->seen[true] = run;
	if (is_blocked(run))
		track->seen[false] = run;
}

static void begin_run(struct track *track, const struct fgt_run *run,
		      uint64_t ns)
{
	fgt_levels_expand(&track->next, run->stack, run->state);
	change_stack(track, ns);
}

/* Of a thread's first run, or after a gap. */
static uint64_t begin_alone(struct track *track, const struct fgt_run *run)
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
static void put_run(struct track *track, const struct fgt_run *run,
		    const struct fgt_run *previous)
{
	const struct fgt_ring_slice *slice = track->slice;
	uint32_t last = run->first_tick + run->tick_count - 1;

	if (previous) {
		uint32_t end = previous->first_tick + previous->tick_count;

		if (end != run->first_tick ||
		    fgt_timeline_is_gap(slice, end - 1)) {
			close_all(track, fgt_timeline_end_ns(slice, end - 1));
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
			reopen_after_gap(track, tick);
			continue;
		}
		ns = show_between(track, run, run, tick + 1);
		if (ns)
			begin_run(track, run, ns);
	}
}

static void put_thread(struct track *track, const struct fgt_run *runs,
		       uint32_t count)
{
	const struct fgt_ring_slice *slice = track->slice;
	const struct fgt_run *last = &runs[count - 1];

	track->tid = fgt_chrome_id(slice->threads[runs->thread].tid);
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
	close_all(track,
		  fgt_timeline_end_ns(slice,
				      last->first_tick + last->tick_count - 1));
}

static void put_threads(struct track *track)
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

int fgt_chrome_runs_put(const struct fgt_ring_slice *slice,
			enum fgt_state_frames state_frames, uint64_t pid,
			struct fgt_json *json)
{
	struct track track = { .slice = slice, .json = json, .pid = pid };
	int r;

	r = fgt_levels_init(&track.open, slice, state_frames, DEPTH_MAX);
	if (!r)
		r = fgt_levels_init(&track.next, slice, state_frames,
				    DEPTH_MAX);
	if (!r)
		r = fgt_levels_init(&track.other, slice, state_frames,
				    DEPTH_MAX);
	if (!r)
		put_threads(&track);
	fgt_levels_done(&track.open);
	fgt_levels_done(&track.next);
	fgt_levels_done(&track.other);
	return r;
}
