/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a slice holds. Names in it come from outside: none of them may
 * move the cursor, forge a line or break the JSON.
 */
#include "agent/cli/summary_print.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/daemon/escape.h"
#include "upload/format/utf8.h"

#define FUNCTION_COLUMNS 100
#define THREADS_SHOWN	 40 /* in the table; the JSON has all */

/* Length of the character at text if it may go to a terminal as it is: valid
 * UTF-8 and no control character, C1 included. */
static size_t printable_len(const char *text, size_t len)
{
	unsigned char first = (unsigned char)text[0];

	if (first < 0x20 || first == 0x7f)
		return 0;
	if (first == 0xc2 && len > 1 && (unsigned char)text[1] < 0xa0)
		return 0;
	return fgt_utf8_len(text, len);
}

static size_t count_characters(const char *text, size_t len)
{
	size_t count = 0;

	for (size_t at = 0; at < len; count++) {
		size_t part = fgt_utf8_len(text + at, len - at);

		at += part ? part : 1;
	}
	return count;
}

size_t fgt_print_text(FILE *file, const char *text, size_t columns)
{
	size_t len = strlen(text), count = count_characters(text, len), at = 0;
	size_t shown = count > columns ? columns - 3 : count;

	for (size_t i = 0; i < shown; i++) {
		size_t part = printable_len(text + at, len - at);
		size_t skipped = fgt_utf8_len(text + at, len - at);

		if (part)
			fwrite(text + at, 1, part, file);
		else
			fputc('?', file);
		at += skipped ? skipped : 1;
	}
	if (shown == count)
		return count;
	fputs("...", file);
	return columns;
}

void fgt_print_padded(FILE *file, const char *text, size_t columns)
{
	size_t printed = fgt_print_text(file, text, columns);

	fprintf(file, "%*s", (int)(columns - printed), "");
}

void fgt_summary_print_line(const struct fgt_slice *slice,
			    const struct fgt_summary *summary, FILE *file)
{
	fprintf(file, "%.1f s of ", summary->covered_s);
	fgt_print_text(file, slice->process.name, 64);
	fprintf(file,
		" (%d): %u thread%s, %u ticks at %.1f Hz, %" PRIu64
		" missed, %.1f %% of stacks complete\n",
		slice->process.pid, summary->thread_count,
		summary->thread_count == 1 ? "" : "s", slice->tick_count,
		slice->effective_hz, slice->missed_ticks,
		fgt_percent(summary->complete, summary->samples));
}

static void print_functions(const struct fgt_summary *summary, uint32_t top,
			    FILE *file)
{
	if (summary->running == 0) {
		fputs("no thread ran on a CPU at any tick\n", file);
		return;
	}
	fprintf(file,
		"hottest functions: share of the %" PRIu64
		" samples that ran on a CPU\n"
		"   self   total  function\n",
		summary->running);
	for (uint32_t i = 0; i < summary->function_count && i < top; i++) {
		const struct fgt_summary_function *function =
			&summary->functions[i];

		if (function->total == 0)
			break;
		fprintf(file, "%5.1f %% %5.1f %%  ",
			fgt_percent(function->self, summary->running),
			fgt_percent(function->total, summary->running));
		fgt_print_text(file, function->name, FUNCTION_COLUMNS);
		fputc('\n', file);
	}
}

static void print_thread(const struct fgt_summary_thread *thread, FILE *file)
{
	fputs("  ", file);
	fgt_print_padded(file, thread->name, 16);
	fprintf(file, " %8d %8" PRIu64 "  %5.1f %%  %5.1f %% ", thread->tid,
		thread->samples, fgt_percent(thread->running, thread->samples),
		fgt_percent(thread->samples - thread->running,
			    thread->samples));
	for (uint32_t i = 0; i < thread->state_count; i++) {
		fputs(i ? ", " : " ", file);
		fgt_print_text(file, thread->states[i].name, 32);
		fprintf(file, " %.1f %%",
			fgt_percent(thread->states[i].samples,
				    thread->samples));
	}
	fputc('\n', file);
}

void fgt_summary_print_tables(const struct fgt_summary *summary, uint32_t top,
			      FILE *file)
{
	uint32_t shown = summary->thread_count;

	if (shown > THREADS_SHOWN)
		shown = THREADS_SHOWN;
	print_functions(summary, top, file);
	fputs("\n  thread                tid  samples  running  blocked  in\n",
	      file);
	for (uint32_t i = 0; i < shown; i++)
		print_thread(&summary->threads[i], file);
	if (shown < summary->thread_count)
		fprintf(file, "  and %u more, which ran less\n",
			summary->thread_count - shown);
}

