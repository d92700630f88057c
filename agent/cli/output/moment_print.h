/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what every thread does at one instant.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_MOMENT_PRINT_H
#define FGT_AGENT_CLI_OUTPUT_MOMENT_PRINT_H

#include <stdio.h>

#include "upload/why/moment.h"

/* at: the instant as the user would write it. */
void fgt_moment_print(const struct fgt_moment *moment, const char *at,
		      FILE *file);
/* One JSON object, ended by a newline. Errno of write(). */
int fgt_moment_print_json(const struct fgt_moment *moment, const char *at,
			  FILE *file);

#endif
