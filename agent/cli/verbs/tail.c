/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent tail: prints what happens in a target, as it happens. Asks the
 * daemon for the last moments, again and again; a reader that is slow delays
 * only this process.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/tail/tail.h"
#include "ringbuf/base/clock.h"

#define NAME	 fgt_verb_tail.name
#define MS_NS	 UINT64_C(1000000)
#define FIRST_NS (FGT_TAIL_PERIOD_MS * MS_NS)

static const struct fgt_option options[] = {
	{ "pid", 'p', "PID", "the target's process id", "name " },
	{ "name", 'n', "NAME", "the target's name (default: the only one)",
	  "pid " },
	{ "tid", 0, "TID", "one thread only", NULL },
	FGT_FILTER_OPTIONS,
	{ "format", 'f', "FORMAT", "json (a line each) or chrome", NULL },
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

/* Is the target still sampled? */
static bool is_alive(const struct fgt_fetch *fetch)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	struct fgt_message_array targets = { .count = 0 };
	struct fgt_message target;
	struct fgt_why why;

	if (fgt_builder_new_request("targets", &request) < 0 ||
	    fgt_fetch_reply(fetch->socket_path, request, &reply, &why) < 0)
		return false;
	(void)fgt_message_get_array(reply, "targets", &targets);
	while (fgt_message_next(&targets, &target) == 0) {
		bool has_life = false;
		int64_t pid = 0;

		(void)fgt_message_get_int(&target, "pid", &pid);
		(void)fgt_message_get_bool(&target, "alive", &has_life);
		if (pid == fetch->choice.pid && has_life)
			return true;
	}
	return false;
}

static int print_slice(struct fgt_fetch *fetch, struct fgt_tail *tail,
		       const struct fgt_ring_slice *slice)
{
	const struct fgt_sink sink = { fgt_file_write, stdout };
	uint64_t last_ns = fgt_tail_last_ns(tail);

	if (last_ns && slice->tick_ns[0] > last_ns && slice->evicted_ticks)
		fgt_note(NAME,
			 "%llu ticks are missing: the output is read too "
			 "slowly",
			 (unsigned long long)slice->evicted_ticks);
	fetch->choice.pid = slice->process.pid;
	fetch->choice.name = NULL;
	return fgt_tail_feed(tail, slice, &sink);
}

/* 1: nothing has happened yet. */
static int print_next(struct fgt_fetch *fetch, struct fgt_tail *tail,
		      struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	bool is_clock_set;
	int r = fgt_fetch_open(fetch->socket_path, &channel, why);

	fgt_tail_range(tail, &fetch->range);
	if (r == 0)
		r = fgt_fetch_slice(fetch, &channel, &slice, &is_clock_set,
				    why);
	/* Where the agent is busy, the next slice has it. */
	if (r == -ENODATA || r == -EBUSY || r == -EAGAIN)
		return 1;
	return r < 0 ? r : print_slice(fetch, tail, slice);
}

/* Until the target or the reader of the output ends. */
static int print_all(struct fgt_fetch *fetch, struct fgt_tail *tail)
{
	const struct timespec pause =
		fgt_timespec_of(FGT_TAIL_PERIOD_MS * MS_NS);
	struct fgt_why why = { "" };

	for (;;) {
		int r = print_next(fetch, tail, &why);
		enum fgt_exit status = fgt_finish_stdout(NAME);

		if (status != FGT_EXIT_OK || ferror(stdout))
			return (int)status;
		if (r == 1 && fetch->choice.pid && !is_alive(fetch))
			return FGT_EXIT_OK;
		if (r < 0)
			return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
		(void)nanosleep(&pause, NULL);
	}
}

static int read_target(const struct fgt_arguments *arguments,
		       struct fgt_fetch *fetch, struct fgt_why *why)
{
	int64_t pid = 0, tid = 0;
	int r = fgt_options_get_number(arguments, "pid", 1, INT32_MAX, 0, &pid,
				       why);

	if (r == 0)
		r = fgt_options_get_number(arguments, "tid", 1, INT32_MAX, 0,
					   &tid, why);
	fetch->choice.pid = (int32_t)pid;
	fetch->tid = (int32_t)tid;
	fetch->choice.name = fgt_options_get(arguments, "name");
	return r;
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_tail_free) struct fgt_tail *tail = NULL;
	const char *format = fgt_options_get(arguments, "format");
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_fetch fetch = { .socket_path = socket_path };
	enum fgt_tail_form form = FGT_TAIL_JSON;
	const struct fgt_filter filter = fgt_export_filter(arguments);
	struct fgt_why why = { "" };
	int r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path),
				 &why);

	if (r == 0 && format)
		r = fgt_tail_form_from_name(format, &form, &why);
	if (r == 0)
		r = read_target(arguments, &fetch, &why);
	if (r == 0)
		r = fgt_tail_new(form, &filter, &tail, &why);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
	return print_all(&fetch, tail);
}

const struct fgt_verb fgt_verb_tail = {
	.name = "tail",
	.synopsis = "[-p PID | -n NAME] [--tid TID] [--thread PATTERN] "
		    "[--state PATTERN] [--function PATTERN] [--running] "
		    "[-f json|chrome]",
	.summary = "print what a target does, as it happens",
	.options = options,
	.run = run,
	.help = "A line where the stack or state of a thread changes, and where "
		"a task or span\nbegins or ends, until the target ends. chrome "
		"is an array without an end, which\nviewers read as it is. A "
		"thread whose samples no longer pass --state, --function\nor "
		"--running has left; --no-idle is refused: what stays as it is "
		"writes\nnothing.\n"
		"\nExamples:\n"
		"  fgtrace-agent tail -n redis-server | grep futex\n"
		"  fgtrace-agent tail -p 1234 -f chrome >now.trace.json\n",
};
