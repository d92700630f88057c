/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent: one program, a table of verbs. Finds the verb, reads its
 * flags, runs it or prints its help; must survive closed standard descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/daemon/delivery/delivery_child.h"
#include "agent/daemon/front/front.h"
#include "agent/files/open_file.h"
#include "agent/http/http_child.h"
#include "agent/symbols/helper/helper.h"
#include "agent/unwind/rows/rows.h"
#include "ringbuf/base/nearest.h"

static const struct fgt_verb *const verbs[] = {
	&fgt_verb_daemon,
	&fgt_verb_attach,
	&fgt_verb_detach,
	&fgt_verb_slice,
	&fgt_verb_record,
	&fgt_verb_convert,
	&fgt_verb_status,
	&fgt_verb_targets,
	&fgt_verb_metrics,
	&fgt_verb_tail,
	&fgt_verb_triggers,
	&fgt_verb_spool,
	&fgt_verb_config,
	&fgt_verb_version,
	&fgt_verb_why,
	&fgt_verb_stacks,
	&fgt_verb_diff,
	&fgt_verb_mcp,
	NULL,
};

static void ignore(int signal_number)
{
	(void)signal_number;
}

/*
 * Descriptors 0 to 2 exist from here on, so that no file that is opened later
 * becomes "standard error". SIGPIPE gets a handler rather than SIG_IGN: a
 * command that record starts then has the default again after its exec.
 */
static int prepare(void)
{
	struct sigaction action = { .sa_handler = ignore,
				    .sa_flags = SA_RESTART };
	struct sigaction before;
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) == 0);
	if (fd < 0)
		return -errno;
	close(fd);
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGPIPE, NULL, &before) == 0 &&
	    before.sa_handler != SIG_IGN)
		(void)sigaction(SIGPIPE, &action, NULL);
	return 0;
}

static const struct fgt_verb *find_verb(const char *name)
{
	for (size_t i = 0; verbs[i]; i++) {
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	}
	return NULL;
}

static int unknown_verb(const char *name)
{
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, name);
	for (size_t i = 0; verbs[i]; i++)
		fgt_nearest_offer(&nearest, verbs[i]->name);
	fgt_nearest_offer(&nearest, "help");
	if (nearest.best)
		return fgt_complain(NULL, FGT_EXIT_USAGE,
				    "unknown verb '%s'; did you mean '%s'?",
				    name, nearest.best);
	return fgt_complain(NULL, FGT_EXIT_USAGE,
			    "unknown verb '%s'; see fgtrace-agent --help",
			    name);
}

/* ---- Help, from the tables --------------------------------------------- */

static const char statuses[] =
	"Exit status: 0 ok, 1 failure, 2 usage, 3 no agent, 4 not permitted, "
	"5 no data\nin range.\n";

static void print_help(void)
{
	fputs("fgtrace-agent VERB [ARGUMENTS]\n"
	      "An always-on flight recorder of stacks: what was every thread "
	      "doing, ten seconds ago?\n\n",
	      stdout);
	for (size_t i = 0; verbs[i]; i++)
		printf("  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
	fputs("  help      this text, or help VERB\n\n"
	      "First steps:\n"
	      "  fgtrace-agent daemon &\n"
	      "  fgtrace-agent attach redis-server\n"
	      "  fgtrace-agent slice --last 10s -o slow.trace.json\n"
	      "  fgtrace-agent why --last 2s\n\n"
	      "Every flag has an environment variable: --state-frames is "
	      "FGTRACE_STATE_FRAMES.\nflag > environment > configuration file "
	      "> default.\n",
	      stdout);
	fputs(statuses, stdout);
}

static void print_option(const struct fgt_option *option)
{
	char left[64];
	const char *argument = option->argument ? option->argument : "";

	if (option->letter)
		snprintf(left, sizeof(left), "-%c, --%s %s", option->letter,
			 option->name, argument);
	else
		snprintf(left, sizeof(left), "    --%s %s", option->name,
			 argument);
	printf("  %-26s %s\n", left, option->help);
}

static void print_verb_help(const struct fgt_verb *verb)
{
	printf("fgtrace-agent %s %s\n", verb->name, verb->synopsis);
	printf("  %s\n\n", verb->summary);
	for (const struct fgt_option *option = verb->options; option->name;
	     option++)
		print_option(option);
	printf("  -h, --help                 this text\n"
	       "Each flag --some-flag is FGTRACE_SOME_FLAG in the "
	       "environment, too; the flag wins.\n\n%s\n%s",
	       verb->help, statuses);
}

static int help(const char *name)
{
	const struct fgt_verb *verb = name ? find_verb(name) : NULL;

	if (name && !verb && strcmp(name, "help") != 0)
		return unknown_verb(name);
	if (verb)
		print_verb_help(verb);
	else
		print_help();
	return fgt_finish_stdout(NULL);
}

static int run(int argc, char **argv)
{
	const struct fgt_verb *verb = find_verb(argv[0]);
	struct fgt_arguments arguments;
	struct fgt_why why = { "" };

	if (!verb)
		return unknown_verb(argv[0]);
	if (fgt_options_read(verb, argc, argv, secure_getenv, &arguments,
			     &why) < 0)
		return fgt_complain(verb->name, FGT_EXIT_USAGE, "%s", why.text);
	return arguments.is_help ? help(verb->name) : verb->run(&arguments);
}

/* "--socket PATH VERB …" becomes "VERB --socket PATH …". 0: no verb. */
static int move_verb_first(int argc, char **argv)
{
	int flag_count = strncmp(argv[0], "--socket=", 9) == 0 ? 1 : 2;
	char *verb;

	if (strncmp(argv[0], "--socket", 8) != 0 ||
	    (argv[0][8] != '\0' && argv[0][8] != '='))
		return 1;
	if (argc <= flag_count)
		return 0;
	verb = argv[flag_count];
	memmove(argv + 1, argv, (size_t)flag_count * sizeof(*argv));
	argv[0] = verb;
	return 1;
}

int main(int argc, char **argv)
{
	static char version[] = "version";
	const char *first = argc > 1 ? argv[1] : NULL;

	fgt_helper_serve_if_asked(argc, argv);
	fgt_reader_serve_if_asked(argc, argv);
	fgt_rows_serve_if_asked(argc, argv);
	fgt_delivery_serve_if_asked(argc, argv);
	fgt_front_serve_if_asked(argc, argv);
	fgt_web_serve_if_asked(argc, argv);
	if (prepare() < 0)
		return fgt_complain(NULL, FGT_EXIT_FAILURE,
				    "cannot open /dev/null: %s; create it",
				    fgt_error_text(-errno));
	if (!first || !move_verb_first(argc - 1, argv + 1))
		return fgt_complain(NULL, FGT_EXIT_USAGE,
				    "no verb given; see fgtrace-agent --help");
	first = argv[1];
	if (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 ||
	    strcmp(first, "-h") == 0)
		return help(argc > 2 ? argv[2] : NULL);
	if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0)
		argv[1] = version;
	return run(argc - 1, argv + 1);
}
