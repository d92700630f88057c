/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent status, targets: how a daemon is, and what it samples.
 */
#include <errno.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/output/target_table.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/protocol/client.h"

static const struct fgt_option options[] = {
	{ "json", 0, NULL, "print it as JSON", NULL },
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	const struct fgt_verb *verb = arguments->verb;
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_why why = { "" };
	int r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path),
				 &why);

	if (r == 0)
		r = fgt_client_request_new(verb->name, &request);
	if (r == 0)
		r = fgt_fetch_reply(socket_path, request, &reply, &why);
	if (r < 0)
		return fgt_complain_why(verb->name, fgt_fetch_exit(r), &why);
	if (fgt_options_has(arguments, "json"))
		return fgt_print_json(verb->name, reply);
	return verb == &fgt_verb_status ? fgt_print_status(verb, reply)
					: fgt_print_target_table(verb, reply);
}

const struct fgt_verb fgt_verb_status = {
	.name = "status",
	.synopsis = "[--json]",
	.summary = "what the daemon is, what it may use, what it samples",
	.options = options,
	.run = run,
	.help = "You see the targets that you could trace yourself. 'held' is "
		"how far you can look\nback, 'complete' the share of stacks "
		"that reach the thread's start, 'cpu' what\nsampling the "
		"target costs of one core; to keep sampling.max_cpu_percent "
		"the\nrate is lowered.\n"
		"\nExamples:\n"
		"  fgtrace-agent status\n"
		"  fgtrace-agent status --json | python3 -m json.tool\n",
};

const struct fgt_verb fgt_verb_targets = {
	.name = "targets",
	.synopsis = "[--json]",
	.summary = "the processes that the daemon samples",
	.options = options,
	.run = run,
	.help = "Example:\n  fgtrace-agent targets --json\n",
};
