/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a slice holds. Names in it come from outside: none of them may
 * move the cursor, forge a line or break the JSON.
 */
#include "agent/cli/summary/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "agent/cli/complaint.h"
#include "ringbuf/base/json.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"

#define FUNCTION_COLUMNS    100
#define THREAD_COLUMNS	    16 /* at least */
#define BRIEF_MIN_NS	    20000000u
#define NOT_SAMPLED_PERCENT 5 /* more than this is worth a line */
#define MISSED_PERCENT	    5 /* likewise */
#define QUIET_PERCENT	    1 /* of samples: less ran, so waits matter */
#define KERNEL_PERCENT	    20 /* likewise, of time in a kernel not seen */

const char *fgt_brief_text(uint64_t threads, uint64_t cpu_ns, char *text)
{
	text[0] = '\0';
	if (threads)
		snprintf(text, FGT_BRIEF_TEXT_MAX,
			 "%" PRIu64 " thread%s ended before the first look at "
			 "%s, after %.2f s of CPU time; ticks that found %s "
			 "are shown",
			 threads, threads == 1 ? "" : "s",
			 threads == 1 ? "it" : "them", (double)cpu_ns / 1e9,
			 threads == 1 ? "it" : "them");
	else if (cpu_ns >= BRIEF_MIN_NS)
		snprintf(text, FGT_BRIEF_TEXT_MAX,
			 "no look saw %.2f s of CPU time, of short threads and "
			 "of the ends of others; ticks that fell into it are "
			 "shown",
			 (double)cpu_ns / 1e9);
	return text;
}

const char *fgt_missed_text(uint64_t ticks, uint64_t missed, char *text)
{
	text[0] = '\0';
	if (fgt_percent(missed, ticks + missed) > MISSED_PERCENT)
		snprintf(text, FGT_MISSED_TEXT_MAX,
			 "%" PRIu64 " of %" PRIu64
			 " ticks are missing: the sampler got no CPU in time, "
			 "or waited for a file or process that its log names: "
			 "shares are of the other "
			 "%" PRIu64 ", and may be wrong",
			 missed, ticks + missed, ticks);
	return text;
}

static void print_denied(const struct fgt_summary *summary, FILE *file)
{
	double percent = fgt_percent(summary->kernel_denied, summary->running);

	if (percent > KERNEL_PERCENT)
		fprintf(file,
			"%.0f %% of the running samples are in the kernel, "
			"which may not be sampled: for their calls record as "
			"root, or with kernel.perf_event_paranoid = 1\n",
			percent);
}

void fgt_summary_print_line(const struct fgt_ring_slice *slice,
			    const struct fgt_summary *summary, FILE *file)
{
	char brief[FGT_BRIEF_TEXT_MAX], missed[FGT_MISSED_TEXT_MAX];

	fprintf(file, "%.1f s of ", summary->covered_s);
	fgt_print_text(file, slice->process.name, 64);
	fprintf(file, " (%d)", slice->process.pid);
	if (slice->process_count > 1)
		fprintf(file, " and %u more process%s",
			slice->process_count - 1,
			slice->process_count == 2 ? "" : "es");
	fprintf(file,
		": %u thread%s, %u ticks at %.1f Hz, %" PRIu64
		" missed, %.1f %% of stacks complete\n",
		summary->thread_count, summary->thread_count == 1 ? "" : "s",
		slice->tick_count, slice->effective_hz, slice->missed_ticks,
		fgt_percent(summary->complete, summary->samples));
	fgt_missed_text(slice->tick_count, slice->missed_ticks, missed);
	if (missed[0])
		fprintf(file, "%s\n", missed);
	fgt_brief_text(slice->brief_threads, slice->brief_cpu_ns, brief);
	if (brief[0])
		fprintf(file, "%s\n", brief);
	if (slice->lost_wakes)
		fprintf(file,
			"%" PRIu64 " wake-up%s found no room: the waker is not "
			"known\n",
			slice->lost_wakes, slice->lost_wakes == 1 ? "" : "s");
	print_denied(summary, file);
	fgt_nameless_print(&summary->nameless, summary->samples, file);
	if (fgt_percent(summary->running, summary->samples) < QUIET_PERCENT)
		fgt_summary_waits_print_line(summary->waits, file);
}

void fgt_print_more(uint32_t more, const char *flag, FILE *file)
{
	if (more)
		fprintf(file, "  and %u more: %s 0 shows all\n", more, flag);
}

