/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent diff: what grew and what shrank, from one slice to another, or
 * from one time of a recording to another.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "agent/cli/output/form.h"
#include "agent/cli/output/input.h"
#include "agent/cli/output/json_to.h"
#include "agent/cli/range/range.h"
#include "agent/cli/range/span_choice.h"
#include "agent/cli/summary/summary.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "ringbuf/base/json.h"
#include "upload/why/diff.h"

#define LAST_NS		10000000000ull
#define NAME		fgt_verb_diff.name
#define TOP_DEFAULT	20
#define TOP_MAX		100000
#define THREADS_COLUMNS 16 /* at least */
#define ROW_COLUMNS	120
#define LEAST		0.005 /* of what is printed: a smaller change is none */

static const struct fgt_option options[] = {
	FGT_RANGE_OPTIONS,
	{ "last", 0, "D", "the last 5s, 1500ms (default: 10s)", "from to " },
	{ "against-from", 0, "T", "begin of the time to compare with", NULL },
	{ "against-to", 0, "T", "its end (default: --from)", NULL },
	FGT_SPAN_OPTIONS,
	{ "against", 0, "D|pN",
	  "of a span: ordinary ones took no longer (default: all that are not "
	  "slow)",
	  NULL },
	FGT_FETCH_TARGET_OPTIONS,
	FGT_FILTER_OPTIONS,
	{ "top", 0, "N", "so many rows, 0: all (default: 20)", NULL },
	FGT_FORM_OPTIONS,
	FGT_JSON_TO_OPTION,
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

/* ---- What is compared ------------------------------------------------------ */

struct pair {
	struct fgt_ring_slice *before, *after;
	uint32_t instances[FGT_DIFF_SIDES]; /* of a span; 0: of none */
};

static int cut(const struct fgt_ring_slice *slice,
	       const struct fgt_range *range, const struct fgt_now *now,
	       const char *what, struct fgt_ring_slice **ret_part,
	       struct fgt_why *why)
{
	uint64_t from_ns, to_ns;
	int r = fgt_range_to_mono(range, slice, now, &from_ns, &to_ns, why);

	if (r < 0)
		return r;
	r = fgt_slice_narrow(slice, from_ns, to_ns, 0, ret_part);
	if (r == -ENODATA)
		return fgt_why_set(why, r,
				   "no data in range: fewer than two ticks lie "
				   "in %s; slice --last 60s --top 1 shows what "
				   "is recorded",
				   what);
	return r < 0 ? fgt_why_set(why, r, FGT_NO_MEMORY) : 0;
}

static int read_against(const struct fgt_arguments *arguments,
			const struct fgt_now *now,
			const struct fgt_range *range,
			struct fgt_range *ret_against, struct fgt_why *why)
{
	const char *from = fgt_options_get(arguments, "against-from");
	const char *to = fgt_options_get(arguments, "against-to");
	int r;

	*ret_against = (struct fgt_range){ .has_from = true, .has_to = true };
	if (!to && !range->has_from)
		return fgt_why_set(why, -EINVAL,
				   "--against-to is missing: give it, or "
				   "--from");
	r = fgt_time_read(from, now, &ret_against->from, why);
	if (r == 0 && to)
		r = fgt_time_read(to, now, &ret_against->to, why);
	else if (r == 0)
		ret_against->to = range->from;
	return r;
}

/* Two times of one recording. */
static int cut_both(const struct fgt_arguments *arguments,
		    const struct fgt_ring_slice *slice,
		    const struct fgt_now *now, struct pair *pair,
		    struct fgt_why *why)
{
	struct fgt_range range, against;
	int r = fgt_range_read(arguments, now, LAST_NS, &range, why);

	if (r == 0)
		r = read_against(arguments, now, &range, &against, why);
	if (r == 0)
		r = cut(slice, &against, now, "the time to compare with",
			&pair->before, why);
	if (r == 0)
		r = cut(slice, &range, now, "the range", &pair->after, why);
	return r;
}

/* Ordinary instances of a span and slow ones; in all that there is, unless a
 * range is given. */
static int cut_spans(const struct fgt_arguments *arguments,
		     const struct fgt_span_choice *spans,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_now *now, struct pair *pair,
		     struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_span_parts parts;
	struct fgt_range range;
	int r = 0;

	if (fgt_options_has(arguments, "from") ||
	    fgt_options_has(arguments, "to") ||
	    fgt_options_has(arguments, "last")) {
		r = fgt_range_read(arguments, now, LAST_NS, &range, why);
		if (r == 0)
			r = cut(slice, &range, now, "the range", &part, why);
	}
	if (r == 0)
		r = fgt_span_choice_cut(spans, part ? part : slice, true, false,
					&parts, why);
	if (r < 0)
		return r;
	pair->before = parts.ordinary;
	pair->after = parts.slow;
	pair->instances[FGT_DIFF_BEFORE] = parts.ordinary_count;
	pair->instances[FGT_DIFF_AFTER] = parts.slow_count;
	return 0;
}

static int read_spans(const struct fgt_arguments *arguments,
		      struct fgt_span_choice *ret_spans, struct fgt_why *why)
{
	int r = fgt_span_choice_read(arguments, ret_spans, why);
	bool is_chosen = ret_spans->span || ret_spans->trace;

	if (r == 0 && is_chosen && !ret_spans->slower_than)
		r = fgt_why_set(why, -EINVAL,
				"--span compares slow instances with ordinary "
				"ones: give --slower-than, 200ms or p95");
	if (r == 0 && !is_chosen && arguments->operand_count < 2 &&
	    !fgt_options_has(arguments, "against-from"))
		r = fgt_why_set(why, -EINVAL,
				"there is nothing to compare with: give two "
				".fgt files, or --against-from T");
	if (r == 0 && is_chosen && arguments->operand_count == 2)
		r = fgt_why_set(why, -EINVAL,
				"--span is of one recording: give one file");
	return r;
}

static int check_files(const struct fgt_arguments *arguments,
		       struct fgt_why *why)
{
	static const char *const times[] = { "from", "to", "last",
					     "against-from", "against-to" };

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
		if (arguments->operand_count == 2 &&
		    fgt_options_has(arguments, times[i]))
			return fgt_why_set(why, -EINVAL,
					   "two files are compared whole: "
					   "leave out --%s, or cut them first "
					   "with convert --from --to",
					   times[i]);
	return 0;
}

static int read_pair(const struct fgt_arguments *arguments,
		     const struct fgt_span_choice *spans, struct pair *pair,
		     struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_now now;
	int r;

	fgt_now_read(&now);
	if (arguments->operand_count == 2) {
		r = fgt_input_load(arguments->operands[0], &pair->before, why);
		return r < 0 ? r
			     : fgt_input_load(arguments->operands[1],
					      &pair->after, why);
	}
	if (arguments->operand_count == 0) {
		r = fgt_fetch_ring(arguments, &slice, why);
	} else {
		r = fgt_input_load(arguments->operands[0], &slice, why);
		if (r == 0)
			fgt_now_at_end(slice, &now);
	}
	if (r < 0)
		return r;
	if (spans->slower_than)
		return cut_spans(arguments, spans, slice, &now, pair, why);
	return cut_both(arguments, slice, &now, pair, why);
}

/* ---- The answer ------------------------------------------------------------ */

static const char *text_of(const struct fgt_diff *diff, uint32_t id)
{
	return fgt_strings_get(&diff->strings, id);
}

/* "worker-*", "postgres (pid 12)" */
static void write_threads(const struct fgt_diff *diff,
			  const struct fgt_diff_row *row,
			  struct fgt_words *ret_words)
{
	*ret_words = (struct fgt_words){ .len = 0 };
	fgt_words_add(ret_words, "%s%s", text_of(diff, row->threads),
		      row->pids.count ? " (" : "");
	fgt_group_add_words(&row->pids, ret_words);
	fgt_words_add(ret_words, "%s", row->pids.count ? ")" : "");
}

/* No change: the rows after it have none, either. */
static bool is_same(const struct fgt_diff_row *row)
{
	double change = fgt_diff_change(row);

	return change < LEAST && change > -LEAST;
}

static size_t fit_threads(const struct fgt_diff *diff, uint32_t top)
{
	size_t columns = THREADS_COLUMNS;
	struct fgt_words threads;

	for (uint32_t i = 0;
	     i < diff->count && i < top && !is_same(&diff->rows[i]); i++) {
		write_threads(diff, &diff->rows[i], &threads);
		fgt_column_fit(stdout, threads.text, &columns);
	}
	return columns;
}

static void print_row(const struct fgt_diff *diff,
		      const struct fgt_diff_row *row, size_t columns)
{
	const char *function = text_of(diff, row->function);
	const char *call = text_of(diff, row->call);
	const char *state = text_of(diff, row->state);
	bool has_state = strcmp(call, state) != 0;
	struct fgt_words threads;
	char text[FGT_STRING_MAX];

	printf("%+8.2f %8.2f %8.2f  ", fgt_diff_change(row),
	       row->average[FGT_DIFF_BEFORE], row->average[FGT_DIFF_AFTER]);
	write_threads(diff, row, &threads);
	fgt_print_padded(stdout, threads.text, columns);
	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s",
		 *function ? function : "[stack unknown]",
		 row->call ? " → " : "", call, has_state ? ": " : "",
		 has_state ? state : "",
		 row->shows_callers && row->callers ? FGT_WORDS_CALLED_BY : "",
		 row->shows_callers ? text_of(diff, row->callers) : "");
	putchar(' ');
	fgt_print_text(stdout, text, ROW_COLUMNS);
	putchar('\n');
}

