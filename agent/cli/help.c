/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --help of the program and of each verb, from the tables.
 */
#include "agent/cli/help.h"

#include "agent/cli/options.h"

static const char statuses[] =
	"Exit status: 0 ok, 1 failure, 2 usage, 3 no agent, 4 not permitted, "
	"5 no data\nin range.\n";

void fgt_help_print(const struct fgt_verb *const *verbs, FILE *file)
{
	fputs("fgtrace-agent VERB [ARGUMENTS]\n"
	      "An always-on flight recorder of stacks: what was every thread "
	      "doing, ten seconds ago?\n\n",
	      file);
	for (; *verbs; verbs++)
		fprintf(file, "  %-9s %s\n", (*verbs)->name, (*verbs)->summary);
	fputs("  help      this text, or help VERB\n\n"
	      "First steps:\n"
	      "  fgtrace-agent daemon &\n"
	      "  fgtrace-agent attach redis-server\n"
	      "  fgtrace-agent slice --last 10s -o slow.trace.json\n\n"
	      "Every flag has an environment variable: --state-frames is "
	      "FGTRACE_STATE_FRAMES.\nflag > environment > configuration file "
	      "> default.\n",
	      file);
	fputs(statuses, file);
}

static void print_option(const struct fgt_option *option, FILE *file)
{
	char left[64];
	const char *argument = option->argument ? option->argument : "";

	if (option->letter)
		snprintf(left, sizeof(left), "-%c, --%s %s", option->letter,
			 option->name, argument);
	else
		snprintf(left, sizeof(left), "    --%s %s", option->name,
			 argument);
	fprintf(file, "  %-26s %s\n", left, option->help);
}

void fgt_help_print_verb(const struct fgt_verb *verb, FILE *file)
{
	fprintf(file, "fgtrace-agent %s %s\n", verb->name, verb->synopsis);
	fprintf(file, "  %s\n\n", verb->summary);
	for (const struct fgt_option *option = verb->options; option->name;
	     option++)
		print_option(option, file);
	fprintf(file,
		"  -h, --help                 this text\n"
		"Each flag --some-flag is FGTRACE_SOME_FLAG in the "
		"environment, too; the flag wins.\n\n%s\n%s",
		verb->help, statuses);
}
