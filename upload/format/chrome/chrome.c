/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes runs as nested B and E events: at each change first the E's from the
 * leaf upward, then the B's from the root downward, at the same ts. A gap
 * closes the stack. B has neither args nor cat. Changes are at ticks; where
 * context switches are known, blocks begin and end at them. Runs in any thread;
 * must not hold more than two stacks.
 */
#include "upload/format/chrome/chrome.h"

#include <stdio.h>
#include <string.h>

#include "ringbuf/base/json.h"
#include "ringbuf/slice/edge.h"
#include "ringbuf/slice/pace.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/timeline.h"

/* Perfetto drops events that nest deeper than 512. */
#define DEPTH_MAX 500

#define LAG_MAX_NS 500000u

struct chrome {
	const struct fgt_ring_slice *slice;
	struct fgt_json json;
	struct fgt_levels open; /* levels with a B and no E yet */
	struct fgt_levels next; /* levels of the next run */
	uint64_t pid, tid; /* of the track that is being written */
	uint64_t last_ns; /* of its last event, 0: none yet */
	uint32_t next_edge; /* of the slice, not yet read */
};

/* The name, unless speedscope would read the file as a DevTools profile. */
static const char *safe_name(const char *name)
{
	if (!strcmp(name, "CpuProfile"))
		return "CpuProfile()";
	if (!strcmp(name, "Profile"))
		return "Profile()";
	if (!strcmp(name, "ProfileChunk"))
		return "ProfileChunk()";
	return name;
}

void fgt_chrome_begin(struct fgt_json *json, const char *name,
		      const char *phase, uint64_t pid, uint64_t tid)
{
	fgt_json_newline(json);
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "name", safe_name(name));
	fgt_json_put_string(json, "ph", phase);
	fgt_json_put_uint(json, "pid", pid);
	fgt_json_put_uint(json, "tid", tid);
}

/* Older releases of speedscope want a ts on these too. */
static void begin_metadata_of(struct fgt_json *json, const char *name,
			      uint64_t pid, uint64_t tid)
{
	fgt_chrome_begin(json, name, "M", pid, tid);
	fgt_json_put_uint(json, "ts", 0);
	fgt_json_begin_object(json, "args");
}

void fgt_chrome_end_args(struct fgt_json *json)
{
	fgt_json_end_object(json);
	fgt_json_end_object(json);
}

void fgt_chrome_put_name(struct fgt_json *json, const char *kind, uint64_t pid,
			 uint64_t tid, const char *name)
{
	begin_metadata_of(json, kind, pid, tid);
	fgt_json_put_string(json, "name", name);
	fgt_chrome_end_args(json);
}

static void begin_metadata(struct chrome *chrome, const char *name)
{
	begin_metadata_of(&chrome->json, name, chrome->pid, chrome->tid);
}

/* Three decimals are enough for a rate, and readable. */
static double rounded(double hz)
{
	return hz < 1e12 ? (double)(uint64_t)(hz * 1000 + 0.5) / 1000 : hz;
}

static double nominal_hz(const struct fgt_ring_slice *slice)
{
	return rounded(1e9 / (double)slice->period_ns);
}

static void put_process(struct chrome *chrome)
{
	const struct fgt_process_info *process = &chrome->slice->process;
	struct fgt_json *json = &chrome->json;
	char labels[256];

	fgt_chrome_put_name(json, "process_name", chrome->pid, chrome->tid,
			    process->name[0] ? process->name : "process");
	snprintf(labels, sizeof(labels), "%s%slinux %s %s", process->host,
		 process->host[0] ? ", " : "", process->os_release,
		 process->arch);
	begin_metadata(chrome, "process_labels");
	fgt_json_put_string(json, "labels", labels);
	fgt_chrome_end_args(json);
	begin_metadata(chrome, "hz");
	fgt_json_put_double(json, "hz", rounded(chrome->slice->effective_hz));
	fgt_chrome_end_args(json);
	begin_metadata(chrome, "nominal_hz");
	fgt_json_put_double(json, "nominal_hz", nominal_hz(chrome->slice));
	fgt_chrome_end_args(json);
}

