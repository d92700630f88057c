/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent attach, detach, status, targets, metrics: one request each to a
 * daemon, about the processes that it samples.
 */
#include <errno.h>
#include <limits.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/output/form.h"
#include "agent/cli/output/json_to.h"
#include "agent/cli/output/target_table.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/http/metrics.h"
#include "agent/protocol/builder.h"

#define JSON_OPTION                                                            \
	{                                                                      \
		"json", 0, NULL, "print the answer as JSON", NULL              \
	}
#define SOCKET_OPTION                                                          \
	{                                                                      \
		"socket", 0, "PATH", "the daemon's control socket", NULL       \
	}

static const struct fgt_option options[] = {
	FGT_FORM_OPTIONS,
	FGT_JSON_TO_OPTION,
	SOCKET_OPTION,
	{ .name = NULL },
};

/* Of attach and detach; the first rows of their tables. */
enum {
	PID_OPTION,
	NAME_OPTION
};
#define TARGET_OPTIONS                                                         \
	{ "pid", 'p', "PID", "the process, as an argument without -p",         \
	  "name " },                                                           \
	{                                                                      \
		"name", 'n', "NAME", "those of that name, whatever it is",     \
			"pid "                                                 \
	}

static const struct fgt_option detach_options[] = {
	TARGET_OPTIONS,
	JSON_OPTION,
	SOCKET_OPTION,
	{ .name = NULL },
};

static const struct fgt_option metrics_options[] = {
	SOCKET_OPTION,
	{ .name = NULL },
};

static const struct fgt_option attach_options[] = {
	TARGET_OPTIONS,
	{ "children", 0, NULL, "and the processes that it starts", NULL },
	JSON_OPTION,
	SOCKET_OPTION,
	{ .name = NULL },
};

static int call(const struct fgt_arguments *arguments, const char *socket_path,
		const char *target, struct fgt_message **ret_reply,
		struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	const char *name = arguments->verb == &fgt_verb_metrics
				   ? fgt_verb_status.name
				   : arguments->verb->name;
	int r = fgt_builder_new_request(name, &request);

	if (r == 0 && target && target == arguments->values[NAME_OPTION])
		fgt_builder_string(request, "name", target);
	else if (r == 0 && target)
		r = fgt_fetch_put_target(request, target, why);
	if (r < 0)
		return r;
	if (fgt_options_has(arguments, "children"))
		fgt_builder_bool(request, "children", true);
	return fgt_fetch_reply(socket_path, request, ret_reply, why);
}

static int print_metrics(const char *verb, const struct fgt_message *reply)
{
	const struct fgt_sink sink = { fgt_file_write, stdout };

	(void)fgt_metrics_write(reply, &sink);
	return fgt_finish_stdout(verb);
}

static int write_json(const struct fgt_arguments *arguments,
		      const struct fgt_message *reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_json_to_free) struct fgt_json_to *json = NULL;
	int r = fgt_json_to_open(arguments, &json, why);
	const struct fgt_sink sink = { fgt_file_write, fgt_json_to_file(json) };

	if (r < 0 || !json)
		return r;
	r = fgt_message_to_json(reply, &sink);
	if (r == 0)
		r = fgt_sink_write(&sink, "\n", 1);
	return r < 0 ? fgt_why_set(why, r, "cannot write the answer: %s",
				   fgt_error_text(r))
		     : fgt_json_to_commit(json, why);
}

static int print(const struct fgt_arguments *arguments,
		 const struct fgt_message *reply)
{
	const struct fgt_verb *verb = arguments->verb;
	enum fgt_form form;
	struct fgt_why why = { "" };

	if (verb == &fgt_verb_metrics)
		return print_metrics(verb->name, reply);
	if (fgt_form_read(arguments, &form, &why) < 0)
		return fgt_complain(verb->name, FGT_EXIT_USAGE, "%s", why.text);
	if (form == FGT_FORM_JSON)
		return fgt_print_json(verb->name, reply);
	fgt_form_fence(form);
	if (verb == &fgt_verb_status)
		fgt_print_status(reply);
	else if (verb == &fgt_verb_targets)
		fgt_print_target_table(reply);
	else
		fgt_print_target_names(reply, verb == &fgt_verb_attach
						      ? "sampling"
						      : "no longer sampling");
	fgt_form_fence(form);
	return fgt_finish_stdout(verb->name);
}