static void print(const struct fgt_diff *diff, uint32_t top)
{
	bool is_of_instances = diff->instances[FGT_DIFF_AFTER] > 0;
	size_t columns = fit_threads(diff, top);
	uint32_t shown = 0, more = 0;

	if (is_of_instances)
		printf("before: %u ordinary instances; after: %u slow ones\n",
		       diff->instances[FGT_DIFF_BEFORE],
		       diff->instances[FGT_DIFF_AFTER]);
	else
		printf("before: %.1f s, %.1f threads; after: %.1f s, %.1f "
		       "threads\n",
		       diff->seconds[FGT_DIFF_BEFORE],
		       diff->threads[FGT_DIFF_BEFORE],
		       diff->seconds[FGT_DIFF_AFTER],
		       diff->threads[FGT_DIFF_AFTER]);
	for (uint32_t i = 0; i < diff->count && !is_same(&diff->rows[i]); i++) {
		if (shown == top) {
			more++;
			continue;
		}
		if (!shown++)
			printf("  %s, on average\n"
			       "  change   before    after  %-*s in\n",
			       is_of_instances ? "ms of an instance"
					       : "threads at once",
			       (int)columns, "threads");
		print_row(diff, &diff->rows[i], columns);
	}
	if (!shown)
		puts("nothing grew or shrank");
	fgt_print_more(more, "--top", stdout);
}

