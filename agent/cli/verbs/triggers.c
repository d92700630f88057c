/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent triggers: lists the triggers of a daemon, or fires one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/output/form.h"
#include "agent/cli/output/target_table.h"
#include "agent/cli/summary/summary.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/protocol/builder.h"

#define NAME fgt_verb_triggers.name

static const struct fgt_option options[] = {
	FGT_FORM_OPTIONS,
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

/* ---- The table ----------------------------------------------------------- */

static uint64_t number(const struct fgt_message *message, const char *key)
{
	uint64_t value = 0;

	(void)fgt_message_get_uint(message, key, &value);
	return value;
}

/* A text that no byte of moves the cursor. */
static void print_key(const struct fgt_message *message, const char *key)
{
	const char *value = "?";

	(void)fgt_message_get_string(message, key, &value);
	fgt_print_text(stdout, value, 400);
}

static void print_last(const struct fgt_message *trigger)
{
	time_t at = (time_t)(number(trigger, "last_wall_ns") / 1000000000);
	char text[40] = "?";
	struct tm local;

	if (number(trigger, "last_ns") == 0)
		return;
	if (localtime_r(&at, &local))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
	printf("    last: %s, pid %" PRIu64 ": ", text,
	       number(trigger, "last_pid"));
	print_key(trigger, "last_cause");
	putchar('\n');
}

static void print_trigger(const struct fgt_message *trigger)
{
	uint64_t next_ns = number(trigger, "next_in_ns");
	double window_s = 0, after_s = 0;

	(void)fgt_message_get_double(trigger, "window_s", &window_s);
	(void)fgt_message_get_double(trigger, "after_s", &after_s);
	print_key(trigger, "name");
	fputs(": ", stdout);
	print_key(trigger, "target");
	printf(" (%" PRIu64 " now), ", number(trigger, "targets"));
	print_key(trigger, "when");
	printf("\n    %g s before and %g s after it to ", window_s, after_s);
	print_key(trigger, "deliver");
	printf("\n    fired %" PRIu64 ", suppressed %" PRIu64
	       ", failed %" PRIu64 "; ",
	       number(trigger, "fired"), number(trigger, "suppressed"),
	       number(trigger, "failed"));
	if (next_ns > 0)
		printf("next in %.0f s at the earliest\n",
		       (double)next_ns / 1e9);
	else
		puts("can fire");
	print_last(trigger);
}

static void print_table(const struct fgt_message *reply)
{
	struct fgt_message_array triggers = { .count = 0 };
	struct fgt_message trigger;

	(void)fgt_message_get_array(reply, "triggers", &triggers);
	if (triggers.count == 0)
		puts("no triggers: add one to 'triggers' of the "
		     "configuration, see fgtrace.conf(5)");
	while (fgt_message_next(&triggers, &trigger) == 0)
		print_trigger(&trigger);
}

/* ---- The verb ------------------------------------------------------------ */

static int call(const char *socket_path, const char *tried,
		struct fgt_message **ret_reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	int r = fgt_builder_new_request(NAME, &request);

	if (r < 0)
		return r;
	fgt_builder_string(request, "try", tried);
	return fgt_fetch_reply(socket_path, request, ret_reply, why);
}

static int print(enum fgt_form form, const char *tried,
		 const struct fgt_message *reply)
{
	if (form == FGT_FORM_JSON)
		return fgt_print_json(NAME, reply);
	if (!tried) {
		fgt_form_fence(form);
		print_table(reply);
		fgt_form_fence(form);
		return fgt_finish_stdout(NAME);
	}
	printf("%s fired: %" PRIu64 " slices are on their way; the agent's log "
	       "reports their arrival\n",
	       tried, number(reply, "fired"));
	return fgt_finish_stdout(NAME);
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	char socket_path[FGT_SOCKET_PATH_SIZE];
	const char *tried = NULL;
	struct fgt_why why = { "" };
	enum fgt_form form;
	int r;

	if (fgt_form_read(arguments, &form, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	if (arguments->operand_count == 1 ||
	    (arguments->operand_count == 2 &&
	     strcmp(arguments->operands[0], "try") != 0))
		return fgt_complain(NAME, FGT_EXIT_USAGE,
				    "'%s' is no action: use triggers, or "
				    "triggers try NAME",
				    arguments->operands[0]);
	if (arguments->operand_count == 2)
		tried = arguments->operands[1];
	r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path), &why);
	if (r == 0)
		r = call(socket_path, tried, &reply, &why);
	return r < 0 ? fgt_complain_why(NAME, fgt_fetch_exit(r), &why)
		     : print(form, tried, reply);
}

const struct fgt_verb fgt_verb_triggers = {
	.name = "triggers",
	.synopsis = "[try NAME] [-f text|md|json]",
	.summary = "the rules that deliver slices by themselves",
	.options = options,
	.operands_max = 2,
	.run = run,
	.help = "Lists the triggers of the daemon's configuration: what they "
		"wait for, how often\nthey fired, how often the gap or the cap "
		"of an hour suppressed a slice, and when\nthey can fire next. "
		"'try NAME' fires one now for each target that it applies to,\n"
		"whatever its condition and limits. For root and the user who "
		"runs the daemon.\n"
		"\nExamples:\n"
		"  fgtrace-agent triggers\n"
		"  fgtrace-agent triggers try stuck\n",
};
