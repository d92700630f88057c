/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An explanation as one JSON object.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_EXPLANATION_JSON_H
#define FGT_AGENT_CLI_OUTPUT_EXPLANATION_JSON_H

#include <stdio.h>

#include "upload/why/explain.h"

/* Ended by a newline. Errno of write(). */
int fgt_explanation_print_json(const struct fgt_explanation *explanation,
			       const char *from, const char *to, FILE *file);

#endif