static void put_row(const struct fgt_diff *diff, const struct fgt_diff_row *row,
		    struct fgt_json *json)
{
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "threads", text_of(diff, row->threads));
	fgt_group_put(&row->pids, json);
	if (row->function)
		fgt_json_put_handle(json, "function_id", 'f', row->function);
	fgt_json_put_string(json, "function", text_of(diff, row->function));
	fgt_json_put_string(json, "call", text_of(diff, row->call));
	fgt_json_put_string(json, "state", text_of(diff, row->state));
	fgt_json_put_string(json, "callers", text_of(diff, row->callers));
	fgt_json_put_double(json, "before", row->average[FGT_DIFF_BEFORE]);
	fgt_json_put_double(json, "after", row->average[FGT_DIFF_AFTER]);
	fgt_json_put_double(json, "change", fgt_diff_change(row));
	fgt_json_end_object(json);
}

static int put(const struct fgt_diff *diff, uint32_t top, FILE *file)
{
	static const char *const sides[] = { "before", "after" };
	const struct fgt_sink sink = { fgt_file_write, file };
	struct fgt_json json;

	fgt_json_init(&json, &sink);
	fgt_json_begin_object(&json, NULL);
	for (int i = 0; i < FGT_DIFF_SIDES; i++) {
		fgt_json_begin_object(&json, sides[i]);
		fgt_json_put_uint(&json, "from_ns", diff->from_ns[i]);
		fgt_json_put_uint(&json, "to_ns", diff->to_ns[i]);
		fgt_json_put_double(&json, "seconds", diff->seconds[i]);
		fgt_json_put_double(&json, "threads", diff->threads[i]);
		if (diff->instances[i])
			fgt_json_put_uint(&json, "instances",
					  diff->instances[i]);
		fgt_json_end_object(&json);
	}
	fgt_json_put_uint(&json, "row_count", diff->count);
	fgt_json_begin_array(&json, "rows");
	for (uint32_t i = 0; i < diff->count && i < top; i++)
		put_row(diff, &diff->rows[i], &json);
	fgt_json_end_array(&json);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	return fgt_json_finish(&json);
}

