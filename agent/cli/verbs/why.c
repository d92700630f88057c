/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent why: what was different in a past time, and what caused it. Of
 * a daemon's target, or of a .fgt file.
 */
#include <errno.h>
#include <string.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/explanation.h"
#include "agent/cli/output/export.h"
#include "agent/cli/output/input.h"
#include "agent/cli/output/json_to.h"
#include "agent/cli/range/range.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "upload/why/instances.h"

#define LAST_NS 1000000000ull
#define NAME	fgt_verb_why.name
/* The flags of FGT_FILTER_OPTIONS choose the thread. */
#define CHOOSING "thread state function running no-idle "

static const struct fgt_option options[] = {
	FGT_RANGE_OPTIONS,
	{ "last", 0, "D",
	  "the last 500ms, 2s (default: 1s, so that the rest is longer)",
	  "from to " },
	FGT_FETCH_TARGET_OPTIONS,
	{ "tid", 0, "TID",
	  "this thread (default: the one whose behaviour differs most)",
	  "span " CHOOSING },
	FGT_FILTER_OPTIONS,
	{ "span", 0, "NAME",
	  "the longest span or task of that name (in the range, if given); its "
	  "thread",
	  "tid " CHOOSING },
	{ "transaction", 0, "ID",
	  "the same of the spans of that trace (their label trace_id)",
	  "tid " CHOOSING },
	FGT_FORM_OPTIONS,
	FGT_JSON_TO_OPTION,
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

/* What is asked of which slice. */
struct question {
	struct fgt_range range;
	struct fgt_now now;
	uint64_t from_ns, to_ns;
	bool is_anywhere; /* a span, without a range to be in */
	int32_t tid; /* 0: any of the candidates */
	struct fgt_filter candidates;
	const char *span, *trace; /* NULL: none */
	enum fgt_form form;
	FILE *json; /* also there; NULL: not */
};

/* The range's ends on the slice's clock. A file's end is its now. */
static int read_range(const struct fgt_ring_slice *slice,
		      struct question *question, struct fgt_why *why)
{
	int r = fgt_range_to_mono(&question->range, slice, &question->now,
				  &question->from_ns, &question->to_ns, why);

	if (r == 0 && question->is_anywhere)
		question->from_ns = 0;
	return r;
}

/* The longest span or task of that name, or trace, that began in the range. */
static int find_span(const struct fgt_ring_slice *slice,
		     struct question *question, struct fgt_why *why)
{
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];
	const struct fgt_instance *longest = NULL;
	struct fgt_instances instances;
	int r = fgt_instances_find(slice, question->span, question->trace,
				   &instances, why);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < instances.count && !longest; i++)
		if (instances.items[i].begin_ns >= question->from_ns &&
		    instances.items[i].begin_ns <= question->to_ns &&
		    instances.items[i].begin_ns < last_ns)
			longest = &instances.items[i];
	if (longest) {
		question->from_ns = longest->begin_ns;
		question->to_ns = longest->end_ns > last_ns ? last_ns
							    : longest->end_ns;
		question->tid = longest->tid;
	} else {
		r = fgt_why_set(why, -ENODATA,
				"no data in range: none of %u spans of that "
				"name or trace began in it; take a longer one",
				instances.count);
	}
	fgt_instances_done(&instances);
	return r;
}

static int explain_error(int r, const struct question *question,
			 struct fgt_why *why)
{
	switch (r) {
	case -ESRCH:
		if (fgt_filter_is_any(&question->candidates))
			return fgt_why_set(why, -ENODATA,
					   "no data in range: no sample in it "
					   "passes the filter; take a longer "
					   "one, or see with slice --top 1 "
					   "what is in it");
		return fgt_why_set(why, -ENODATA,
				   "no data in range: there is no thread %d in "
				   "it; slice --top 1 shows those that are",
				   question->tid);
	case -ENODATA:
		return fgt_why_set(why, r,
				   "no data in range: fewer than two ticks of "
				   "what is recorded lie in it; ask for a "
				   "longer one, or when it is over");
	case -ENOMEM:
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	default:
		return r;
	}
}

static void write_instant(const struct fgt_ring_slice *slice,
			  const struct question *question, uint64_t ns,
			  char *ret_text)
{
	fgt_range_write(&question->range, &question->now, ns,
			fgt_slice_wall_ns(slice, ns), ret_text,
			FGT_TIME_TEXT_SIZE);
}

