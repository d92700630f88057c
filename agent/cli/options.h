/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table-driven reader of flags for all verbs. Every flag --some-flag has
 * its environment variable FGTRACE_SOME_FLAG; the flag wins.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OPTIONS_H
#define FGT_AGENT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/cli/verb.h"
#include "ringbuf/base/why.h"

#define FGT_OPTIONS_MAX 32 /* flags of one verb */

struct fgt_option {
	const char *name; /* long form without the dashes */
	char letter; /* short form, 0 for none */
	const char *argument; /* "PID"; "[DEST]" optional; NULL: a switch */
	const char *help; /* one line */
	/* Names of flags that cannot go with it, each followed by a space. A
	 * flag overrides those in the environment. */
	const char *excludes;
};

struct fgt_arguments {
	const struct fgt_verb *verb;
	const char *values[FGT_OPTIONS_MAX]; /* NULL: not given; "": a switch */
	bool is_flag[FGT_OPTIONS_MAX]; /* false: from the environment */
	bool is_help; /* --help: the rest was not read */
	char **operands; /* in argv */
	int operand_count;
	char **command; /* after "--"; NULL-terminated, NULL if none */
};

/*
 * Reads argv[1…] (argv[0] is the verb's name) by verb's table, then the
 * environment through get_env (pass secure_getenv). Moves the operands to the
 * front of argv. -EINVAL; why names the mistake, the nearest known flag, and
 * the verb's --help.
 */
int fgt_options_read(const struct fgt_verb *verb, int argc, char **argv,
		     char *(*get_env)(const char *name),
		     struct fgt_arguments *ret_arguments, struct fgt_why *why);

/* The value of a flag that the verb's table has, NULL if not given. */
const char *fgt_options_get(const struct fgt_arguments *arguments,
			    const char *name);
bool fgt_options_has(const struct fgt_arguments *arguments, const char *name);

/* A whole number within [min, max]; missing if the flag was not given. */
int fgt_options_get_number(const struct fgt_arguments *arguments,
			   const char *name, int64_t min, int64_t max,
			   int64_t missing, int64_t *ret_value,
			   struct fgt_why *why);

/* A whole decimal number and nothing else. -EINVAL, -ERANGE. */
int fgt_number_parse(const char *text, int64_t *ret_value);

#endif
