/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow instances of a span and ordinary ones. Runs in the command line's main
 * thread.
 */
#include "agent/cli/range/span_choice.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/cli/complaint.h"
#include "agent/cli/range/range.h"
#include "upload/why/instances.h"
#include "upload/why/words.h"

#define MS_NS	   1e6
#define LISTED_MAX 5u /* of the slow instances */

/* "p99" → 99; "200ms" → ns. */
static int read_limit(const char *text, double *ret_percent, uint64_t *ret_ns,
		      struct fgt_why *why)
{
	char *end;

	*ret_percent = 0;
	*ret_ns = 0;
	if (*text != 'p')
		return fgt_duration_parse(text, ret_ns, why);
	*ret_percent = strtod(text + 1, &end);
	if (end == text + 1 || *end || !(*ret_percent > 0) ||
	    !(*ret_percent < 100))
		return fgt_why_set(why, -EINVAL,
				   "'%.50s' is no length of time: give 200ms, "
				   "or p50, p99 for what so many per cent do "
				   "not exceed",
				   text);
	return 0;
}

int fgt_span_choice_read(const struct fgt_arguments *arguments,
			 struct fgt_span_choice *ret_choice,
			 struct fgt_why *why)
{
	struct fgt_span_choice choice = {
		.span = fgt_options_get(arguments, "span"),
		.trace = fgt_options_get(arguments, "trace-id"),
		.slower_than = fgt_options_get(arguments, "slower-than"),
		.against = fgt_options_get(arguments, "against"),
	};
	double percent;
	uint64_t ns;
	int r = 0;

	if (choice.slower_than && !choice.span && !choice.trace)
		return fgt_why_set(why, -EINVAL,
				   "--slower-than is of a span: name it with "
				   "--span NAME, or its trace with --trace-id");
	if (choice.against && !choice.slower_than)
		return fgt_why_set(why, -EINVAL,
				   "--against is for those that are not slow: "
				   "give --slower-than too");
	if (choice.slower_than)
		r = read_limit(choice.slower_than, &percent, &ns, why);
	if (r == 0 && choice.against)
		r = read_limit(choice.against, &percent, &ns, why);
	if (r == 0)
		*ret_choice = choice;
	return r;
}

/* Of a text that was read before. */
static uint64_t limit_of(const char *text,
			 const struct fgt_instances *instances)
{
	struct fgt_why why;
	double percent;
	uint64_t ns;

	(void)read_limit(text, &percent, &ns, &why);
	return percent > 0 ? fgt_instances_quantile(instances, percent) : ns;
}

static double ms(uint64_t ns)
{
	return (double)ns / MS_NS;
}

/* "instances of "checkout" of trace 4bf9…" */
static struct fgt_words subject_of(const struct fgt_span_choice *choice)
{
	struct fgt_words words = { .len = 0 };

	if (choice->span)
		fgt_words_add(&words, "instances of \"%.100s\"", choice->span);
	else
		fgt_words_add(&words, "spans");
	if (choice->trace)
		fgt_words_add(&words, " of trace %.64s", choice->trace);
	return words;
}

/* When each of the slowest began, and for which trace. */
static void list(const struct fgt_ring_slice *slice,
		 const struct fgt_instances *instances, uint32_t count)
{
	const struct fgt_range local = { .has_from = true,
					 .from.form = FGT_TIME_LOCAL };
	struct fgt_now now;

	fgt_now_read(&now);
	for (uint32_t i = 0; i < count && i < LISTED_MAX; i++) {
		const struct fgt_instance *one = &instances->items[i];
		struct fgt_words words = { .len = 0 };
		char begin[FGT_TIME_TEXT_SIZE];

		fgt_range_write(&local, &now, one->begin_ns,
				fgt_slice_wall_ns(slice, one->begin_ns), begin,
				sizeof(begin));
		fgt_words_add_thread(&words, slice, one->tid);
		fgt_note(NULL, "  %s  %.1f ms  %s%s%s", begin,
			 ms(one->end_ns - one->begin_ns), words.text,
			 one->trace ? ", trace " : "",
			 one->trace ? fgt_slice_string(slice, one->trace) : "");
	}
}

