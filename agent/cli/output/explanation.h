/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an explanation: at most 40 lines of text or markdown, or one JSON
 * object.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_EXPLANATION_H
#define FGT_AGENT_CLI_OUTPUT_EXPLANATION_H

#include <stdio.h>

#include "agent/cli/output/form.h"
#include "upload/why/explain.h"

/* from, to: the range as the user would write it. Errno of write(). */
int fgt_explanation_print(const struct fgt_explanation *explanation,
			  enum fgt_form form, const char *from, const char *to,
			  FILE *file);

#endif
