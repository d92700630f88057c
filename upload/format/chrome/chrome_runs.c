/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes runs as nested B and E events: at each change first the E's from the
 * leaf upward, then the B's from the root downward, at the same ts. A gap
 * closes the stack. B has neither args nor cat. Runs in any thread; must not
 * hold more than two stacks.
 *
 * A change between two ticks is drawn midway, except where context switches are
 * known: blocks begin and end when the thread left its CPU and got one again.
 * Between two ticks with the same state both kinds of excursions are drawn,
 * blocks as well as runs: only one kind would be shown for too long. Where
 * there were more switches than are known, only the states at the ticks are
 * drawn, and the changes between them are moved so that the total time shown
 * running is that of the ticks.
 */
#include <string.h>

#include "ringbuf/slice/edge.h"
#include "upload/format/chrome/chrome.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/timeline.h"

/* Perfetto drops events that nest deeper than 512. */
#define DEPTH_MAX 500

#define LAG_MAX_NS 500000u

struct track {
	const struct fgt_ring_slice *slice;
	struct fgt_json *json;
	struct fgt_levels open; /* levels with a B and no E yet */
	struct fgt_levels next; /* levels of the next run */
	uint64_t pid, tid; /* of the track that is being written */
	uint64_t last_ns; /* of its last event, 0: none yet */
	uint32_t next_edge; /* of the slice, not yet read */
	/* The last that was written; or the first to come, or NULL. */
	const struct fgt_run *running, *blocked;
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

/* ---- Real edges --------------------------------------------------------- */

static bool is_blocked(const struct fgt_run *run)
{
	return fgt_state_is_blocked(run->state);
}

static bool is_running(const struct fgt_run *run)
{
	return run->state == FGT_STATE_RUNNING;
}

/* The edge of that tick, NULL if it has none. Ticks must not go down from call
 * to call. */
static const struct fgt_edge *take_edge(struct track *track, uint32_t thread,
					uint32_t tick)
{
	const struct fgt_ring_slice *slice = track->slice;

	while (track->next_edge < slice->edge_count) {
		const struct fgt_edge *edge = &slice->edges[track->next_edge];

		if (edge->thread > thread ||
		    (edge->thread == thread && edge->tick > tick))
			break;
		track->next_edge++;
		if (edge->thread == thread && edge->tick == tick)
			return edge;
	}
	return NULL;
}

/* us before the tick; 0 if that is before the tick before, or before an event
 * already written. */
static uint64_t edge_ns(const struct track *track, uint32_t tick, uint32_t us)
{
	uint64_t ns = fgt_edge_ns(track->slice, tick, us);
	uint64_t earliest_ns = track->last_ns + 2;

	if (tick && earliest_ns < track->slice->tick_ns[tick - 1] + 2)
		earliest_ns = track->slice->tick_ns[tick - 1] + 2;
	if (!ns || ns >= earliest_ns)
		return ns;
	/* The time of a tick is read shortly after its samples were taken. */
	if (earliest_ns - ns > LAG_MAX_NS ||
	    earliest_ns >= track->slice->tick_ns[tick])
		return 0;
	return earliest_ns;
}

/*
 * The same at both ends of an edge, and something else in between: drawn with
 * the stack that the thread was last seen with in that state. Returns when it
 * ended; 0: nothing is known of it.
 */
static uint64_t show_between(struct track *track, const struct fgt_edge *edge,
			     const struct fgt_run *other, uint32_t state)
{
	bool is_run = state == FGT_STATE_RUNNING;
	uint64_t on_ns = edge_ns(track, edge->tick, edge->on_us);
	uint64_t off_ns = edge_ns(track, edge->tick, edge->off_us);
	uint64_t begin_ns = is_run ? on_ns : off_ns;
	uint64_t end_ns = is_run ? off_ns : on_ns;

	if (!begin_ns || end_ns <= begin_ns + 1)
		return 0;
	fgt_levels_expand_unsampled(
		&track->next, other ? other->stack : FGT_NODE_NONE, state);
	change_stack(track, begin_ns);
	track->ahead_ns += is_run ? (int64_t)(end_ns - begin_ns)
				  : -(int64_t)(end_ns - begin_ns);
	return end_ns;
}

/* Between two ticks that are both blocked, or both running. */
static uint64_t show_hidden(struct track *track, const struct fgt_edge *edge,
			    const struct fgt_run *before,
			    const struct fgt_run *after)
{
	if (edge && is_blocked(before) && is_blocked(after))
		return show_between(track, edge, track->running,
				    FGT_STATE_RUNNING);
	if (edge && is_running(before) && is_running(after) && track->blocked)
		return show_between(track, edge, track->blocked,
				    track->blocked->state);
	return 0;
}

/* The same at two ticks is two if there was something else in between. */
static void resume_run(struct track *track, const struct fgt_run *run,
		       uint32_t tick)
{
	const struct fgt_edge *edge = take_edge(track, run->thread, tick);
	uint64_t ns = show_hidden(track, edge, run, run);

	if (!ns)
		return;
	fgt_levels_expand(&track->next, run->stack, run->state);
	change_stack(track, ns);
}

/* ---- Runs --------------------------------------------------------------- */

/*
 * Nothing shows when it changed. From or to running: so that what was drawn too
 * much, or too little, is made up for.
 */
static uint64_t choose_change(const struct track *track,
			      const struct fgt_run *before,
			      const struct fgt_run *after)
{
	const uint64_t *tick_ns = &track->slice->tick_ns[after->first_tick];
	int64_t apart_ns = (int64_t)(tick_ns[0] - tick_ns[-1]);
	int64_t into_ns = apart_ns / 2;

	if (is_running(before) != is_running(after))
		into_ns += is_running(before) ? -track->ahead_ns
					      : track->ahead_ns;
	if (into_ns > apart_ns - 1)
		into_ns = apart_ns - 1;
	if (into_ns < 2)
		into_ns = 2;
	return tick_ns[-1] + (uint64_t)into_ns;
}

/* 0: not known. */
static uint64_t known_change(const struct track *track,
			     const struct fgt_edge *edge,
			     const struct fgt_run *before,
			     const struct fgt_run *after)
{
	if (edge && is_blocked(after))
		return edge_ns(track, edge->tick, edge->off_us);
	if (edge && is_blocked(before))
		return edge_ns(track, edge->tick, edge->on_us);
	return 0;
}

/* When a run that follows at once on another one began. */
static uint64_t begin_run(struct track *track, const struct fgt_run *run,
			  const struct fgt_run *before)
{
	const uint64_t *tick_ns = &track->slice->tick_ns[run->first_tick];
	const struct fgt_edge *edge =
		take_edge(track, run->thread, run->first_tick);
	uint64_t ns = show_hidden(track, edge, before, run);

	if (ns)
		return ns;
	ns = known_change(track, edge, before, run);
	if (!ns)
		ns = choose_change(track, before, run);
	if (ns <= track->last_ns)
		ns = track->last_ns + 2;
	if (is_running(before) != is_running(run)) {
		int64_t middle_ns =
			(int64_t)(tick_ns[-1] + (tick_ns[0] - tick_ns[-1]) / 2);
		int64_t late_ns = (int64_t)ns - middle_ns;

		track->ahead_ns += is_running(before) ? late_ns : -late_ns;
	}
	return ns;
}

/* Of a thread's first run, or after a gap. */
static uint64_t begin_alone(struct track *track, const struct fgt_run *run)
{
	const struct fgt_edge *edge =
		take_edge(track, run->thread, run->first_tick);
	uint64_t ns = 0;

	if (edge && is_blocked(run))
		ns = edge_ns(track, edge->tick, edge->off_us);
	return ns ? ns : track->slice->tick_ns[run->first_tick];
}

/* previous: the thread's run before, NULL if there is none. */
static void put_run(struct track *track, const struct fgt_run *run,
		    const struct fgt_run *previous)
{
	const struct fgt_ring_slice *slice = track->slice;
	uint32_t last = run->first_tick + run->tick_count - 1;
	uint64_t begin_ns;

	if (previous) {
		uint32_t end = previous->first_tick + previous->tick_count;

		if (end != run->first_tick ||
		    fgt_timeline_is_gap(slice, end - 1)) {
			close_all(track, fgt_timeline_end_ns(slice, end - 1));
			previous = NULL;
		}
	}
	begin_ns = previous ? begin_run(track, run, previous)
			    : begin_alone(track, run);
	fgt_levels_expand(&track->next, run->stack, run->state);
	change_stack(track, begin_ns);
	for (uint32_t tick = run->first_tick; tick < last; tick++) {
		if (fgt_timeline_is_gap(slice, tick))
			reopen_after_gap(track, tick);
		resume_run(track, run, tick + 1);
	}
}

static const struct fgt_run *
find_run(const struct fgt_run *runs, uint32_t count,
	 bool (*is_wanted)(const struct fgt_run *run))
{
	for (uint32_t i = 0; i < count; i++)
		if (is_wanted(&runs[i]))
			return &runs[i];
	return NULL;
}

static void put_thread(struct track *track, const struct fgt_run *runs,
		       uint32_t count)
{
	const struct fgt_ring_slice *slice = track->slice;
	const struct fgt_run *last = &runs[count - 1];

	track->tid = fgt_chrome_id(slice->threads[runs->thread].tid);
	track->last_ns = 0;
	track->ahead_ns = 0;
	track->running = find_run(runs, count, is_running);
	track->blocked = find_run(runs, count, is_blocked);
	for (uint32_t i = 0; i < count; i++) {
		put_run(track, &runs[i], i ? &runs[i - 1] : NULL);
		if (is_running(&runs[i]))
			track->running = &runs[i];
		if (is_blocked(&runs[i]))
			track->blocked = &runs[i];
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
		put_threads(&track);
	fgt_levels_done(&track.open);
	fgt_levels_done(&track.next);
	return r;
}
