/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes tasks and spans as Sentry's spans. The parent of a span is the nearest
 * written one around it, else the transaction. Runs in any thread; must not
 * hold more than a word for each.
 */
#include "upload/format/sentry/sentry_envelope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/spans.h"
#include "ringbuf/spans/span_log.h"
#include "upload/format/parts/thread_runs.h"

/* Bytes of all spans: no labels above the first limit, no spans above the
 * second one. */
#define LABELS_BYTES_MAX (600u << 10)
#define SPANS_BYTES_MAX	 (896u << 10)

/* The most tasks on the way from a span to a written one. */
#define ANCESTORS_MAX 64

struct spans {
	const struct fgt_sentry_spans *about;
	const struct fgt_ring_slice *slice;
	struct fgt_json *json;
	uint64_t own_id; /* of the transaction */
	uint64_t begun_bytes; /* written before the first one */
	/* The tasks, then the spans. */
	bool *is_chosen, *is_foreign;
};

/* ---- Which ones --------------------------------------------------------- */

/* Its part within the transaction; 0: it does not belong to it. */
static uint64_t duration(const struct fgt_sentry_spans *about, uint64_t number,
			 uint64_t begin_ns, uint64_t end_ns, int32_t tid)
{
	if (!end_ns || end_ns > about->end_ns)
		end_ns = about->end_ns;
	if (!number ||
	    !fgt_thread_runs_overlap(about->thread_runs,
				     about->thread_run_count, tid, begin_ns,
				     end_ns) ||
	    (about->thread_run_count && begin_ns < about->begin_ns))
		return 0;
	if (begin_ns < about->begin_ns)
		begin_ns = about->begin_ns;
	return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

static uint64_t task_duration(const struct fgt_sentry_spans *about, uint32_t i)
{
	const struct fgt_slice_task *task = &about->slice->tasks[i];

	return duration(about, task->number, task->begin_ns, task->end_ns,
			task->tid);
}

static uint64_t span_duration(const struct fgt_sentry_spans *about, uint32_t i)
{
	const struct fgt_slice_span *span = &about->slice->spans[i];

	return duration(about, span->number, span->begin_ns, span->end_ns,
			span->tid);
}

static bool has_label(const struct fgt_ring_slice *slice, uint32_t span,
		      const char *key, const char *value)
{
	const struct fgt_slice_label *labels;
	uint32_t count;

	labels = fgt_spans_labels(slice, span, &count);
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(fgt_slice_string(slice, labels[i].key), key) &&
		    !strcmp(fgt_slice_string(slice, labels[i].value), value))
			return true;
	return false;
}

/*
 * Contexts of threads, as the sampler saw them: those of other traces, and that
 * of the transaction itself, are no spans of it; nor is a task without others.
 */
static void mark_foreign(struct spans *spans)
{
	const struct fgt_sentry_spans *about = spans->about;
	const struct fgt_ring_slice *slice = spans->slice;
	bool *is_foreign = spans->is_foreign;

	if (!about->thread_run_count)
		return;
	for (uint32_t i = 0; i < slice->task_count; i++)
		is_foreign[i] = slice->tasks[i].number & FGT_NUMBER_OBSERVED;
	for (uint32_t i = 0; i < slice->span_count; i++) {
		if (!(slice->spans[i].number & FGT_NUMBER_OBSERVED))
			continue;
		if (has_label(slice, i, "trace_id", about->trace_id) &&
		    !has_label(slice, i, "span_id", about->span_id))
			is_foreign[slice->spans[i].task] = false;
		else
			is_foreign[slice->task_count + i] = true;
	}
}

