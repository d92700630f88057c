/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent slice: cuts a time range out of a daemon's ring.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "agent/cli/range/range.h"
#include "agent/cli/range/span_choice.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/protocol/builder.h"

#define LAST_NS 10000000000ull
#define NAME	fgt_verb_slice.name

static const struct fgt_option options[] = {
	FGT_RANGE_OPTIONS,
	{ "last", 0, "D",
	  "the last 5s, 1500ms, 2m (default: 10s; before the target's end)",
	  "from to " },
	FGT_FETCH_TARGET_OPTIONS,
	{ "tid", 0, "TID", "one thread only", NULL },
	FGT_FILTER_OPTIONS,
	FGT_SPAN_OPTIONS,
	FGT_EXPORT_OPTIONS,
	FGT_EXPORT_UPLOAD_OPTIONS,
	{ "config", 'c', "FILE", "configuration (default: the daemon's)",
	  NULL },
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

/* The configuration that the daemon runs with, for its destinations. */
static int ask_for_config(const char *socket_path, char *ret_path, size_t size,
			  struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	const char *path = "";
	int r = fgt_builder_new_request("status", &request);

	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	r = fgt_fetch_reply(socket_path, request, &reply, why);
	if (r < 0)
		return r;
	(void)fgt_message_get_string(reply, "config", &path);
	snprintf(ret_path, size, "%s", path);
	return 0;
}

static enum fgt_exit load_config(const struct fgt_arguments *arguments,
				 const char *socket_path,
				 struct fgt_config **ret_config)
{
	const char *path = fgt_options_get(arguments, "config");
	char daemon_path[PATH_MAX] = "";
	struct fgt_why why = { "" };

	if (!path && fgt_options_has(arguments, "upload") &&
	    !fgt_options_has(arguments, "dsn-file")) {
		int r = ask_for_config(socket_path, daemon_path,
				       sizeof(daemon_path), &why);

		if (r < 0)
			return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
		path = daemon_path[0] ? daemon_path : NULL;
	}
	if (fgt_config_load(path, ret_config, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	return FGT_EXIT_OK;
}

/* Flag and environment go before the file's socket. */
static void take_socket(const struct fgt_arguments *arguments,
			const struct fgt_config *config, char *socket_path,
			size_t size)
{
	if (!fgt_options_has(arguments, "socket") &&
	    fgt_options_has(arguments, "config") &&
	    strlen(config->socket) < size)
		strcpy(socket_path, config->socket);
}

static int read_target(const struct fgt_arguments *arguments,
		       struct fgt_fetch *fetch, struct fgt_why *why)
{
	int64_t tid;
	int r = fgt_options_get_number(arguments, "tid", 1, INT32_MAX, 0, &tid,
				       why);

	if (r == 0)
		r = fgt_fetch_read_target(arguments, fetch, why);
	if (r == 0)
		fetch->tid = (int32_t)tid;
	return r;
}

/* Frames and states come with their names. */
static int fetch_slice(const struct fgt_fetch *fetch,
		       struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	bool is_clock_set;
	int r = fgt_fetch_slices(fetch, ret_slice, &is_clock_set, why);

	if (r == 0 && is_clock_set)
		fgt_note(NAME, "the wall clock was set during the ring's time; "
			       "times are those that it showed then");
	return r;
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_fetch fetch = { .socket_path = socket_path };
	FGT_AUTO(fgt_export_done) struct fgt_export plan = { .verb = NAME };
	struct fgt_span_choice spans = { .span = NULL };
	struct fgt_why why = { "" };
	struct fgt_now now;
	enum fgt_exit status;
	int r;

	fgt_now_read(&now);
	r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path), &why);
	if (r == 0)
		r = read_target(arguments, &fetch, &why);
	if (r == 0)
		r = fgt_range_read(arguments, &now, LAST_NS, &fetch.range,
				   &why);
	if (r == 0)
		r = fgt_span_choice_read(arguments, &spans, &why);
	if (r < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	status = load_config(arguments, socket_path, &config);
	if (status != FGT_EXIT_OK)
		return (int)status;
	take_socket(arguments, config, socket_path, sizeof(socket_path));
	if (fgt_export_plan(arguments, config, &plan, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	/* An agent that is not there is the first thing to mend. */
	r = fgt_fetch_open(socket_path, &channel, &why);
	status = r == 0 ? fgt_export_check(&plan) : FGT_EXIT_OK;
	if (status != FGT_EXIT_OK)
		return (int)status;
	if (r == 0)
		r = fetch_slice(&fetch, &slice, &why);
	if (r == 0)
		r = fgt_span_choice_take(&spans, plan.is_quiet, &slice, &why);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
	return (int)fgt_export_run(&plan, slice);
}

const struct fgt_verb fgt_verb_slice = {
	.name = "slice",
	.synopsis = "[--from T --to T | --last D] "
		    "[-p PID [--children] | -n NAME | --all] "
		    "[--tid TID] [-f FORMAT] [-o FILE|-] [--upload [DEST]]",
	.summary = "write or upload what every thread did during a past time",
	.options = options,
	.run = run,
	.help = FGT_RANGE_TEXT
	"\n" FGT_EXPORT_UPLOAD_TEXT "\nExamples:\n"
	"  fgtrace-agent slice --last 5s -n redis-server "
	"-o slow.trace.json\n"
	"  fgtrace-agent slice --from -20s --to -12s "
	"-p 1234 --top 5\n"
	"  fgtrace-agent slice --from 14:03:07 --to "
	"14:03:08.5 -o - -f folded | flamegraph.pl\n"
	"  fgtrace-agent slice --last 2s --upload sentry "
	"-c fgtrace.conf\n",
};