/* The main thread first, then by tid. */
static void put_thread(struct chrome *chrome, uint32_t index)
{
	const struct fgt_slice_thread *thread = &chrome->slice->threads[index];
	bool is_main = thread->tid == chrome->slice->process.pid;
	char buffer[FGT_LEVEL_NAME_MAX];

	chrome->tid = fgt_chrome_id(thread->tid);
	fgt_chrome_put_name(
		&chrome->json, "thread_name", chrome->pid, chrome->tid,
		fgt_level_thread_name(chrome->slice, thread, buffer));
	begin_metadata(chrome, "thread_sort_index");
	fgt_json_put_uint(&chrome->json, "sort_index",
			  is_main ? 0 : (uint64_t)index + 1);
	fgt_chrome_end_args(&chrome->json);
}

static void put_edge(struct chrome *chrome, struct fgt_level level,
		     const char *phase, uint64_t mono_ns)
{
	char buffer[FGT_LEVEL_NAME_MAX];
	const char *name = fgt_level_name(chrome->slice, level, buffer);

	chrome->last_ns = mono_ns;
	fgt_chrome_begin(&chrome->json, name, phase, chrome->pid, chrome->tid);
	fgt_json_put_decimal(&chrome->json, "ts",
			     mono_ns - chrome->slice->tick_ns[0], 3);
	fgt_json_end_object(&chrome->json);
}

/* From the leaf upward until keep levels stay open. */
static void close_levels(struct chrome *chrome, uint32_t keep, uint64_t mono_ns)
{
	struct fgt_levels *open = &chrome->open;

	for (uint32_t i = 0; i + keep < open->count; i++)
		put_edge(chrome, open->items[i], "E", mono_ns);
}

/* From the root downward, all but the first keep levels. */
static void open_levels(struct chrome *chrome, uint32_t keep, uint64_t mono_ns)
{
	struct fgt_levels *next = &chrome->next;

	for (uint32_t i = next->count - keep; i > 0; i--)
		put_edge(chrome, next->items[i - 1], "B", mono_ns);
}

