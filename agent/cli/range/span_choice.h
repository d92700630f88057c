/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --span and --slower-than: the instances of a span, as a part of a slice.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_RANGE_SPAN_CHOICE_H
#define FGT_AGENT_CLI_RANGE_SPAN_CHOICE_H

#include "agent/cli/options.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/* Rows of a verb's table of flags. */
#define FGT_SPAN_OPTIONS                                                       \
	{ "span", 0, "NAME",                                                   \
	  "the time of the spans or tasks of that name, in their threads",     \
	  NULL },                                                              \
		{ "trace-id", 0, "ID",                                         \
		  "those of that trace; without --span: all its spans",        \
		  NULL },                                                      \
	{                                                                      \
		"slower-than", 0, "D|pN",                                      \
			"of those the ones that took longer than 200ms, or "   \
			"than N % of them (p99)",                              \
			NULL                                                   \
	}

/* Borrowed from the arguments; neither span nor trace: no choice. */
struct fgt_span_choice {
	const char *span, *trace, *slower_than, *against;
};

/* -EINVAL, with why: flags that need another one, or that no one can read. */
int fgt_span_choice_read(const struct fgt_arguments *arguments,
			 struct fgt_span_choice *ret_choice,
			 struct fgt_why *why);

struct fgt_span_parts {
	struct fgt_ring_slice *slow, *ordinary; /* owned */
	uint32_t slow_count, ordinary_count; /* instances */
};

/*
 * Cuts a slice; notes on stderr, unless it is quiet, have the lengths, and the
 * slowest ones with their begin and trace. Without
 * --slower-than all are slow. with_ordinary: their part, too. -ENODATA, with
 * why: no such span, none that slow or ordinary, or no tick in it; -ENOMEM.
 */
int fgt_span_choice_cut(const struct fgt_span_choice *choice,
			const struct fgt_ring_slice *slice, bool with_ordinary,
			bool is_quiet, struct fgt_span_parts *ret_parts,
			struct fgt_why *why);

/* The slow part in the place of a slice; nothing without a choice. Errors: as
 * above, and then the slice stays. */
int fgt_span_choice_take(const struct fgt_span_choice *choice, bool is_quiet,
			 struct fgt_ring_slice **slice, struct fgt_why *why);

#endif