static int print(const struct fgt_ring_slice *slice,
		 const struct question *question, struct fgt_why *why)
{
	FGT_AUTO(fgt_explanation_free)
	struct fgt_explanation *explanation = NULL;
	char from[FGT_TIME_TEXT_SIZE], to[FGT_TIME_TEXT_SIZE];
	const struct fgt_window *range;
	int r = fgt_explain(slice, question->from_ns, question->to_ns,
			    question->tid, &question->candidates, &explanation);

	if (r < 0)
		return explain_error(r, question, why);
	range = &explanation->windows->windows[0];
	write_instant(slice, question, slice->tick_ns[range->first], from);
	write_instant(slice, question, slice->tick_ns[range->end - 1], to);
	r = fgt_explanation_print(explanation, question->form, from, to,
				  stdout);
	fgt_form_name_range(question->form, slice->tick_ns[range->first],
			    slice->tick_ns[range->end - 1],
			    slice->threads[explanation->thread].tid);
	if (r == 0 && question->json)
		r = fgt_explanation_print(explanation, FGT_FORM_JSON, from, to,
					  question->json);
	return r < 0 ? fgt_why_set(why, r, "cannot write the answer: %s",
				   fgt_error_text(r))
		     : 0;
}

static int read_question(const struct fgt_arguments *arguments,
			 struct question *ret_question, struct fgt_why *why)
{
	int64_t tid;
	int r = fgt_form_read(arguments, &ret_question->form, why);

	if (r == 0)
		r = fgt_options_get_number(arguments, "tid", 1, INT32_MAX, 0,
					   &tid, why);
	if (r == 0)
		r = fgt_range_read(arguments, &ret_question->now, LAST_NS,
				   &ret_question->range, why);
	if (r < 0)
		return r;
	ret_question->tid = (int32_t)tid;
	ret_question->span = fgt_options_get(arguments, "span");
	ret_question->trace = fgt_options_get(arguments, "transaction");
	ret_question->is_anywhere =
		(ret_question->span || ret_question->trace) &&
		!ret_question->range.has_from &&
		!fgt_options_has(arguments, "last");
	ret_question->candidates = fgt_export_filter(arguments);
	return 0;
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_json_to_free) struct fgt_json_to *json = NULL;
	bool is_file = arguments->operand_count > 0;
	struct question question = { 0 };
	struct fgt_why why = { "" };
	int r;

	fgt_now_read(&question.now);
	if (is_file && fgt_fetch_refuse_target(arguments, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	if (is_file) {
		r = fgt_input_load(arguments->operands[0], &slice, &why);
		if (r < 0)
			return fgt_complain_why(NAME, fgt_exit_of(r), &why);
		fgt_now_at_end(slice, &question.now);
	}
	if (read_question(arguments, &question, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	if (!is_file) {
		r = fgt_fetch_ring(arguments, &slice, &why);
		if (r < 0)
			return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
		fgt_fetch_now(NAME, slice, &question.now);
	}
	if (read_range(slice, &question, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	r = question.span || question.trace ? find_span(slice, &question, &why)
					    : 0;
	if (r == 0)
		r = fgt_json_to_open(arguments, &json, &why);
	question.json = fgt_json_to_file(json);
	if (r == 0)
		r = print(slice, &question, &why);
	if (r == 0)
		r = fgt_json_to_commit(json, &why);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_exit_of(r), &why);
	return (int)fgt_finish_stdout(NAME);
}

const struct fgt_verb fgt_verb_why = {
	.name = "why",
	.synopsis = "[--from T --to T | --last D] "
		    "[-p PID [--children] | -n NAME | --all | FILE.fgt] "
		    "[--tid TID | --span NAME | --transaction ID | "
		    "[--thread PATTERN] [--state PATTERN] [--function PATTERN] "
		    "[--running] [--no-idle]] "
		    "[-f text|md|json]",
	.summary = "what was different in a past time, and what caused it",
	.options = options,
	.operands_max = 1,
	.run = run,
	.help = "Compares the range with the rest of the recording, cut into "
		"windows of the same\nlength: where the time of one thread "
		"went, which threads kept it waiting, and what\ntook more time "
		"than usual in all threads. In a file 'now' is its end.\n"
		"--thread, --state, --function, --running and --no-idle choose "
		"the thread: that\nwhose samples of that kind differ most.\n\n" FGT_RANGE_TEXT
		"\nExamples:\n"
		"  fgtrace-agent why --from -12s --to -11.2s -n redis-server\n"
		"  fgtrace-agent why --from 14:03:07 --to 14:03:08.5 -p 1234 "
		"--tid 1240\n"
		"  fgtrace-agent why --last 2s\n"
		"  fgtrace-agent why --span checkout -n shop\n"
		"  fgtrace-agent why slow.fgt --from -3s --to -2s -f md\n",
};