static void print_functions(const struct fgt_summary *summary, uint32_t top,
			    FILE *file)
{
	uint32_t count = 0;
	double not_sampled;

	if (summary->running == 0) {
		fputs("no thread was running at any tick\n", file);
		return;
	}
	fprintf(file,
		"hottest functions: share of the %" PRIu64 " running samples\n"
		"   self   total  function\n",
		summary->running);
	/* Those that did not run are the last ones. */
	while (count < summary->function_count &&
	       summary->functions[count].total)
		count++;
	for (uint32_t i = 0; i < count && i < top; i++) {
		const struct fgt_summary_function *function =
			&summary->functions[i];

		fprintf(file, "%5.1f %% %5.1f %%  ",
			fgt_percent(function->self, summary->running),
			fgt_percent(function->total, summary->running));
		fgt_print_text(file, function->name, FUNCTION_COLUMNS);
		fputc('\n', file);
	}
	fgt_print_more(count > top ? count - top : 0, "--top", file);
	not_sampled = fgt_percent(summary->not_sampled, summary->running);
	if (not_sampled > NOT_SAMPLED_PERCENT)
		fprintf(file,
			"%.0f %% were not sampled: shown with the stack of "
			"their last sample\n",
			not_sampled);
}

static void print_thread(const struct fgt_summary_thread *thread,
			 size_t columns, bool has_pid, FILE *file)
{
	uint64_t wants_cpu = thread->running + thread->runnable;

	fputs("  ", file);
	fgt_print_padded(file, thread->name, columns);
	if (has_pid)
		fprintf(file, " %8d", thread->pid);
	fprintf(file, " %8d %8" PRIu64 "  %5.1f %%   %5.1f %%  %5.1f %% ",
		thread->tid, thread->samples,
		fgt_percent(thread->running, thread->samples),
		fgt_percent(thread->runnable, thread->samples),
		fgt_percent(thread->samples - wants_cpu, thread->samples));
	for (uint32_t i = 0; i < thread->state_count; i++) {
		fputs(i ? ", " : " ", file);
		fgt_print_text(file, thread->states[i].name, 32);
		fprintf(file, " %.1f %%",
			fgt_percent(thread->states[i].samples,
				    thread->samples));
	}
	fputc('\n', file);
}

static void print_threads(const struct fgt_summary *summary, uint32_t limit,
			  FILE *file)
{
	uint32_t count = summary->thread_count;
	size_t columns = THREAD_COLUMNS;

	for (uint32_t i = 0; i < count && i < limit; i++)
		fgt_column_fit(file, summary->threads[i].name, &columns);
	fputs("  ", file);
	fgt_print_padded(file, "thread", columns);
	fprintf(file, "%s      tid  samples  running  runnable  blocked  in\n",
		summary->has_processes ? "      pid" : "");
	for (uint32_t i = 0; i < count && i < limit; i++)
		print_thread(&summary->threads[i], columns,
			     summary->has_processes, file);
	fgt_print_more(count > limit ? count - limit : 0, "--threads", file);
}

void fgt_summary_print_tables(const struct fgt_summary *summary, uint32_t top,
			      uint32_t threads, FILE *file)
{
	if (top) {
		print_functions(summary, top, file);
		fgt_summary_waits_print(summary->waits, top, file);
		fputc('\n', file);
	}
	if (top || threads)
		fgt_summary_groups_print(summary->groups, summary->group_count,
					 file);
	if (threads)
		print_threads(summary, threads, file);
}

