/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text and markdown of an explanation. Names come from outside and are printed
 * without control characters.
 */
#include "agent/cli/output/explanation.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/cli/output/explanation_json.h"
#include "agent/cli/summary/summary.h"
#include "ringbuf/slice/pace.h"
#include "upload/why/words.h"

#define LINE_COLUMNS   400
#define CAUSES_SHOWN   5u
#define CYCLE_SHOWN    6u
#define MISSED_PERCENT 5

struct printer {
	const struct fgt_explanation *of;
	const struct fgt_ring_slice *slice;
	FILE *file;
	bool is_markdown;
};

static void print_words(const struct printer *printer,
			const struct fgt_words *words)
{
	fgt_form_print_names(printer->is_markdown ? FGT_FORM_MARKDOWN
						  : FGT_FORM_TEXT,
			     words, LINE_COLUMNS, printer->file);
}

static void print_line(const struct printer *printer,
		       const struct fgt_words *words)
{
	print_words(printer, words);
	fputc('\n', printer->file);
}

static void print_heading(const struct printer *printer, const char *text)
{
	fprintf(printer->file, printer->is_markdown ? "\n### %s\n\n" : "\n%s\n",
		text);
}

/* "1st of 37" */
static void add_rank(struct fgt_words *words, const struct fgt_rank *rank)
{
	static const char *const endings[] = { "th", "st", "nd", "rd" };
	uint32_t last = rank->place % 10;
	bool is_teen = rank->place / 10 % 10 == 1;

	fgt_words_add(words, "%u%s of %u", rank->place,
		      endings[last <= 3 && !is_teen ? last : 0],
		      rank->others + 1);
}

static bool has_baseline(const struct printer *printer)
{
	return printer->of->windows->count > FGT_EXPLAIN_WINDOWS_MIN;
}

/* Ticks for which the sampler was too late, of the rate that was in force. */
static double count_missed(const struct printer *printer,
			   const struct fgt_window *range)
{
	const struct fgt_ring_slice *slice = printer->slice;
	uint32_t last = range->end - 1;
	double periods =
		(double)(slice->tick_ns[last] - slice->tick_ns[range->first]) /
		(double)slice->period_ns;
	double kept = (double)fgt_pace_weight(slice, range->first,
					      last - range->first);

	return (periods - kept) * (last - range->first) / kept;
}

static void print_range(const struct printer *printer, const char *from,
			const char *to)
{
	const struct fgt_windows *windows = printer->of->windows;
	const struct fgt_window *range = &windows->windows[0];
	uint32_t ticks = range->end - range->first;
	uint32_t others = windows->count - 1;
	double missed = count_missed(printer, range);
	struct fgt_words words = { .len = 0 };

	if (printer->is_markdown)
		fgt_words_add(&words, "## ");
	fgt_words_add_process(&words, printer->slice);
	fgt_words_add(&words, ", %s to %s: ", from, to);
	fgt_words_add_ms(&words, windows->length_ms);
	fgt_words_add(&words, ", %u ticks", ticks);
	if (missed > (ticks + missed) * MISSED_PERCENT / 100)
		fgt_words_add(&words, " (%.0f missed)", missed);
	print_line(printer, &words);
	words.len = 0;
	if (printer->is_markdown)
		fputc('\n', printer->file);
	if (has_baseline(printer))
		fgt_words_add(&words,
			      "compared with %u other windows of that length",
			      others);
	else if (others)
		fgt_words_add(
			&words,
			"no baseline: the recording has only %u other "
			"window%s of that length; ask for a shorter range",
			others, others > 1 ? "s" : "");
	else
		fgt_words_add(&words,
			      "no baseline: the recording has no other window "
			      "of that length; ask for a shorter range");
	print_line(printer, &words);
	words.len = 0;
	fgt_words_add_pace(&words, printer->slice);
	if (!words.len)
		return;
	if (printer->is_markdown)
		fputc('\n', printer->file);
	print_line(printer, &words);
}

static void add_doing(struct fgt_words *words, const struct fgt_explanation *of,
		      uint32_t run)
{
	const struct fgt_doing doing =
		fgt_doings_of_run(of->doings, of->slice, run);

	fgt_words_add_doing(words, of->slice, &doing);
}

/* A thread may be younger than the recording. */
static bool has_own_baseline(const struct printer *printer)
{
	return printer->of->thread_windows >= FGT_EXPLAIN_WINDOWS_MIN;
}