static int longest_first(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* The duration below which none is written; durations has all of them. */
static uint64_t shortest_chosen(uint64_t *durations, size_t count)
{
	if (count <= FGT_SENTRY_SPANS_MAX)
		return 1;
	qsort(durations, count, sizeof(*durations), longest_first);
	return durations[FGT_SENTRY_SPANS_MAX - 1];
}

static uint64_t nth_duration(const struct spans *spans, uint32_t i)
{
	const struct fgt_sentry_spans *about = spans->about;
	uint32_t tasks = about->slice->task_count;

	if (spans->is_foreign[i])
		return 0;
	return i < tasks ? task_duration(about, i)
			 : span_duration(about, i - tasks);
}

/* Adds tasks and spans that last at least least_ns, while there is room. */
static void choose_from(struct spans *spans, uint64_t least_ns, size_t *chosen)
{
	uint32_t all = spans->slice->task_count + spans->slice->span_count;

	for (uint32_t i = 0; i < all && *chosen < FGT_SENTRY_SPANS_MAX; i++) {
		if (spans->is_chosen[i] || nth_duration(spans, i) < least_ns)
			continue;
		spans->is_chosen[i] = true;
		++*chosen;
	}
}

static int choose(struct spans *spans)
{
	uint32_t all = spans->slice->task_count + spans->slice->span_count;
	uint64_t *durations, shortest;
	size_t count = 0, chosen = 0;

	if (!FGT_ARRAY_NEW(durations, all))
		return -ENOMEM;
	for (uint32_t i = 0; i < all; i++) {
		durations[count] = nth_duration(spans, i);
		count += durations[count] > 0;
	}
	shortest = shortest_chosen(durations, count);
	free(durations);
	/* There may be more of the shortest duration than fit. */
	choose_from(spans, shortest + 1, &chosen);
	choose_from(spans, shortest, &chosen);
	return 0;
}

/* ---- Writing ------------------------------------------------------------ */

static uint64_t written(const struct fgt_json *json)
{
	return json->out.total_bytes + json->out.used_bytes;
}

/* Numbers repeat in each process: combined with the transaction's id they are
 * unique in a trace of several processes. */
static void put_id(struct spans *spans, const char *key, uint64_t number)
{
	char hex[17];

	snprintf(hex, sizeof(hex), "%016llx",
		 (unsigned long long)(spans->own_id ^ number));
	fgt_json_put_string(spans->json, key, hex);
}

static void put_time(struct spans *spans, const char *key, uint64_t mono_ns)
{
	const struct fgt_sentry_spans *about = spans->about;

	if (mono_ns < about->begin_ns)
		mono_ns = about->begin_ns;
	if (mono_ns > about->end_ns)
		mono_ns = about->end_ns;
	fgt_json_put_decimal(
		spans->json, key,
		(about->begin_wall_ns + mono_ns - about->begin_ns) / 1000, 6);
}

/* Up to its data, which stays open. parent: number of the task or span around
 * it, 0: the transaction. */
static void begin_span(struct spans *spans, const char *op, const char *name,
		       uint64_t number, uint64_t parent)
{
	struct fgt_json *json = spans->json;

	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "trace_id", spans->about->trace_id);
	put_id(spans, "span_id", number);
	put_id(spans, "parent_span_id", parent);
	fgt_json_put_string(json, "op", op);
	fgt_json_put_string(json, "description", name);
	fgt_json_put_string(json, "status", "ok");
}

static void begin_data(struct spans *spans, uint64_t begin_ns, uint64_t end_ns,
		       uint64_t number, int32_t tid)
{
	struct fgt_json *json = spans->json;
	char id[FGT_NUMBER_TEXT_SIZE];

	fgt_number_text(number, id);
	put_time(spans, "start_timestamp", begin_ns);
	put_time(spans, "timestamp", end_ns ? end_ns : spans->about->end_ns);
	fgt_json_begin_object(json, "data");
	fgt_json_put_uint_string(json, "thread.id", (uint32_t)tid);
	fgt_json_put_string(json, "fgtrace.id", id);
}

static void end_span(struct spans *spans)
{
	fgt_json_end_object(spans->json);
	fgt_json_end_object(spans->json);
}