static void close_all(struct chrome *chrome, uint64_t mono_ns)
{
	close_levels(chrome, 0, mono_ns);
	chrome->open.count = 0;
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
static bool is_ambiguous(const struct chrome *chrome, uint32_t keep)
{
	const struct fgt_levels *open = &chrome->open, *next = &chrome->next;
	char buffers[2][FGT_LEVEL_NAME_MAX];
	const char *first;

	if (keep == next->count)
		return false;
	first = fgt_level_name(chrome->slice,
			       next->items[next->count - 1 - keep], buffers[0]);
	for (uint32_t i = 0; i + keep < open->count; i++)
		if (!strcmp(first, fgt_level_name(chrome->slice, open->items[i],
						  buffers[1])))
			return true;
	return false;
}

/* Goes from the open stack to the next one, both at the same ts. */
static void change_stack(struct chrome *chrome, uint64_t mono_ns)
{
	uint32_t keep = common_levels(&chrome->open, &chrome->next);
	struct fgt_levels shown = chrome->next;

	/* Changes lie more than 1 ns apart: still after the B's. */
	close_levels(chrome, keep, mono_ns - is_ambiguous(chrome, keep));
	open_levels(chrome, keep, mono_ns);
	chrome->next = chrome->open;
	chrome->open = shown;
}

static void reopen_after_gap(struct chrome *chrome, uint32_t tick)
{
	const struct fgt_ring_slice *slice = chrome->slice;
	uint32_t count = chrome->open.count;

	close_all(chrome, fgt_timeline_end_ns(slice, tick));
	/* The same levels again: hand them over as the next stack. */
	memcpy(chrome->next.items, chrome->open.items,
	       count * sizeof(*chrome->open.items));
	chrome->next.count = count;
	change_stack(chrome, slice->tick_ns[tick + 1]);
}

/* ---- Real edges --------------------------------------------------------- */

static bool is_blocked(const struct fgt_run *run)
{
	return fgt_state_is_blocked(run->state);
}

/* The edge of that tick, NULL if it has none. Ticks must not go down from call
 * to call. */
static const struct fgt_edge *take_edge(struct chrome *chrome, uint32_t thread,
					uint32_t tick)
{
	const struct fgt_ring_slice *slice = chrome->slice;

	while (chrome->next_edge < slice->edge_count) {
		const struct fgt_edge *edge = &slice->edges[chrome->next_edge];

		if (edge->thread > thread ||
		    (edge->thread == thread && edge->tick > tick))
			break;
		chrome->next_edge++;
		if (edge->thread == thread && edge->tick == tick)
			return edge;
	}
	return NULL;
}

/* us before the tick; 0 if that is before an event already written. */
static uint64_t edge_ns(const struct chrome *chrome, uint32_t tick, uint32_t us)
{
	uint64_t ns = fgt_edge_ns(chrome->slice, tick, us);
	uint64_t earliest_ns = chrome->last_ns + 2;

	if (!ns || ns >= earliest_ns)
		return ns;
	/* The time of a tick is read shortly after its samples were taken. */
	if (earliest_ns - ns > LAG_MAX_NS ||
	    earliest_ns >= chrome->slice->tick_ns[tick])
		return 0;
	return earliest_ns;
}

/*
 * Blocked at both sides of the edge: the thread ran in between, with an unknown
 * stack. False: the times are unknown, too.
 */
static bool show_ran(struct chrome *chrome, const struct fgt_edge *edge,
		     const struct fgt_run *before, const struct fgt_run *after,
		     uint64_t *ret_off_ns)
{
	uint64_t on_ns = edge_ns(chrome, edge->tick, edge->on_us);
	uint64_t off_ns = edge_ns(chrome, edge->tick, edge->off_us);

	if (!on_ns || off_ns <= on_ns + 1)
		return false;
	fgt_levels_expand_ran(&chrome->next, before->stack, after->stack);
	change_stack(chrome, on_ns);
	*ret_off_ns = off_ns;
	return true;
}

/* The begin of a run; previous: the run that ends where it begins, or NULL. */
static uint64_t begin_run(struct chrome *chrome, const struct fgt_run *run,
			  const struct fgt_run *previous)
{
	const struct fgt_edge *edge =
		take_edge(chrome, run->thread, run->first_tick);
	bool was_blocked = previous && is_blocked(previous);
	uint64_t ns = 0;

	if (edge && is_blocked(run)) {
		if (!was_blocked || !show_ran(chrome, edge, previous, run, &ns))
			ns = edge_ns(chrome, edge->tick, edge->off_us);
	} else if (edge && was_blocked) {
		ns = edge_ns(chrome, edge->tick, edge->on_us);
	}
	return ns ? ns : chrome->slice->tick_ns[run->first_tick];
}

/* The same block at two ticks is two if the thread ran in between. */
static void resume_run(struct chrome *chrome, const struct fgt_run *run,
		       uint32_t tick)
{
	const struct fgt_edge *edge = take_edge(chrome, run->thread, tick);
	uint64_t off_ns;

	if (!edge || !is_blocked(run) ||
	    !show_ran(chrome, edge, run, run, &off_ns))
		return;
	fgt_levels_expand(&chrome->next, run->stack, run->state);
	change_stack(chrome, off_ns);
}

/* previous: the thread's run before, NULL if there is none. */
static void put_run(struct chrome *chrome, const struct fgt_run *run,
		    const struct fgt_run *previous)
{
	const struct fgt_ring_slice *slice = chrome->slice;
	uint32_t last = run->first_tick + run->tick_count - 1;
	uint64_t begin_ns;

	if (previous) {
		uint32_t end = previous->first_tick + previous->tick_count;

		if (end != run->first_tick ||
		    fgt_timeline_is_gap(slice, end - 1)) {
			close_all(chrome, fgt_timeline_end_ns(slice, end - 1));
			previous = NULL;
		}
	}
	begin_ns = begin_run(chrome, run, previous);
	fgt_levels_expand(&chrome->next, run->stack, run->state);
	change_stack(chrome, begin_ns);
	for (uint32_t tick = run->first_tick; tick < last; tick++) {
		if (fgt_timeline_is_gap(slice, tick))
			reopen_after_gap(chrome, tick);
		resume_run(chrome, run, tick + 1);
	}
}

static void put_runs(struct chrome *chrome)
{
	const struct fgt_ring_slice *slice = chrome->slice;
	const struct fgt_run *previous = NULL;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		bool is_last = i + 1 == slice->run_count ||
			       slice->runs[i + 1].thread != run->thread;

		chrome->tid = fgt_chrome_id(slice->threads[run->thread].tid);
		put_run(chrome, run, previous);
		previous = run;
		if (!is_last)
			continue;
		close_all(chrome, fgt_timeline_end_ns(
					  slice, run->first_tick +
							 run->tick_count - 1));
		chrome->last_ns = 0;
		previous = NULL;
	}
}