static void add_others(struct fgt_words *words,
		       const struct fgt_explanation *of)
{
	fgt_words_add(words, "anything else");
	if (of->others_running_ms > 0) {
		fgt_words_add(words, " (running for ");
		fgt_words_add_ms(words, of->others_running_ms);
		fgt_words_add(words, ")");
	}
	fgt_words_add(words, ", or not there");
}

static void print_row(const struct printer *printer,
		      const struct fgt_explained_row *row)
{
	const struct fgt_explanation *of = printer->of;
	const char *separator = printer->is_markdown ? " | " : "  ";
	struct fgt_words time = { .len = 0 }, usual = { .len = 0 };
	struct fgt_words what = { .len = 0 };

	fgt_words_add_ms(&time, row->ms);
	if (row->doing != FGT_ID_NONE && has_own_baseline(printer))
		fgt_words_add_ms(&usual, row->rank.usual_ms);
	if (row->doing == FGT_ID_NONE)
		add_others(&what, of);
	else
		add_doing(&what, of, row->run);
	fprintf(printer->file, "%s%9s%s%5.1f %%%s%9s%s",
		printer->is_markdown ? "| " : "  ", time.text, separator,
		100 * row->ms / of->windows->length_ms, separator, usual.text,
		separator);
	print_words(printer, &what);
	fputs(printer->is_markdown ? " |\n" : "\n", printer->file);
}

static void print_rows(const struct printer *printer)
{
	const struct fgt_explanation *of = printer->of;
	const struct fgt_slice_thread *thread = &of->slice->threads[of->thread];
	struct fgt_words words = { .len = 0 };

	fgt_words_add_thread(&words, of->slice, thread->tid);
	if (!of->is_thread_chosen)
		fgt_words_add(&words, has_own_baseline(printer)
					      ? ", whose behaviour differs most"
				      : has_baseline(printer)
					      ? ", which is new, and did most"
					      : ", which did most");
	if (has_baseline(printer) &&
	    of->thread_windows < of->windows->count - 1)
		fgt_words_add(&words, "; it existed in %u of the other windows",
			      of->thread_windows);
	if (printer->is_markdown)
		fputs("\n### ", printer->file);
	else
		fputc('\n', printer->file);
	print_line(printer, &words);
	fputs(printer->is_markdown
		      ? "\n| time | share | usual | what |\n|--:|--:|--:|---|\n"
		      : "       time    share      usual  what\n",
	      printer->file);
	for (uint32_t i = 0; i < of->row_count; i++)
		print_row(printer, &of->rows[i]);
}

/* What the thread behind a step did, with its parts where there are several. */
static void add_parts(struct fgt_words *words, const struct fgt_explanation *of,
		      const struct fgt_explained_step *step)
{
	const struct fgt_run *runs = of->slice->runs;

	for (uint32_t i = 0; i < step->part_count; i++) {
		const struct fgt_explained_part *part = &step->parts[i];

		if (i)
			fgt_words_add(words, " and ");
		if (step->culprit.depth &&
		    runs[part->run].state != FGT_STATE_RUNNABLE)
			fgt_words_add(words, "in ");
		add_doing(words, of, part->run);
		if (step->part_count == 1)
			return;
		fgt_words_add(words, " (");
		fgt_words_add_ms(words, part->ms);
		fgt_words_add(words, ")");
	}
}

static void add_cycle(struct fgt_words *words, const struct fgt_explanation *of,
		      const struct fgt_lock_cycle *cycle)
{
	const struct fgt_ring_slice *slice = of->slice;
	uint32_t run = cycle->run, shown = cycle->count;

	if (!cycle->count)
		return;
	if (shown > CYCLE_SHOWN)
		shown = CYCLE_SHOWN - 1;
	fgt_words_add(words, " (deadlock: ");
	for (uint32_t i = 0; i < shown; i++) {
		fgt_words_add(words, i ? ", " : "");
		fgt_words_add_thread(
			words, slice,
			slice->threads[slice->runs[run].thread].tid);
		run = fgt_culprit_holder(of->doings, slice, run, cycle->tick);
	}
	if (shown < cycle->count)
		fgt_words_add(words, " and %u more", cycle->count - shown);
	fgt_words_add(words, cycle->count == 1 ? " waits for itself)"
					       : " wait for each other)");
}

