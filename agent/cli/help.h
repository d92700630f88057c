/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --help of the program and of each verb, from the tables.
 */
#ifndef FGT_AGENT_CLI_HELP_H
#define FGT_AGENT_CLI_HELP_H

#include <stdio.h>

#include "agent/cli/verb.h"

/* verbs ends with NULL. */
void fgt_help_print(const struct fgt_verb *const *verbs, FILE *file);
void fgt_help_print_verb(const struct fgt_verb *verb, FILE *file);

#endif
