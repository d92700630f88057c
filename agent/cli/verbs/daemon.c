/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent daemon: runs the agent in the foreground.
 */
#include <errno.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/daemon/daemon.h"
#include "ringbuf/base/owner.h"

#define NAME fgt_verb_daemon.name

static const struct fgt_option options[] = {
	{ "config", 'c', "FILE", "configuration (default: built-in values)",
	  NULL },
	{ "socket", 0, "PATH", "where to listen", NULL },
	{ .name = NULL },
};

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	const char *path = fgt_options_get(arguments, "config");
	struct fgt_why why = { "" };
	int r = fgt_config_load(path, &config, &why);

	if (r < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	r = fgt_daemon_run(FGT_TAKE(config),
			   fgt_options_get(arguments, "socket"), &why);
	if (r < 0)
		return fgt_complain(NAME, fgt_exit_of(r), "%s",
				    why.text[0] ? why.text : fgt_error_text(r));
	return FGT_EXIT_OK;
}

const struct fgt_verb fgt_verb_daemon = {
	.name = "daemon",
	.synopsis = "[-c FILE] [--socket PATH]",
	.summary = "run the agent in the foreground",
	.options = options,
	.run = run,
	.help = "Without a configuration it samples only what is attached "
		"later. SIGHUP reads the\nconfiguration again (a broken one "
		"changes nothing), SIGTERM ends the agent within\n5 s. Logs go "
		"to standard error.\n"
		"\nExamples:\n"
		"  fgtrace-agent daemon &\n"
		"  fgtrace-agent daemon -c fgtrace.conf\n",
};
