/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a verb of fgtrace-agent is, and the exit statuses of all of them.
 *
 * Verbs run in the main thread.
 */
#ifndef FGT_AGENT_CLI_VERB_H
#define FGT_AGENT_CLI_VERB_H

struct fgt_arguments;
struct fgt_option;

/* Scripts depend on these numbers. */
enum fgt_exit {
	FGT_EXIT_OK = 0,
	FGT_EXIT_FAILURE = 1,
	FGT_EXIT_USAGE = 2,
	FGT_EXIT_NO_AGENT = 3,
	FGT_EXIT_NOT_PERMITTED = 4,
	FGT_EXIT_NO_DATA = 5,
	/* As of sh, perf and env. */
	FGT_EXIT_NOT_EXECUTED = 126, /* the command is there */
	FGT_EXIT_NOT_FOUND = 127, /* the command is not */
};

struct fgt_verb {
	const char *name;
	const char *synopsis; /* arguments, one line */
	const char *summary; /* one line */
	const char *help; /* paragraphs and examples for --help */
	const struct fgt_option *options; /* ended by one without a name */
	int operands_min, operands_max; /* INT_MAX: any number */
	int has_command; /* takes "-- CMD [ARG…]" */
	/* enum fgt_exit, or the status of a command that was run. */
	int (*run)(const struct fgt_arguments *arguments);
};

#endif