static void note(const struct fgt_span_choice *choice,
		 const struct fgt_ring_slice *slice,
		 const struct fgt_instances *instances, uint32_t slow_count,
		 uint64_t limit_ns)
{
	struct fgt_words subject = subject_of(choice);

	fgt_note(NULL,
		 "%u of %u %.200s took longer than %.1f ms; "
		 "median %.1f ms, p99 %.1f ms, the longest %.1f ms",
		 slow_count, instances->count, subject.text, ms(limit_ns),
		 ms(fgt_instances_quantile(instances, 50)),
		 ms(fgt_instances_quantile(instances, 99)),
		 ms(instances->items[0].end_ns - instances->items[0].begin_ns));
	list(slice, instances, slow_count);
}

static int explain(const struct fgt_span_choice *choice, const char *which,
		   int error, struct fgt_why *why)
{
	struct fgt_words subject = subject_of(choice);

	if (error != -ENODATA)
		return fgt_why_set(why, error, FGT_NO_MEMORY);
	return fgt_why_set(why, error,
			   "no tick falls into the %s %.200s in their threads: "
			   "they are too short or too few; take a longer time",
			   which, subject.text);
}

static int cut_parts(const struct fgt_span_choice *choice,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_instances *instances, bool with_ordinary,
		     struct fgt_span_parts *parts, struct fgt_why *why)
{
	uint32_t slow = parts->slow_count;
	uint32_t first = instances->count - parts->ordinary_count;
	int r = fgt_instances_cut(slice, instances, 0, slow, &parts->slow);

	if (r < 0)
		return explain(choice, "slow", r, why);
	if (!with_ordinary)
		return 0;
	r = fgt_instances_cut(slice, instances, first, instances->count,
			      &parts->ordinary);
	if (r < 0)
		fgt_ring_slice_free(FGT_TAKE(parts->slow));
	return r < 0 ? explain(choice, "ordinary", r, why) : 0;
}

/* Are there slow instances, and do the ordinary ones leave them out? */
static int check(const struct fgt_span_choice *choice,
		 const struct fgt_instances *instances,
		 const struct fgt_span_parts *parts, uint64_t limit_ns,
		 struct fgt_why *why)
{
	const struct fgt_instance *longest = &instances->items[0];
	struct fgt_words subject = subject_of(choice);

	if (!parts->slow_count)
		return fgt_why_set(why, -ENODATA,
				   "none of %u %.200s took longer than %.1f "
				   "ms: the longest took %.1f ms; give less "
				   "than that",
				   instances->count, subject.text, ms(limit_ns),
				   ms(longest->end_ns - longest->begin_ns));
	if (parts->ordinary_count > instances->count - parts->slow_count)
		return fgt_why_set(why, -EINVAL,
				   "--against %.20s takes slow instances for "
				   "ordinary ones: give no more than "
				   "--slower-than, %.1f ms",
				   choice->against, ms(limit_ns));
	return 0;
}

int fgt_span_choice_cut(const struct fgt_span_choice *choice,
			const struct fgt_ring_slice *slice, bool with_ordinary,
			bool is_quiet, struct fgt_span_parts *ret_parts,
			struct fgt_why *why)
{
	struct fgt_span_parts parts = { .slow = NULL };
	struct fgt_instances instances;
	uint64_t limit_ns = 0;
	int r = fgt_instances_find(slice, choice->span, choice->trace,
				   &instances, why);

	if (r < 0)
		return r;
	if (choice->slower_than)
		limit_ns = limit_of(choice->slower_than, &instances);
	parts.slow_count = fgt_instances_count_over(&instances, limit_ns);
	parts.ordinary_count =
		instances.count -
		(choice->against ? fgt_instances_count_over(
					   &instances, limit_of(choice->against,
								&instances))
				 : parts.slow_count);
	if (!is_quiet)
		note(choice, slice, &instances, parts.slow_count, limit_ns);
	r = check(choice, &instances, &parts, limit_ns, why);
	if (r == 0)
		r = cut_parts(choice, slice, &instances, with_ordinary, &parts,
			      why);
	fgt_instances_done(&instances);
	if (r == 0)
		*ret_parts = parts;
	return r;
}

int fgt_span_choice_take(const struct fgt_span_choice *choice, bool is_quiet,
			 struct fgt_ring_slice **slice, struct fgt_why *why)
{
	struct fgt_span_parts parts;
	int r;

	if (!choice->span && !choice->trace)
		return 0;
	r = fgt_span_choice_cut(choice, *slice, false, is_quiet, &parts, why);
	if (r < 0)
		return r;
	fgt_ring_slice_free(*slice);
	*slice = parts.slow;
	return 0;
}