static void put_functions(const struct fgt_summary *summary, uint32_t top,
			  struct fgt_json *json)
{
	fgt_json_put_uint(json, "function_count", summary->function_count);
	fgt_json_begin_array(json, "functions");
	for (uint32_t i = 0; i < summary->function_count && i < top; i++) {
		const struct fgt_summary_function *function =
			&summary->functions[i];

		fgt_json_begin_object(json, NULL);
		fgt_json_put_handle(json, "id", 'f', function->id);
		fgt_json_put_string(json, "name", function->name);
		fgt_json_put_uint(json, "self", function->self);
		fgt_json_put_uint(json, "total", function->total);
		fgt_json_put_uint(json, "wall", function->wall);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
}

/* States are an array of their own: their names come from a slice file. */
static void put_states(const struct fgt_summary_thread *thread,
		       struct fgt_json *json)
{
	fgt_json_begin_array(json, "blocked_in");
	for (uint32_t i = 0; i < thread->state_count; i++) {
		fgt_json_begin_object(json, NULL);
		fgt_json_put_string(json, "state", thread->states[i].name);
		fgt_json_put_uint(json, "samples", thread->states[i].samples);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
}

static void put_threads(const struct fgt_summary *summary,
			struct fgt_json *json)
{
	fgt_json_begin_array(json, "threads");
	for (uint32_t i = 0; i < summary->thread_count; i++) {
		const struct fgt_summary_thread *thread = &summary->threads[i];

		fgt_json_begin_object(json, NULL);
		fgt_json_put_handle(json, "id", 't', thread->number);
		fgt_json_put_string(json, "name", thread->name);
		fgt_json_put_int(json, "tid", thread->tid);
		fgt_json_put_int(json, "pid", thread->pid);
		fgt_json_put_uint(json, "samples", thread->samples);
		fgt_json_put_uint(json, "running", thread->running);
		fgt_json_put_uint(json, "runnable", thread->runnable);
		fgt_json_put_uint(json, "complete", thread->complete);
		put_states(thread, json);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
}

static void put_processes(const struct fgt_ring_slice *slice,
			  struct fgt_json *json)
{
	fgt_json_begin_array(json, "processes");
	for (uint32_t i = 0; i < fgt_slice_process_count(slice); i++) {
		struct fgt_process_of of = fgt_slice_process(slice, i);

		fgt_json_begin_object(json, NULL);
		fgt_json_put_int(json, "pid", of.pid);
		fgt_json_put_string(json, "name", of.name);
		fgt_json_put_string(json, "title", of.title);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
}

static void put_slice(const struct fgt_ring_slice *slice,
		      const struct fgt_summary *summary, struct fgt_json *json)
{
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	fgt_json_put_int(json, "pid", slice->process.pid);
	fgt_json_put_string(json, "name", slice->process.name);
	if (*slice->ended_by)
		fgt_json_put_string(json, "ended_by", slice->ended_by);
	put_processes(slice, json);
	fgt_json_put_uint(json, "requested_from_ns", slice->requested_from_ns);
	fgt_json_put_uint(json, "requested_to_ns", slice->requested_to_ns);
	fgt_json_put_uint(json, "from_ns", first_ns);
	fgt_json_put_uint(json, "to_ns", last_ns);
	fgt_json_put_uint(json, "from_wall_ns",
			  fgt_slice_wall_ns(slice, first_ns));
	fgt_json_put_uint(json, "to_wall_ns",
			  fgt_slice_wall_ns(slice, last_ns));
	fgt_json_put_uint(json, "ticks", slice->tick_count);
	fgt_json_put_double(json, "effective_hz",
			    round(slice->effective_hz * 1e3) / 1e3);
	if (slowest > 1) {
		double hz = 1e9 / ((double)slice->period_ns * slowest);

		fgt_json_put_double(json, "lowered_to_hz",
				    round(hz * 1e3) / 1e3);
	}
	fgt_json_put_uint(json, "missed_ticks", slice->missed_ticks);
	fgt_json_put_uint(json, "evicted_ticks", slice->evicted_ticks);
	fgt_json_put_uint(json, "lapped_ticks", slice->lapped_ticks);
	fgt_json_put_uint(json, "lost_wakes", slice->lost_wakes);
	fgt_json_put_uint(json, "brief_threads", slice->brief_threads);
	fgt_json_put_uint(json, "brief_cpu_ns", slice->brief_cpu_ns);
	fgt_json_put_uint(json, "samples", summary->samples);
	fgt_json_put_uint(json, "running", summary->running);
	fgt_json_put_uint(json, "runnable", summary->runnable);
	fgt_json_put_uint(json, "complete", summary->complete);
	fgt_json_put_uint(json, "stripped", summary->nameless.stripped);
	fgt_json_put_uint(json, "compiled_unnamed", summary->nameless.compiled);
}

static void put_fate(const struct fgt_summary_fate *fate, struct fgt_json *json)
{
	if (fate->format) {
		fgt_json_begin_object(json, "output");
		fgt_json_put_string(json, "path", fate->path);
		fgt_json_put_string(json, "format", fate->format);
		fgt_json_put_uint(json, "bytes", fate->bytes);
		fgt_json_end_object(json);
	}
	if (!fate->upload)
		return;
	fgt_json_begin_object(json, "upload");
	fgt_json_put_string(json, "kind",
			    fgt_destination_kind_name(fate->kind));
	fgt_json_put_string(
		json,
		fate->kind == FGT_DESTINATION_SENTRY ? "dsn" : "destination",
		fate->upload->where);
	fgt_json_put_string(json, "event_id", fate->upload->event_id);
	fgt_json_put_int(json, "status", fate->upload->status);
	fgt_json_put_uint(json, "sent_bytes", fate->upload->bytes);
	if (fate->is_spooled)
		fgt_json_put_bool(json, "spooled", true);
	if (fate->upload_error)
		fgt_json_put_string(json, "error", fate->upload_error);
	if (fate->kept[0])
		fgt_json_put_string(json, "kept", fate->kept);
	fgt_json_end_object(json);
}

int fgt_summary_print_json(const struct fgt_ring_slice *slice,
			   const struct fgt_summary *summary, uint32_t top,
			   const struct fgt_summary_fate *fate, FILE *file)
{
	const struct fgt_sink sink = { fgt_file_write, file };
	struct fgt_json json;
	int r;

	fgt_json_init(&json, &sink);
	fgt_json_begin_object(&json, NULL);
	put_slice(slice, summary, &json);
	put_functions(summary, top, &json);
	put_threads(summary, &json);
	fgt_summary_groups_put(summary->groups, summary->group_count, &json);
	fgt_summary_waits_put(summary->waits, top, &json);
	put_fate(fate, &json);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	r = fgt_json_finish(&json);
	return r == 0 && fflush(file) != 0 ? -errno : r;
}
