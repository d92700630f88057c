/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a daemon's replies: targets and status, as text and as JSON.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_TARGET_TABLE_H
#define FGT_AGENT_CLI_OUTPUT_TARGET_TABLE_H

#include "agent/protocol/message.h"

/* "sampling 1234 redis-server", a line for each target, then for each rule. */
void fgt_print_target_names(const struct fgt_message *reply, const char *what);

/* Of a reply of status: each destination of the configuration, if there are
 * any. */
void fgt_print_destinations(const struct fgt_message *reply);

/* A line for each target with rate, threads, ring and stacks. */
void fgt_print_target_table(const struct fgt_message *reply);
/* The agent, what it may use, its destinations, then the targets. */
void fgt_print_status(const struct fgt_message *reply);
/* The reply as one line of JSON. An exit status: a failure to write has been
 * printed. */
int fgt_print_json(const char *verb, const struct fgt_message *reply);

#endif
