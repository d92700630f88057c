/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a daemon's replies: targets and status, for people and as JSON.
 */
#ifndef FGT_AGENT_CLI_OUTPUT_TARGET_TABLE_H
#define FGT_AGENT_CLI_OUTPUT_TARGET_TABLE_H

#include "agent/cli/verb.h"
#include "agent/protocol/protocol.h"

/* All of them print to standard output and return an exit status; a failure
 * to write has been complained of. */

/* "attach: sampling 1234 redis-server", a line per target. */
int fgt_print_target_names(const struct fgt_verb *verb,
			   const struct fgt_message *reply);
/* A line per target with rate, threads, ring and stacks. */
int fgt_print_target_table(const struct fgt_verb *verb,
			   const struct fgt_message *reply);
/* What the agent is and may, then the targets. */
int fgt_print_status(const struct fgt_verb *verb,
		     const struct fgt_message *reply);
/* The reply as one line of JSON. */
int fgt_print_json(const char *verb, const struct fgt_message *reply);

#endif