static void print_step(const struct printer *printer,
		       const struct fgt_explained_step *step)
{
	const struct fgt_explanation *of = printer->of;
	const struct fgt_run *behind = &of->slice->runs[step->culprit.run];
	struct fgt_words words = { .len = 0 };

	fgt_words_add(&words,
		      "%s+%.0f ms: ", printer->is_markdown ? "- " : "  ",
		      step->begin_ms);
	fgt_words_add_ms(&words, step->ms);
	fgt_words_add(&words, " ");
	if (step->culprit.depth) {
		fgt_words_add(&words, "waited for ");
		fgt_words_add_thread(&words, of->slice,
				     of->slice->threads[behind->thread].tid);
		fgt_words_add(&words, ", which was ");
	}
	add_parts(&words, of, step);
	add_cycle(&words, of, &step->culprit.cycle);
	if (step->culprit.is_cut)
		fgt_words_add(&words, " (not followed further)");
	print_line(printer, &words);
}

static void print_steps(const struct printer *printer)
{
	const struct fgt_explanation *of = printer->of;
	struct fgt_words words = { .len = 0 };
	bool has_other = false;

	for (uint32_t i = 0; i < of->step_count; i++)
		has_other |= of->steps[i].culprit.depth > 0 ||
			     of->steps[i].culprit.cycle.count > 0;
	/* Without another thread behind it the table shows all. */
	if (!has_other)
		return;
	print_heading(printer, "Critical path");
	for (uint32_t i = 0; i < of->step_count; i++)
		print_step(printer, &of->steps[i]);
	if (of->steps_left_out_ms < of->windows->length_ms / 100)
		return;
	fgt_words_add(&words, "%s", printer->is_markdown ? "- " : "  ");
	fgt_words_add_ms(&words, of->steps_left_out_ms);
	fgt_words_add(&words, " in shorter parts");
	print_line(printer, &words);
}

static void add_group(struct fgt_words *words, const struct printer *printer,
		      const struct fgt_explained_cause *cause)
{
	const struct fgt_ring_slice *slice = printer->slice;
	const struct fgt_slice_thread *thread =
		&slice->threads[slice->runs[cause->run].thread];

	if (cause->threads > 1)
		fgt_words_add(words, "%u threads like %s", cause->threads,
			      fgt_slice_string(slice, thread->name));
	else
		fgt_words_add_thread(words, slice, thread->tid);
}

static void add_times(struct fgt_words *words, const struct printer *printer,
		      const struct fgt_explained_cause *cause)
{
	const struct fgt_explanation *of = printer->of;

	fgt_words_add_ms(words, cause->own_ms);
	fgt_words_add(words,
		      cause->threads > 1 ? " of their time" : " of its time");
	if (cause->waiters && cause->waiter_run != FGT_ID_NONE) {
		fgt_words_add(words, "; ");
		fgt_words_add_ms(words, cause->waited_ms);
		fgt_words_add(words, " for which %u other%s waited (",
			      cause->waiters, cause->waiters > 1 ? "s" : "");
		add_doing(words, of, cause->waiter_run);
		fgt_words_add(words, ")");
	}
	if (!has_baseline(printer))
		return;
	fgt_words_add(words, "; usual ");
	fgt_words_add_ms(words, cause->rank.usual_ms);
	fgt_words_add(words, ", ");
	add_rank(words, &cause->rank);
	if (cause->rank.most_ms == 0)
		fgt_words_add(words, ", never seen in the others");
}

static void print_cause(const struct printer *printer, uint32_t number,
			const struct fgt_explained_cause *cause)
{
	const struct fgt_explanation *of = printer->of;
	const struct fgt_place place = fgt_place_of(
		of->doings->places, of->slice->runs[cause->run].stack);
	struct fgt_words words = { .len = 0 };

	fgt_words_add(&words, "%s%u. ", printer->is_markdown ? "" : "  ",
		      number);
	add_group(&words, printer, cause);
	fgt_words_add(&words, ": ");
	add_doing(&words, of, cause->run);
	if (!of->doings->doings[cause->doing].shows_callers)
		fgt_words_add_callers(&words, of->slice, &place,
				      FGT_WORDS_CALLED_BY);
	add_cycle(&words, of, &cause->cycle);
	print_line(printer, &words);
	words.len = 0;
	fgt_words_add(&words, "     ");
	add_times(&words, printer, cause);
	print_line(printer, &words);
}

