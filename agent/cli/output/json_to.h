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
			"write the JSON to FILE, beside the text", "json "     \
	}

/* *ret_file is NULL if the flag was not given; it has no buffer. errno of
 * open(2) with why. */
int fgt_json_to_open(const struct fgt_arguments *arguments, FILE **ret_file,
		     struct fgt_why *why);

#endif