static int write_file(void *context, const void *bytes, size_t len)
{
	return fwrite(bytes, 1, len, context) == len ? 0 : -EIO;
}

static void put_string(FILE *file, const char *key, const char *text)
{
	const struct fgt_sink sink = { .write = write_file, .context = file };

	fprintf(file, "\"%s\":", key);
	(void)fgt_escape_json(&sink, text, strlen(text));
}

static void put_functions(const struct fgt_summary *summary, uint32_t top,
			  FILE *file)
{
	fputs(",\"functions\":[", file);
	for (uint32_t i = 0; i < summary->function_count && i < top; i++) {
		const struct fgt_summary_function *function =
			&summary->functions[i];

		fputs(i ? ",{" : "{", file);
		put_string(file, "name", function->name);
		fprintf(file,
			",\"self\":%" PRIu64 ",\"total\":%" PRIu64
			",\"wall\":%" PRIu64 "}",
			function->self, function->total, function->wall);
	}
	fputc(']', file);
}

/* States are an array of their own: their names come from a slice file. */
static void put_states(const struct fgt_summary_thread *thread, FILE *file)
{
	fputs(",\"blocked_in\":[", file);
	for (uint32_t i = 0; i < thread->state_count; i++) {
		fputs(i ? ",{" : "{", file);
		put_string(file, "state", thread->states[i].name);
		fprintf(file, ",\"samples\":%" PRIu64 "}",
			thread->states[i].samples);
	}
	fputc(']', file);
}

static void put_threads(const struct fgt_summary *summary, FILE *file)
{
	fputs(",\"threads\":[", file);
	for (uint32_t i = 0; i < summary->thread_count; i++) {
		const struct fgt_summary_thread *thread = &summary->threads[i];

		fputs(i ? ",{" : "{", file);
		put_string(file, "name", thread->name);
		fprintf(file,
			",\"tid\":%d,\"samples\":%" PRIu64
			",\"running\":%" PRIu64 ",\"complete\":%" PRIu64,
			thread->tid, thread->samples, thread->running,
			thread->complete);
		put_states(thread, file);
		fputc('}', file);
	}
	fputc(']', file);
}

static void put_slice(const struct fgt_slice *slice,
		      const struct fgt_summary *summary, FILE *file)
{
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];

	fprintf(file, "{\"pid\":%d,", slice->process.pid);
	put_string(file, "name", slice->process.name);
	fprintf(file,
		",\"requested_from_ns\":%" PRIu64
		",\"requested_to_ns\":%" PRIu64 ",\"from_ns\":%" PRIu64
		",\"to_ns\":%" PRIu64 ",\"from_wall_ns\":%" PRIu64
		",\"to_wall_ns\":%" PRIu64,
		slice->requested_from_ns, slice->requested_to_ns, first_ns,
		last_ns, fgt_slice_wall_ns(slice, first_ns),
		fgt_slice_wall_ns(slice, last_ns));
	fprintf(file,
		",\"ticks\":%u,\"effective_hz\":%.3f,\"missed_ticks\":%" PRIu64
		",\"evicted_ticks\":%" PRIu64 ",\"lapped_ticks\":%" PRIu64,
		slice->tick_count, slice->effective_hz, slice->missed_ticks,
		slice->evicted_ticks, slice->lapped_ticks);
	fprintf(file,
		",\"samples\":%" PRIu64 ",\"running\":%" PRIu64
		",\"complete\":%" PRIu64,
		summary->samples, summary->running, summary->complete);
}

static void put_fate(const struct fgt_summary_fate *fate, FILE *file)
{
	if (fate->format) {
		fputs(",\"output\":{", file);
		put_string(file, "path", fate->path);
		fputc(',', file);
		put_string(file, "format", fate->format);
		fprintf(file, ",\"bytes\":%" PRIu64 "}", fate->bytes);
	}
	if (!fate->upload)
		return;
	fputs(",\"upload\":{", file);
	put_string(file, "dsn", fate->dsn);
	fputc(',', file);
	put_string(file, "event_id", fate->upload->event_id);
	fprintf(file, ",\"status\":%ld,\"sent_bytes\":%zu",
		fate->upload->status, fate->upload->sent_bytes);
	if (fate->upload_error) {
		fputc(',', file);
		put_string(file, "error", fate->upload_error);
	}
	fputc('}', file);
}

int fgt_summary_print_json(const struct fgt_slice *slice,
			   const struct fgt_summary *summary, uint32_t top,
			   const struct fgt_summary_fate *fate, FILE *file)
{
	put_slice(slice, summary, file);
	put_functions(summary, top, file);
	put_threads(summary, file);
	put_fate(fate, file);
	fputs("}\n", file);
	return fflush(file) == 0 && !ferror(file) ? 0 : -EIO;
}
