/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, spans, marks and counters as events. A track shows tasks that do not
 * overlap, and has a unique name. B and E carry the same args, since speedscope
 * takes them as a part of a frame's name, by which it pairs them. Runs in any
 * thread; must not hold more than a number for each task.
 */
#include "upload/format/chrome/chrome.h"

#include <errno.h>
#include <stdio.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/spans.h"
#include "ringbuf/spans/span_log.h"

/* Above every pid and tid of Linux, and within the 32 bits that readers keep:
 * the process of all tasks. Its first track has the same number, since Perfetto
 * makes a thread of that number anyway. */
#define TASKS_PID_OFFSET 0x20000000u

struct tasks {
	const struct fgt_ring_slice *slice;
	struct fgt_json *json;
	uint64_t pid; /* of the sampled process */
	uint32_t *tracks; /* by task: the number of its track, from 0 */
	uint32_t next_span; /* of the slice, not written yet */
	uint32_t named; /* tracks, of which the last is the one written to */
};

static void put_ts(struct tasks *tasks, uint64_t mono_ns)
{
	fgt_chrome_put_us(tasks->json, "ts",
			  mono_ns - tasks->slice->tick_ns[0]);
}

static uint64_t tasks_pid(const struct tasks *tasks)
{
	return tasks->pid + TASKS_PID_OFFSET;
}

static uint64_t track_tid(const struct tasks *tasks, uint32_t task)
{
	return tasks_pid(tasks) + tasks->tracks[task];
}

static const char *text(const struct tasks *tasks, uint32_t id,
			const char *otherwise)
{
	const char *found = fgt_slice_string(tasks->slice, id);

	return *found ? found : otherwise;
}

/* ---- Tasks and spans ---------------------------------------------------- */

/* Log lines have the same number, see fgt_span_ids(). */
static void begin_args(struct tasks *tasks, uint64_t number)
{
	char digits[FGT_NUMBER_TEXT_SIZE];

	fgt_number_text(number, digits);
	fgt_json_begin_object(tasks->json, "args");
	fgt_json_put_string(tasks->json, "id", digits);
}

static void put_task(struct tasks *tasks, uint32_t index, const char *phase,
		     uint64_t mono_ns)
{
	const struct fgt_slice_task *task = &tasks->slice->tasks[index];

	fgt_chrome_begin(tasks->json, text(tasks, task->name, "task"), phase,
			 tasks_pid(tasks), track_tid(tasks, index));
	put_ts(tasks, mono_ns);
	begin_args(tasks, task->number);
	fgt_chrome_end_args(tasks->json);
}

static void put_labels(struct tasks *tasks, uint32_t span)
{
	const struct fgt_slice_label *labels;
	uint32_t count;

	labels = fgt_spans_labels(tasks->slice, span, &count);
	if (!count)
		return;
	fgt_json_begin_object(tasks->json, "labels");
	for (uint32_t i = 0; i < count; i++)
		fgt_json_put_string(tasks->json,
				    text(tasks, labels[i].key, "label"),
				    text(tasks, labels[i].value, ""));
	fgt_json_end_object(tasks->json);
}

static void put_span(struct tasks *tasks, uint32_t index, const char *phase,
		     uint64_t mono_ns)
{
	const struct fgt_slice_span *span = &tasks->slice->spans[index];

	fgt_chrome_begin(tasks->json, text(tasks, span->name, "span"), phase,
			 tasks_pid(tasks), track_tid(tasks, span->task));
	put_ts(tasks, mono_ns);
	begin_args(tasks, span->number);
	put_labels(tasks, index);
	fgt_chrome_end_args(tasks->json);
}

/* Spans that have a B and no E yet, by depth; absent ones are not shown. */
struct open {
	uint32_t depth;
	struct {
		uint32_t span;
		bool is_shown;
		uint64_t end_ns;
	} spans[FGT_SPAN_DEPTH_MAX];
};

static void close_to(struct tasks *tasks, struct open *open, uint32_t depth)
{
	while (open->depth > depth) {
		open->depth--;
		if (open->spans[open->depth].is_shown)
			put_span(tasks, open->spans[open->depth].span, "E",
				 open->spans[open->depth].end_ns);
	}
}

static void put_spans_of(struct tasks *tasks, uint32_t task)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	struct open open = { .depth = 0 };

	for (; tasks->next_span < slice->span_count; tasks->next_span++) {
		const struct fgt_slice_span *span =
			&slice->spans[tasks->next_span];
		uint64_t begin_ns = 0, end_ns = 0;
		bool is_shown;

		if (span->task != task)
			break;
		close_to(tasks, &open, span->depth);
		is_shown = fgt_spans_clip_part(tasks->slice, span->begin_ns,
					       span->end_ns, &begin_ns,
					       &end_ns);
		if (is_shown)
			put_span(tasks, tasks->next_span, "B", begin_ns);
		open.spans[open.depth].span = tasks->next_span;
		open.spans[open.depth].is_shown = is_shown;
		open.spans[open.depth++].end_ns = end_ns;
	}
	close_to(tasks, &open, 0);
}

/* One end of an arrow; readers pair two ends by id and name. */
static void put_flow(struct tasks *tasks, const char *phase, uint32_t child,
		     uint64_t tid, uint64_t mono_ns)
{
	fgt_chrome_begin(tasks->json, "child-task", phase, tasks_pid(tasks),
			 tid);
	put_ts(tasks, mono_ns);
	fgt_json_put_string(tasks->json, "cat", "task");
	fgt_json_put_uint(tasks->json, "id", (uint64_t)child + 1);
	/* To the slice around it, not to the next one. */
	if (*phase == 'f')
		fgt_json_put_string(tasks->json, "bp", "e");
	fgt_json_end_object(tasks->json);
}