/* JavaScript keeps integers up to 2^53. */
static void put_count(struct fgt_json *json, const char *key, uint64_t count)
{
	const uint64_t max = ((uint64_t)1 << 53) - 1;

	fgt_json_put_uint(json, key, count < max ? count : max);
}

/* What the slice is, and what it lacks. */
static void put_other_data(struct chrome *chrome)
{
	const struct fgt_ring_slice *slice = chrome->slice;
	const uint64_t first_ns = slice->tick_ns[0];
	const uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];
	struct fgt_json *json = &chrome->json;
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	fgt_json_begin_object(json, "otherData");
	fgt_json_put_string(json, "tool", "fgtrace");
	fgt_json_put_string(json, "version", FGT_VERSION);
	fgt_json_put_string(json, "exe", slice->process.exe);
	fgt_json_put_time(json, "wall_clock_of_ts_0",
			  fgt_slice_wall_ns(slice, first_ns));
	fgt_json_put_uint_string(json, "wall_clock_of_ts_0_ns",
				 fgt_slice_wall_ns(slice, first_ns));
	fgt_json_put_uint_string(json, "monotonic_clock_of_ts_0_ns", first_ns);
	fgt_json_put_time(json, "requested_from",
			  fgt_slice_wall_ns(slice, slice->requested_from_ns));
	fgt_json_put_time(json, "requested_to",
			  fgt_slice_wall_ns(slice, slice->requested_to_ns));
	fgt_json_put_time(json, "covered_from",
			  fgt_slice_wall_ns(slice, first_ns));
	fgt_json_put_time(json, "covered_to",
			  fgt_slice_wall_ns(slice, last_ns));
	fgt_json_put_double(json, "effective_hz", rounded(slice->effective_hz));
	fgt_json_put_double(json, "nominal_hz", nominal_hz(slice));
	if (slowest > 1)
		fgt_json_put_double(json, "lowered_to_hz",
				    rounded(nominal_hz(slice) / slowest));
	fgt_json_put_uint(json, "ticks", slice->tick_count);
	put_count(json, "missed_ticks", slice->missed_ticks);
	put_count(json, "evicted_ticks", slice->evicted_ticks);
	put_count(json, "lapped_ticks", slice->lapped_ticks);
	fgt_json_end_object(json);
}

static int write_document(struct chrome *chrome)
{
	struct fgt_json *json = &chrome->json;
	int r;

	chrome->pid = chrome->tid = fgt_chrome_id(chrome->slice->process.pid);
	fgt_json_begin_object(json, NULL);
	fgt_json_begin_array(json, "traceEvents");
	put_process(chrome);
	for (uint32_t i = 0; i < chrome->slice->thread_count; i++)
		put_thread(chrome, i);
	put_runs(chrome);
	r = fgt_chrome_tasks_put(chrome->slice, chrome->pid, json);
	if (r < 0)
		return r;
	fgt_json_newline(json);
	fgt_json_end_array(json);
	fgt_json_put_string(json, "displayTimeUnit", "ns");
	put_other_data(chrome);
	fgt_json_end_object(json);
	fgt_json_newline(json);
	return fgt_json_finish(json);
}

int fgt_chrome_write(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink)
{
	struct chrome chrome = { .slice = slice };
	int r;

	fgt_json_init(&chrome.json, sink);
	r = fgt_levels_init(&chrome.open, slice, options->state_frames,
			    DEPTH_MAX);
	if (!r)
		r = fgt_levels_init(&chrome.next, slice, options->state_frames,
				    DEPTH_MAX);
	if (!r)
		r = write_document(&chrome);
	fgt_levels_done(&chrome.open);
	fgt_levels_done(&chrome.next);
	return r;
}