/* The number of the nearest written task around it, or 0. */
static uint64_t chosen_task(const struct spans *spans, uint32_t link)
{
	const struct fgt_ring_slice *slice = spans->slice;

	for (int i = 0; link && i < ANCESTORS_MAX; i++) {
		if (spans->is_chosen[link - 1])
			return slice->tasks[link - 1].number;
		link = slice->tasks[link - 1].parent;
	}
	return 0;
}

static void put_task(struct spans *spans, uint32_t index)
{
	const struct fgt_slice_task *task = &spans->slice->tasks[index];
	const char *name = fgt_slice_string(spans->slice, task->name);

	begin_span(spans, "task", *name ? name : "task", task->number,
		   chosen_task(spans, task->parent));
	begin_data(spans, task->begin_ns, task->end_ns, task->number,
		   task->tid);
	end_span(spans);
}

static bool is_own_key(const char *key)
{
	return !*key || !strcmp(key, "thread.id") ||
	       !strcmp(key, "thread.name") || !strcmp(key, "fgtrace.id");
}

static void put_labels(struct spans *spans, uint32_t index)
{
	const struct fgt_slice_label *labels;
	uint32_t count;

	labels = fgt_spans_labels(spans->slice, index, &count);
	for (uint32_t i = 0; i < count; i++) {
		const char *key = fgt_slice_string(spans->slice, labels[i].key);

		if (is_own_key(key) ||
		    written(spans->json) - spans->begun_bytes >
			    LABELS_BYTES_MAX)
			continue;
		fgt_json_put_string(
			spans->json, key,
			fgt_slice_string(spans->slice, labels[i].value));
	}
}

static void put_span(struct spans *spans, uint32_t index, uint64_t parent)
{
	const struct fgt_slice_span *span = &spans->slice->spans[index];
	const char *name = fgt_slice_string(spans->slice, span->name);

	begin_span(spans, "span", *name ? name : "span", span->number, parent);
	begin_data(spans, span->begin_ns, span->end_ns, span->number,
		   span->tid);
	put_labels(spans, index);
	end_span(spans);
}

static bool has_room(const struct spans *spans)
{
	return written(spans->json) - spans->begun_bytes < SPANS_BYTES_MAX;
}

static void put_all(struct spans *spans)
{
	const struct fgt_ring_slice *slice = spans->slice;
	/* Index: a depth. The number of the innermost written span of that
	 * depth or less; 0: none in this task. */
	uint64_t around[FGT_SPAN_DEPTH_MAX] = { 0 };

	for (uint32_t i = 0; i < slice->task_count && has_room(spans); i++)
		if (spans->is_chosen[i])
			put_task(spans, i);
	for (uint32_t i = 0; i < slice->span_count && has_room(spans); i++) {
		const struct fgt_slice_span *span = &slice->spans[i];
		uint64_t parent = span->depth ? around[span->depth - 1] : 0;

		around[span->depth] = parent;
		if (!spans->is_chosen[slice->task_count + i])
			continue;
		around[span->depth] = span->number;
		put_span(spans, i,
			 parent ? parent : chosen_task(spans, span->task + 1));
	}
}

int fgt_sentry_spans_put(const struct fgt_sentry_spans *about,
			 struct fgt_json *json)
{
	const struct fgt_ring_slice *slice = about->slice;
	struct spans spans = { .about = about, .slice = slice, .json = json };
	size_t count = (size_t)slice->task_count + slice->span_count;
	int r;

	if (!FGT_ARRAY_NEW(spans.is_chosen, 2 * count))
		return -ENOMEM;
	spans.is_foreign = spans.is_chosen + count;
	mark_foreign(&spans);
	spans.own_id = strtoull(about->span_id, NULL, 16);
	r = choose(&spans);
	if (r == 0) {
		fgt_json_begin_array(json, "spans");
		spans.begun_bytes = written(json);
		put_all(&spans);
		fgt_json_end_array(json);
	}
	free(spans.is_chosen);
	return r;
}
