/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow instances of a span and ordinary ones. Runs in the command line's main
 * thread.
 */
#include "agent/cli/range/span_choice.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/cli/complaint.h"
#include "agent/cli/range/time_spec.h"
#include "upload/why/instances.h"

#define MS_NS 1e6

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
		.slower_than = fgt_options_get(arguments, "slower-than"),
		.against = fgt_options_get(arguments, "against"),
	};
	double percent;
	uint64_t ns;
	int r = 0;

	if (choice.slower_than && !choice.span)
		return fgt_why_set(why, -EINVAL,
				   "--slower-than is of a span: name it with "
				   "--span NAME");
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

static void note(const struct fgt_span_choice *choice,
		 const struct fgt_instances *instances, uint32_t slow_count,
		 uint64_t limit_ns)
{
	fgt_note(NULL,
		 "%u of %u instances of \"%.100s\" took longer than %.1f ms; "
		 "median %.1f ms, p99 %.1f ms, the longest %.1f ms",
		 slow_count, instances->count, choice->span, ms(limit_ns),
		 ms(fgt_instances_quantile(instances, 50)),
		 ms(fgt_instances_quantile(instances, 99)),
		 ms(instances->items[0].end_ns - instances->items[0].begin_ns));
}

static int explain(const struct fgt_span_choice *choice, const char *which,
		   int error, struct fgt_why *why)
{
	if (error != -ENODATA)
		return fgt_why_set(why, error, FGT_NO_MEMORY);
	return fgt_why_set(why, error,
			   "no tick falls into %s of \"%.100s\" in its thread: "
			   "they are too short or too few; take a longer time",
			   which, choice->span);
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
		return explain(choice, "the slow instances", r, why);
	if (!with_ordinary)
		return 0;
	r = fgt_instances_cut(slice, instances, first, instances->count,
			      &parts->ordinary);
	if (r < 0)
		fgt_ring_slice_free(FGT_TAKE(parts->slow));
	return r < 0 ? explain(choice, "the ordinary instances", r, why) : 0;
}

int fgt_span_choice_cut(const struct fgt_span_choice *choice,
			const struct fgt_ring_slice *slice, bool with_ordinary,
			bool is_quiet, struct fgt_span_parts *ret_parts,
			struct fgt_why *why)
{
	struct fgt_span_parts parts = { .slow = NULL };
	struct fgt_instances instances;
	uint64_t limit_ns = 0;
	int r = fgt_instances_find(slice, choice->span, &instances, why);

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
		note(choice, &instances, parts.slow_count, limit_ns);
	if (!parts.slow_count)
		r = fgt_why_set(why, -ENODATA,
				"none of %u instances of \"%.100s\" took "
				"longer than %.1f ms: the longest took %.1f ms",
				instances.count, choice->span, ms(limit_ns),
				ms(instances.items[0].end_ns -
				   instances.items[0].begin_ns));
	else
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

	if (!choice->span)
		return 0;
	r = fgt_span_choice_cut(choice, *slice, false, is_quiet, &parts, why);
	if (r < 0)
		return r;
	fgt_ring_slice_free(*slice);
	*slice = parts.slow;
	return 0;
}
