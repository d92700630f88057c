/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of fgtrace-agent: one table, one file a verb.
 */
#ifndef FGT_AGENT_CLI_VERB_H
#define FGT_AGENT_CLI_VERB_H

/* Exit statuses (DESIGN §10, a contract). */
enum fgt_exit {
	FGT_EXIT_OK = 0,
	FGT_EXIT_FAILURE = 1,
	FGT_EXIT_USAGE = 2,
	FGT_EXIT_NO_AGENT = 3,
	FGT_EXIT_NOT_PERMITTED = 4,
	FGT_EXIT_NO_DATA = 5,
};

struct fgt_verb {
	const char *name;
	const char *synopsis; /* arguments, one line */
	const char *summary; /* one line */
	const char *help; /* flags and examples for --help */
	int (*run)(int argc,
		   char **argv); /* argv[0]: the verb; enum fgt_exit */
};

extern const struct fgt_verb fgt_verb_attach, fgt_verb_config, fgt_verb_convert,
	fgt_verb_daemon, fgt_verb_detach, fgt_verb_record, fgt_verb_slice,
	fgt_verb_status, fgt_verb_targets, fgt_verb_version;

#endif
