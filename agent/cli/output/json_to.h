/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --json-to: an answer as text and as JSON from one look at the same data.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_JSON_TO_H
#define FGT_AGENT_CLI_OUTPUT_JSON_TO_H

#include <stdio.h>

#include "agent/cli/options.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"

/* A row of a verb's table of flags. */
#define FGT_JSON_TO_OPTION                                                     \
	{                                                                      \
		"json-to", 0, "FILE",                                          \
			"write the JSON to FILE, too (-: behind the text)",    \
			"json "                                                \
	}

struct fgt_json_to;

/* Leaves *ret_json alone if the flag was not given: all of these take NULL.
 * Errors of fgt_output_open() with why. */
int fgt_json_to_open(const struct fgt_arguments *arguments,
		     struct fgt_json_to **ret_json, struct fgt_why *why);

/* To write to. */
FILE *fgt_json_to_file(struct fgt_json_to *json);

/* The file gets its name, as by fgt_output_commit(). */
int fgt_json_to_commit(struct fgt_json_to *json, struct fgt_why *why);

void fgt_json_to_free(struct fgt_json_to *json);
FGT_DEFINE_AUTO(struct fgt_json_to *, fgt_json_to_free);

#endif
