/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the form of an answer. Runs in the main thread.
 */
#include "agent/cli/output/form.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/cli/summary/summary.h"

int fgt_form_read(const struct fgt_arguments *arguments,
		  enum fgt_form *ret_form, struct fgt_why *why)
{
	static const char *const names[] = {
		[FGT_FORM_TEXT] = "text",
		[FGT_FORM_MARKDOWN] = "md",
		[FGT_FORM_JSON] = "json",
	};
	const char *name = fgt_options_get(arguments, "format");

	if (!name)
		name = fgt_options_has(arguments, "json") ? "json" : "text";
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_form = (enum fgt_form)i;
			return 0;
		}
	}
	return fgt_why_set(why, -EINVAL,
			   "unknown format \"%s\": use text, md or json", name);
}

void fgt_form_fence(enum fgt_form form)
{
	if (form == FGT_FORM_MARKDOWN)
		puts("```");
}

void fgt_form_print_names(enum fgt_form form, const struct fgt_words *words,
			  size_t columns, FILE *file)
{
	char text[2 * FGT_WORDS_MAX], *to = text, last = '\0';

	for (const char *at = words->text; at < words->text + words->len;
	     at++) {
		if (form == FGT_FORM_MARKDOWN &&
		    (strchr("\\|<`*", *at) || (last == ']' && *at == '(')))
			*to++ = '\\';
		*to++ = last = *at;
	}
	*to = '\0';
	fgt_print_text(file, text, columns);
}

void fgt_form_name_range(enum fgt_form form, uint64_t from_ns, uint64_t to_ns,
			 int32_t tid)
{
	if (form != FGT_FORM_MARKDOWN)
		return;
	printf("\nThe same range: `--from m:%" PRIu64 " --to m:%" PRIu64,
	       from_ns, to_ns);
	if (tid)
		printf(" --tid %" PRId32, tid);
	puts("`");
}

void fgt_form_end_slice(enum fgt_form form, const struct fgt_ring_slice *slice)
{
	fgt_form_fence(form);
	fgt_form_name_range(form, slice->tick_ns[0],
			    slice->tick_ns[slice->tick_count - 1], 0);
}

void fgt_form_name_moment(enum fgt_form form, uint64_t at_ns)
{
	if (form == FGT_FORM_MARKDOWN)
		printf("\nThe same moment: `--at m:%" PRIu64 "`\n", at_ns);
}
