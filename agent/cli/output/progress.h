/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one line that record keeps up to date on a terminal.
 */
#ifndef FGT_AGENT_CLI_OUTPUT_PROGRESS_H
#define FGT_AGENT_CLI_OUTPUT_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

#include "agent/capture/target.h"

/* Whether fd is a terminal on which we may write now: in the foreground. */
bool fgt_progress_is_wanted(int fd);

/* "recording 12 threads of redis-server (1234): 4.2 s, 98 % complete stacks
 * ^C to stop", over the line that was there. */
void fgt_progress_print(FILE *file, const struct fgt_target_status *status,
			double elapsed_s);
/* Removes the line. */
void fgt_progress_clear(FILE *file);

#endif