static int answer(const struct fgt_arguments *arguments, struct pair *pair,
		  uint32_t top, enum fgt_form form, struct fgt_why *why)
{
	FGT_AUTO(fgt_diff_free) struct fgt_diff *diff = NULL;
	FGT_AUTO(fgt_json_to_free) struct fgt_json_to *json = NULL;
	const struct fgt_filter filter = fgt_export_filter(arguments);
	int r = fgt_diff_new(pair->before, pair->after, pair->instances,
			     &filter, &diff);

	if (r == -ENODATA && fgt_filter_is_any(&filter))
		return fgt_filter_explain(&filter, pair->after, why);
	if (r == -ENODATA)
		return fgt_why_set(why, r,
				   "nothing to compare: neither side has a "
				   "sample; take longer ones");
	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	r = fgt_json_to_open(arguments, &json, why);
	if (r < 0)
		return r;
	if (form == FGT_FORM_JSON) {
		r = put(diff, top, stdout);
	} else {
		fgt_form_fence(form);
		print(diff, top);
		fgt_form_fence(form);
	}
	if (r == 0 && json)
		r = put(diff, top, fgt_json_to_file(json));
	if (r < 0)
		return fgt_why_set(why, r, "cannot write the answer: %s",
				   fgt_error_text(r));
	return fgt_json_to_commit(json, why);
}

static int run(const struct fgt_arguments *arguments)
{
	struct pair pair = { .before = NULL };
	struct fgt_span_choice spans = { .span = NULL };
	struct fgt_why why = { "" };
	enum fgt_form form;
	int64_t top;
	int r = fgt_options_get_number(arguments, "top", 0, TOP_MAX,
				       TOP_DEFAULT, &top, &why);

	if (r == 0)
		r = fgt_form_read(arguments, &form, &why);
	if (r == 0)
		r = check_files(arguments, &why);
	if (r == 0)
		r = read_spans(arguments, &spans, &why);
	if (r < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	r = read_pair(arguments, &spans, &pair, &why);
	if (r == 0)
		r = answer(arguments, &pair, top ? (uint32_t)top : TOP_MAX,
			   form, &why);
	fgt_ring_slice_free(pair.before);
	fgt_ring_slice_free(pair.after);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
	return (int)fgt_finish_stdout(NAME);
}

const struct fgt_verb fgt_verb_diff = {
	.name = "diff",
	.synopsis = "BEFORE.fgt AFTER.fgt | [--from T --to T | --last D] "
		    "--against-from T [--against-to T] | "
		    "--span NAME | --trace-id ID --slower-than D|pN "
		    "[--against D|pN] [-p PID [--children] | -n NAME | --all | "
		    "FILE.fgt] [--thread PATTERN] [--state PATTERN] "
		    "[--function PATTERN] [--running] [--no-idle] [--top N] "
		    "[-f text|md|json]",
	.summary = "what threads did more, and less, than before",
	.options = options,
	.operands_max = 2,
	.run = run,
	.help = "Each row has how many threads did that at once, on average: "
		"slices of any length\ncompare. Threads with similar names are "
		"one row. For flame graphs write both as\n.folded "
		"(difffolded.pl), for pprof as .pb.gz (go tool pprof "
		"-base).\nWith --span rows are ms of an instance of that span: "
		"what slow ones did more of than\nordinary ones.\n\n" FGT_RANGE_TEXT
		"\nExamples:\n"
		"  fgtrace-agent diff ordinary.fgt slow.fgt\n"
		"  fgtrace-agent diff -n shop --last 2s --against-from -20s "
		"--against-to -10s\n"
		"  fgtrace-agent diff -n shop --span checkout --slower-than "
		"p95\n",
};
