/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which form a verb prints its answer.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_FORM_H
#define FGT_AGENT_CLI_OUTPUT_FORM_H

#include "agent/cli/options.h"
#include "ringbuf/slice/slice.h"
#include "upload/why/words.h"

enum fgt_form {
	FGT_FORM_TEXT,
	FGT_FORM_MARKDOWN,
	FGT_FORM_JSON,
};

/* Rows of a verb's table of flags. */
#define FGT_FORM_OPTIONS                                                       \
	{ "format", 'f', "FORMAT", "text, md or json (default: text)",         \
	  "json " },                                                           \
	{                                                                      \
		"json", 0, NULL, "the same as -f json", "format "              \
	}

/* Reads --format and --json. -EINVAL with why. */
int fgt_form_read(const struct fgt_arguments *arguments,
		  enum fgt_form *ret_form, struct fgt_why *why);

/* Before and after columns of text on standard output, whose widths markdown
 * must not change; nothing in the other forms. */
void fgt_form_fence(enum fgt_form form);

/* Names as they are: in markdown with a backslash before what would be a cell, a
 * tag, code, emphasis or a link. */
void fgt_form_print_names(enum fgt_form form, const struct fgt_words *words,
			  size_t columns, FILE *file);

/* The flags that ask for the same time again, later, which "-2s" does not:
 * markdown alone. tid 0: none. */
void fgt_form_name_range(enum fgt_form form, uint64_t from_ns, uint64_t to_ns,
			 int32_t tid);
/* With a fence before it. */
void fgt_form_end_slice(enum fgt_form form, const struct fgt_ring_slice *slice);
void fgt_form_name_moment(enum fgt_form form, uint64_t at_ns);

#endif