static void print_fresh(const struct printer *printer)
{
	const struct fgt_explained_cause *fresh = &printer->of->fresh;
	struct fgt_words words = { .len = 0 };

	if (!fresh->threads)
		return;
	fgt_words_add(&words, "%snew, without a baseline: ",
		      printer->is_markdown ? "- " : "  ");
	add_group(&words, printer, fresh);
	fgt_words_add(&words, ": ");
	add_doing(&words, printer->of, fresh->run);
	fgt_words_add(&words, "; ");
	fgt_words_add_ms(&words, fresh->own_ms);
	print_line(printer, &words);
}

static void print_causes(const struct printer *printer)
{
	const struct fgt_explanation *of = printer->of;

	print_heading(printer, has_baseline(printer)
				       ? "Unusual, in all threads"
				       : "Most time, in all threads");
	if (!of->cause_count)
		fputs("  nothing unusual: no function, state or wait took "
		      "clearly more time than in the other windows\n",
		      printer->file);
	for (uint32_t i = 0; i < of->cause_count && i < CAUSES_SHOWN; i++)
		print_cause(printer, i + 1, &of->causes[i]);
	print_fresh(printer);
}

static const char *const pressure_words[FGT_PRESSURE_KINDS] = {
	[FGT_PRESSURE_CPU] = "threads of any process waited for a CPU",
	[FGT_PRESSURE_IO] = "threads of any process waited for a disk",
	[FGT_PRESSURE_MEMORY] = "threads of any process waited for memory",
	[FGT_PRESSURE_STOLEN] = "other virtual machines had the CPUs",
};

static void print_pressures(const struct printer *printer)
{
	bool is_first = true;

	for (int kind = 0; kind < FGT_PRESSURE_KINDS; kind++) {
		const struct fgt_explained_pressure *pressure =
			&printer->of->pressures[kind];
		struct fgt_words words = { .len = 0 };

		if (!pressure->is_unusual)
			continue;
		if (is_first)
			print_heading(printer, "Unusual, in the whole machine");
		is_first = false;
		fgt_words_add(&words,
			      "%s%s: ", printer->is_markdown ? "- " : "  ",
			      pressure_words[kind]);
		fgt_words_add_ms(&words, pressure->ms);
		fgt_words_add(&words, "; usual ");
		fgt_words_add_ms(&words, pressure->rank.usual_ms);
		print_line(printer, &words);
	}
}

static void print_unknown(const struct printer *printer)
{
	const struct fgt_explanation *of = printer->of;
	struct fgt_words words = { .len = 0 };

	if (!of->has_wakes)
		fgt_words_add(&words,
			      "which thread woke which: no wake-up was "
			      "recorded (none is without BPF, which needs "
			      "root)");
	if (of->slice->lost_wakes)
		fgt_words_add(&words,
			      "%swhat ended some waits: %" PRIu64
			      " wake-ups found no room",
			      words.len ? "; " : "", of->slice->lost_wakes);
	if (of->outside_pid)
		fgt_words_add(&words,
			      "%swhat pid %d did, which woke this thread: ask "
			      "with --all, or -n for both",
			      words.len ? "; " : "", of->outside_pid);
	if (!of->has_waits)
		fgt_words_add(&words, "%sreasons of waits",
			      words.len ? "; " : "");
	if (!of->has_all_holders)
		fgt_words_add(&words,
			      "%sall holders of locks: take a shorter slice",
			      words.len ? "; " : "");
	if (of->unknown_ms > of->windows->length_ms / 20) {
		fgt_words_add(&words, "%s", words.len ? "; " : "");
		fgt_words_add_ms(&words, of->unknown_ms);
		fgt_words_add(&words, " of threads without a stack");
	}
	if (!words.len)
		return;
	print_heading(printer, "Not known");
	fputs("  ", printer->file);
	print_line(printer, &words);
}

int fgt_explanation_print(const struct fgt_explanation *explanation,
			  enum fgt_form form, const char *from, const char *to,
			  FILE *file)
{
	const struct printer printer = {
		.of = explanation,
		.slice = explanation->slice,
		.file = file,
		.is_markdown = form == FGT_FORM_MARKDOWN,
	};

	if (form == FGT_FORM_JSON)
		return fgt_explanation_print_json(explanation, from, to, file);
	print_range(&printer, from, to);
	print_rows(&printer);
	print_steps(&printer);
	print_causes(&printer);
	print_pressures(&printer);
	print_unknown(&printer);
	return ferror(file) ? -EIO : 0;
}
