/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent attach, detach, status, targets: one request each to a daemon,
 * about the processes that it samples.
 */
#include <errno.h>
#include <stdio.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/output/target_table.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/protocol/client.h"

#define JSON_OPTION                                                            \
	{                                                                      \
		"json", 0, NULL, "print the answer as JSON", NULL              \
	}
#define SOCKET_OPTION                                                          \
	{                                                                      \
		"socket", 0, "PATH", "the daemon's control socket", NULL       \
	}

static const struct fgt_option options[] = {
	JSON_OPTION,
	SOCKET_OPTION,
	{ .name = NULL },
};

static const struct fgt_option attach_options[] = {
	{ "children", 0, NULL, "and the processes that it starts", NULL },
	JSON_OPTION,
	SOCKET_OPTION,
	{ .name = NULL },
};

static int request(const struct fgt_arguments *arguments,
		   struct fgt_message **ret_reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	char socket_path[FGT_SOCKET_PATH_SIZE];
	int r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path),
				 why);

	if (r == 0)
		r = fgt_client_request_new(arguments->verb->name, &request);
	if (r == 0 && arguments->operand_count)
		r = fgt_fetch_put_target(request, arguments->operands[0], why);
	if (r < 0)
		return r;
	if (fgt_options_has(arguments, "children"))
		fgt_builder_bool(request, "children", true);
	return fgt_fetch_reply(socket_path, request, ret_reply, why);
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	const struct fgt_verb *verb = arguments->verb;
	struct fgt_why why = { "" };
	int r = request(arguments, &reply, &why);

	if (r < 0)
		return fgt_complain_why(verb->name, fgt_fetch_exit(r), &why);
	if (fgt_options_has(arguments, "json"))
		return fgt_print_json(verb->name, reply);
	if (verb == &fgt_verb_status)
		return fgt_print_status(verb->name, reply);
	if (verb == &fgt_verb_targets)
		return fgt_print_target_table(verb->name, reply);
	fgt_print_target_names(reply, verb == &fgt_verb_attach
					      ? "sampling"
					      : "no longer sampling");
	return fgt_finish_stdout(verb->name);
}

const struct fgt_verb fgt_verb_attach = {
	.name = "attach",
	.synopsis = "PID|NAME [--children]",
	.summary = "tell the daemon to sample a process",
	.options = attach_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run,
	.help = "A NAME attaches every process of that name that you may "
		"trace. Sampling begins\nat once and goes on until the process "
		"ends or is detached.\n"
		"\nExamples:\n"
		"  fgtrace-agent attach 1234\n"
		"  fgtrace-agent attach postgres --children\n",
};

const struct fgt_verb fgt_verb_detach = {
	.name = "detach",
	.synopsis = "PID|NAME",
	.summary = "tell the daemon to sample it no longer",
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run,
	.help = "What was recorded of it is given up.\n"
		"\nExample:\n"
		"  fgtrace-agent detach 1234\n",
};

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
