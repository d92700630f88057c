/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent convert: another format, or a part, of a .fgt file.
 */
#include <errno.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "agent/cli/output/input.h"
#include "agent/cli/range/range.h"
#include "agent/cli/range/span_choice.h"
#include "agent/cli/verbs/verbs.h"
#include "ringbuf/slice/wall_clock.h"

#define NAME fgt_verb_convert.name

static const struct fgt_option options[] = {
	FGT_RANGE_OPTIONS,
	{ "tid", 0, "TID", "one thread only", NULL },
	FGT_FILTER_OPTIONS,
	FGT_SPAN_OPTIONS,
	FGT_EXPORT_OPTIONS,
	FGT_EXPORT_UPLOAD_OPTIONS,
	{ "config", 'c', "FILE",
	  "configuration (destinations, symbols, state frames)", NULL },
	{ .name = NULL },
};

static void write_instant(const struct fgt_ring_slice *slice,
			  const struct fgt_range *range,
			  const struct fgt_now *now, uint64_t mono_ns,
			  char *ret_text)
{
	fgt_range_write(range, now, mono_ns, fgt_slice_wall_ns(slice, mono_ns),
			ret_text, FGT_TIME_TEXT_SIZE);
}

/* Whether ticks outside the file were recorded is not known here: the range
 * ends where the file does. */
static void clamp(const struct fgt_arguments *arguments,
		  const struct fgt_ring_slice *slice,
		  const struct fgt_range *range, const struct fgt_now *now,
		  uint64_t *from_ns, uint64_t *to_ns)
{
	char first[FGT_TIME_TEXT_SIZE];
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];

	if (*from_ns > last_ns || *to_ns < first_ns)
		return;
	if (*from_ns < first_ns && fgt_options_has(arguments, "from") &&
	    !fgt_options_has(arguments, "quiet")) {
		write_instant(slice, range, now, first_ns, first);
		fgt_note(NAME, "the file begins at %s: nothing before that",
			 first);
	}
	*from_ns = *from_ns < first_ns ? first_ns : *from_ns;
	*to_ns = *to_ns > last_ns ? last_ns : *to_ns;
}

static int explain_no_data(const struct fgt_ring_slice *slice,
			   const struct fgt_range *range,
			   const struct fgt_now *now, struct fgt_why *why)
{
	char first[FGT_TIME_TEXT_SIZE], last[FGT_TIME_TEXT_SIZE];

	write_instant(slice, range, now, slice->tick_ns[0], first);
	write_instant(slice, range, now, now->mono_ns, last);
	return fgt_why_set(why, -ENODATA,
			   "no data in range: the file holds %s to %s of %u "
			   "thread%s; ask within that",
			   first, last, slice->thread_count,
			   slice->thread_count == 1 ? "" : "s");
}

static int narrow(const struct fgt_arguments *arguments,
		  struct fgt_ring_slice **slice, struct fgt_why *why)
{
	struct fgt_ring_slice *part = NULL;
	struct fgt_range range;
	uint64_t from_ns, to_ns;
	struct fgt_now now;
	int64_t tid;
	int r = fgt_options_get_number(arguments, "tid", 1, INT32_MAX, 0, &tid,
				       why);

	fgt_now_at_end(*slice, &now);
	if (r == 0)
		r = fgt_range_read(arguments, &now, 0, &range, why);
	if (r == 0)
		r = fgt_range_to_mono(&range, *slice, &now, &from_ns, &to_ns,
				      why);
	if (r < 0)
		return r;
	if (tid == 0 && !fgt_options_has(arguments, "from") &&
	    !fgt_options_has(arguments, "to"))
		return 0;
	clamp(arguments, *slice, &range, &now, &from_ns, &to_ns);
	r = fgt_slice_narrow(*slice, from_ns, to_ns, (int32_t)tid, &part);
	if (r == -ENODATA && tid &&
	    fgt_slice_find_thread(*slice, (int32_t)tid) ==
		    (*slice)->thread_count)
		return fgt_why_set(why, r,
				   "there is no thread %d in the file; "
				   "--top shows those that are",
				   (int)tid);
	if (r == -ENODATA)
		return explain_no_data(*slice, &range, &now, why);
	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	fgt_ring_slice_free(*slice);
	*slice = part;
	return 0;
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_export_done) struct fgt_export plan = { .verb = NAME };
	struct fgt_span_choice spans = { .span = NULL };
	struct fgt_why why = { "" };
	int r;

	if (fgt_config_load(fgt_options_get(arguments, "config"), &config,
			    &why) < 0 ||
	    fgt_span_choice_read(arguments, &spans, &why) < 0 ||
	    fgt_export_plan(arguments, config, &plan, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	r = fgt_input_read(arguments->operands[0], &slice, &plan.input, &why);
	if (r < 0)
		return fgt_complain(NAME, fgt_exit_of(r), "%s", why.text);
	r = narrow(arguments, &slice, &why);
	if (r == -EINVAL)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	if (r == 0)
		r = fgt_input_name(slice, config);
	if (r == 0)
		r = fgt_span_choice_take(&spans, plan.is_quiet, &slice, &why);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_exit_of(r), &why);
	return (int)fgt_export_run(&plan, slice);
}

const struct fgt_verb fgt_verb_convert = {
	.name = "convert",
	.synopsis =
		"IN.fgt [-o OUT] [-f FORMAT] [--from T] [--to T] [--tid TID] "
		"[--upload [DEST]]",
	.summary = "write or upload a .fgt file, or a part of it",
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run,
	.help = "IN.fgt may be - (standard input). Here 'now' is the slice's "
		"end: -2s means\nthe last two seconds of the file.\n\n" FGT_RANGE_TEXT
		"\n" FGT_EXPORT_UPLOAD_TEXT "\nExamples:\n"
		"  fgtrace-agent convert slow.fgt -o slow.trace.json\n"
		"  fgtrace-agent convert slow.fgt --from -2s --tid 1234 -o "
		"one.folded\n"
		"  fgtrace-agent convert slow.fgt --top 20\n"
		"  fgtrace-agent convert slow.fgt --upload lab "
		"-c fgtrace.conf\n",
};