/*
 * From the parent to the child, at the child's begin. In the file it follows
 * the B of the child, and that of the parent: at one instant the order in the
 * file decides.
 */
static void put_arrow(struct tasks *tasks, uint32_t child)
{
	const struct fgt_slice_task *task = &tasks->slice->tasks[child];
	uint64_t begin_ns, end_ns;

	if (!task->parent ||
	    !fgt_spans_clip_task(tasks->slice, task->parent - 1, &begin_ns,
				 &end_ns) ||
	    task->begin_ns <= begin_ns || task->begin_ns >= end_ns ||
	    tasks->tracks[task->parent - 1] == tasks->tracks[child])
		return;
	put_flow(tasks, "s", child, track_tid(tasks, task->parent - 1),
		 task->begin_ns);
	put_flow(tasks, "f", child, track_tid(tasks, child), task->begin_ns);
}

/* Before the first event of a track; the process before its first track. */
static void put_names(struct tasks *tasks, uint32_t index)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	const char *process = slice->process.name;
	char name[sizeof(slice->process.name) + 16];

	if (tasks->named > tasks->tracks[index])
		return;
	if (!tasks->named) {
		snprintf(name, sizeof(name), "%s: tasks",
			 *process ? process : "process");
		fgt_chrome_put_name(tasks->json, "process_name",
				    tasks_pid(tasks), tasks_pid(tasks), name);
	}
	fgt_chrome_put_name(tasks->json, "thread_name", tasks_pid(tasks),
			    track_tid(tasks, index),
			    text(tasks, slice->tasks[index].name, "task"));
	tasks->named = tasks->tracks[index] + 1;
}

static void put_one(struct tasks *tasks, uint32_t index)
{
	uint64_t begin_ns, end_ns;

	if (!fgt_spans_clip_task(tasks->slice, index, &begin_ns, &end_ns)) {
		while (tasks->next_span < tasks->slice->span_count &&
		       tasks->slice->spans[tasks->next_span].task == index)
			tasks->next_span++;
		return;
	}
	put_names(tasks, index);
	put_task(tasks, index, "B", begin_ns);
	put_arrow(tasks, index);
	put_spans_of(tasks, index);
	put_task(tasks, index, "E", end_ns);
}

/* Tracks are numbered here: the numbers of the program may be any. */
static int number_tracks(struct tasks *tasks)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	uint32_t track = 0;

	if (!FGT_ARRAY_NEW(tasks->tracks, slice->task_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->task_count; i++) {
		if (i && slice->tasks[i].track != slice->tasks[i - 1].track)
			track++;
		tasks->tracks[i] = track;
	}
	return 0;
}

/* ---- Marks and counters ------------------------------------------------- */

static void put_marks(struct tasks *tasks)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	int32_t named = 0;

	for (uint32_t i = 0; i < slice->mark_count; i++) {
		const struct fgt_slice_mark *mark = &slice->marks[i];
		uint32_t thread = fgt_slice_find_thread(slice, mark->tid);
		uint64_t ns, ignored, tid = fgt_chrome_id(mark->tid);
		uint64_t pid = tasks->pid;
		char name[32];

		if (!fgt_spans_clip(slice, mark->at_ns, mark->at_ns, &ns,
				    &ignored))
			continue;
		/* A thread that lived less than a tick has no name. */
		if (thread < slice->thread_count) {
			pid = fgt_chrome_id(
				fgt_slice_process_of(slice, thread).pid);
		} else if (mark->tid != named) {
			snprintf(name, sizeof(name), "thread %d", mark->tid);
			fgt_chrome_put_name(tasks->json, "thread_name",
					    tasks->pid, tid, name);
			named = mark->tid;
		}
		fgt_chrome_begin(tasks->json, text(tasks, mark->name, "mark"),
				 "i", pid, tid);
		put_ts(tasks, ns);
		fgt_json_put_string(tasks->json, "s", "t");
		fgt_json_end_object(tasks->json);
	}
}

static void put_counters(struct tasks *tasks)
{
	const struct fgt_ring_slice *slice = tasks->slice;

	for (uint32_t i = 0; i < slice->counter_count; i++) {
		const struct fgt_slice_counter *counter = &slice->counters[i];
		uint64_t ns, ignored;

		if (!fgt_spans_clip(slice, counter->at_ns, counter->at_ns, &ns,
				    &ignored))
			continue;
		fgt_chrome_begin(tasks->json,
				 text(tasks, counter->name, "counter"), "C",
				 tasks->pid, tasks->pid);
		put_ts(tasks, ns);
		fgt_json_begin_object(tasks->json, "args");
		fgt_json_put_double(tasks->json, "value", counter->value);
		fgt_chrome_end_args(tasks->json);
	}
}

int fgt_chrome_tasks_put(const struct fgt_ring_slice *slice, uint64_t pid,
			 struct fgt_json *json)
{
	struct tasks tasks = { .slice = slice, .json = json, .pid = pid };
	int r = number_tracks(&tasks);

	if (r == 0) {
		for (uint32_t i = 0; i < slice->task_count; i++)
			put_one(&tasks, i);
		put_marks(&tasks);
		put_counters(&tasks);
	}
	free(tasks.tracks);
	return r;
}