/* target NULL: status and targets have none. */
static int run_for(const struct fgt_arguments *arguments,
		   const char *socket_path, const char *target)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	const char *verb = arguments->verb->name;
	struct fgt_why why = { "" };
	int r = call(arguments, socket_path, target, &reply, &why);

	if (r == 0)
		r = write_json(arguments, reply, &why);
	if (r == 0)
		return print(arguments, reply);
	if (r == -EHOSTDOWN || r == -ENOMEM || arguments->operand_count < 2)
		return fgt_complain_why(verb, fgt_fetch_exit(r), &why);
	return fgt_complain(verb, FGT_EXIT_FAILURE, "%s: %s", target, why.text);
}

static int run(const struct fgt_arguments *arguments)
{
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_why why = { "" };
	int r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path),
				 &why);

	if (r < 0)
		return fgt_complain_why(arguments->verb->name,
					fgt_fetch_exit(r), &why);
	return run_for(arguments, socket_path, NULL);
}

/* By -p or -n; what the environment has of them is for no other argument. */
static const char *flagged(const struct fgt_arguments *arguments)
{
	for (int i = PID_OPTION; i <= NAME_OPTION; i++)
		if (arguments->values[i] &&
		    (arguments->is_flag[i] || !arguments->operand_count))
			return arguments->values[i];
	return NULL;
}

/* The target of a flag, and each argument. */
static int run_each(const struct fgt_arguments *arguments)
{
	const char *name = arguments->verb->name, *flag = flagged(arguments);
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_why why = { "" };
	int status = FGT_EXIT_OK;
	int64_t pid;
	int r = fgt_options_get_number(arguments, "pid", 1, INT32_MAX, 0, &pid,
				       &why);

	if (r == 0)
		r = fgt_fetch_socket(arguments, socket_path,
				     sizeof(socket_path), &why);
	if (r == 0 && !flag && !arguments->operand_count)
		r = fgt_why_set(&why, -EINVAL,
				"an argument is missing; write fgtrace-agent "
				"%s %s",
				name, arguments->verb->synopsis);
	if (r < 0)
		return fgt_complain_why(name, fgt_fetch_exit(r), &why);
	if (flag)
		status = run_for(arguments, socket_path, flag);
	/* Without an agent each of them would fail in the same way. */
	for (int i = 0;
	     i < arguments->operand_count && status != FGT_EXIT_NO_AGENT; i++) {
		int one =
			run_for(arguments, socket_path, arguments->operands[i]);

		status = one == FGT_EXIT_OK ? status : one;
	}
	return status;
}

const struct fgt_verb fgt_verb_attach = {
	.name = "attach",
	.synopsis = "PID|NAME... | -p PID | -n NAME [--children]",
	.summary = "make the daemon sample processes",
	.options = attach_options,
	.operands_max = INT_MAX,
	.run = run_each,
	.help = "A NAME attaches every process of that name that you may "
		"trace, also those that\nstart later, until it is detached. "
		"Sampling goes on until the process ends or is\ndetached. If "
		"one of several fails, the others are attached, the error has "
		"its own\nline and the exit status is 1.\n"
		"\nExamples:\n"
		"  fgtrace-agent attach 1234\n"
		"  fgtrace-agent attach -p 1234\n"
		"  fgtrace-agent attach $(pgrep nginx)\n"
		"  fgtrace-agent attach postgres --children\n",
};

const struct fgt_verb fgt_verb_detach = {
	.name = "detach",
	.synopsis = "PID|NAME... | -p PID | -n NAME",
	.summary = "make the daemon stop sampling processes",
	.options = detach_options,
	.operands_max = INT_MAX,
	.run = run_each,
	.help = "What was recorded of them is discarded.\n"
		"\nExample:\n"
		"  fgtrace-agent detach 1234\n",
};

const struct fgt_verb fgt_verb_status = {
	.name = "status",
	.synopsis = "[-f text|md|json]",
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
	.synopsis = "[-f text|md|json]",
	.summary = "the processes that the daemon samples",
	.options = options,
	.run = run,
	.help = "Example:\n  fgtrace-agent targets --json\n",
};

const struct fgt_verb fgt_verb_metrics = {
	.name = "metrics",
	.synopsis = "",
	.summary = "the agent's figures, in Prometheus' text format",
	.options = metrics_options,
	.run = run,
	.help = "The same as /metrics of the HTTP server (http.listen), for the "
		"targets that you\ncould trace yourself.\n"
		"\nExample:\n"
		"  fgtrace-agent metrics >/var/lib/node_exporter/fgtrace.prom\n",
};
