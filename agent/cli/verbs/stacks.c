/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent stacks: every thread's stack, now or at a past time. By the
 * daemon, if it samples the process; else by a short recording.
 */
#include <errno.h>
#include <time.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "agent/cli/output/form.h"
#include "agent/cli/output/input.h"
#include "agent/cli/output/json_to.h"
#include "agent/cli/output/moment_print.h"
#include "agent/cli/range/range.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/recorder.h"
#include "agent/cli/verbs/verbs.h"
#include "ringbuf/base/clock.h"

#define NAME	   fgt_verb_stacks.name
#define HISTORY_NS 10000000000ull /* for how long a thread has stood there */
#define RECORD_NS  60000000ull
#define HZ	   101

static const struct fgt_option options[] = {
	FGT_FETCH_TARGET_OPTIONS,
	{ "at", 0, "T", "at that time (default: now), in the ring or FILE.fgt",
	  NULL },
	{ "tid", 0, "TID", "one thread only", NULL },
	FGT_FILTER_OPTIONS,
	FGT_FORM_OPTIONS,
	FGT_JSON_TO_OPTION,
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

struct stacks_question {
	struct fgt_now now;
	struct fgt_range range; /* up to the instant */
	int32_t pid, tid;
	bool with_children;
	struct fgt_filter filter;
	bool is_past; /* a time was given */
	enum fgt_form form;
	FILE *json; /* also there; NULL: not */
};

static int read_question(const struct fgt_arguments *arguments,
			 struct stacks_question *question, struct fgt_why *why)
{
	const char *at = fgt_options_get(arguments, "at");
	int64_t pid = 0, tid = 0;
	int r = fgt_form_read(arguments, &question->form, why);

	if (r == 0)
		r = fgt_options_get_number(arguments, "pid", 1, INT32_MAX, 0,
					   &pid, why);
	if (r == 0)
		r = fgt_options_get_number(arguments, "tid", 1, INT32_MAX, 0,
					   &tid, why);
	question->range.last_ns = HISTORY_NS;
	question->range.has_to = question->is_past = at != NULL;
	if (r == 0 && at)
		r = fgt_time_read(at, &question->now, &question->range.to, why);
	question->pid = (int32_t)pid;
	question->tid = (int32_t)tid;
	question->with_children = fgt_options_has(arguments, "children");
	question->filter = fgt_export_filter(arguments);
	return r;
}

static int fetch(const struct fgt_arguments *arguments,
		 const struct stacks_question *question,
		 struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_fetch fetch = {
		.socket_path = socket_path,
		.range = question->range,
		/* Whether a thread has changed is seen from its past. */
		.is_moment = !question->filter.is_busy,
	};
	bool is_clock_set;
	int r = fgt_fetch_read_target(arguments, &fetch, why);

	if (r == 0)
		r = fgt_fetch_socket(arguments, socket_path,
				     sizeof(socket_path), why);
	return r < 0 ? r
		     : fgt_fetch_slices(&fetch, ret_slice, &is_clock_set, why);
}

/* A few ticks, without a daemon. */
static int record(const struct stacks_question *question,
		  struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_recorder_free) struct fgt_recorder *recorder = NULL;
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	const struct timespec pause = fgt_timespec_of(RECORD_NS);
	struct fgt_sampler_options sampling = {
		.hz = HZ,
		.switches = FGT_SWITCHES_BUILT_IN,
	};
	struct fgt_processes processes = { .pids = { question->pid },
					   .count = 1 };
	uint64_t from_ns = question->now.mono_ns;
	int r = fgt_config_load(NULL, &config, why);

	if (r == 0 && question->with_children)
		r = fgt_processes_add_below(&processes, why);
	if (r > 0)
		r = fgt_why_set(why, -E2BIG,
				"more than %u processes; choose fewer",
				FGT_PROCESSES_MAX);
	if (r == 0) {
		sampling.max_depth = (unsigned int)config->sampling.max_depth;
		sampling.provider = config->sampling.provider;
		r = fgt_recorder_new(&sampling, &processes, &recorder, why);
	}
	if (r < 0)
		return r;
	(void)nanosleep(&pause, NULL);
	return fgt_recorder_finish(recorder, from_ns,
				   fgt_clock_ns(CLOCK_MONOTONIC), config,
				   ret_slice, why);
}

static int load(const char *path, struct stacks_question *question,
		struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	int r = fgt_input_load(path, ret_slice, why);

	if (r == 0)
		fgt_now_at_end(*ret_slice, &question->now);
	return r;
}

/* ret_shown: NULL without a filter. */
static int mark_shown(const struct stacks_question *question,
		      const struct fgt_ring_slice *slice, bool **ret_shown)
{
	*ret_shown = NULL;
	return fgt_filter_is_any(&question->filter)
		       ? fgt_filter_mark(&question->filter, slice, ret_shown)
		       : 0;
}

/* A part that takes nothing at all, or nothing at that time. */
static int explain_none(const struct stacks_question *question,
			const struct fgt_ring_slice *slice, const bool *shown,
			struct fgt_why *why)
{
	for (uint32_t i = 0; i < slice->run_count; i++)
		if (shown[i])
			return fgt_why_set(why, -ENODATA,
					   "no thread passes the filter at "
					   "that time; leave a part of it out, "
					   "or give another time (--at)");
	return fgt_filter_explain(&question->filter, slice, why);
}

static int print(const struct stacks_question *question,
		 const struct fgt_ring_slice *slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_moment_free) struct fgt_moment *moment = NULL;
	FGT_AUTO(free) void *memory = NULL;
	bool *shown;
	uint64_t from_ns, at_ns = UINT64_MAX, tick_ns;
	struct fgt_now now = question->now;
	char at[FGT_TIME_TEXT_SIZE];
	int r = 0;

	if (question->is_past)
		r = fgt_range_to_mono(&question->range, slice, &question->now,
				      &from_ns, &at_ns, why);
	if (r < 0)
		return r;
	if (mark_shown(question, slice, &shown) < 0)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	memory = shown;
	r = fgt_moment_new(slice, at_ns, question->tid, shown, &moment);
	if (r == -ENODATA && shown)
		return explain_none(question, slice, shown, why);
	if (r == -ENODATA)
		return fgt_why_set(why, r,
				   "no data in range: no tick, or no such "
				   "thread, at that time; targets shows what "
				   "the ring holds");
	if (r < 0)
		return r == -EINVAL ? r : fgt_why_set(why, r, FGT_NO_MEMORY);
	tick_ns = slice->tick_ns[moment->tick];
	/* To fetch them takes its time. */
	if (!question->is_past && now.mono_ns < tick_ns)
		now.mono_ns = tick_ns;
	fgt_range_write(&question->range, &now, tick_ns,
			fgt_slice_wall_ns(slice, tick_ns), at, sizeof(at));
	if (question->form == FGT_FORM_JSON) {
		r = fgt_moment_print_json(moment, at, stdout);
	} else {
		fgt_form_fence(question->form);
		fgt_moment_print(moment, at, stdout);
		fgt_form_fence(question->form);
		fgt_form_name_moment(question->form, tick_ns);
	}
	if (r == 0 && question->json)
		r = fgt_moment_print_json(moment, at, question->json);
	if (r < 0)
		return fgt_why_set(why, -EIO, "cannot write the answer");
	return 0;
}

/* The daemon knows for how long; where it does not sample the process, or there
 * is none, a process is looked at for a few ticks. */
static int get_slice(const struct fgt_arguments *arguments,
		     struct stacks_question *question,
		     struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	int r = fetch(arguments, question, ret_slice, why);

	if (r == 0 && !question->is_past)
		fgt_fetch_now(NAME, *ret_slice, &question->now);
	if (r == 0 || question->is_past || !question->pid ||
	    (r != -EHOSTDOWN && r != -ESRCH && r != -ENOENT && r != -EPERM &&
	     r != -EACCES))
		return r;
	fgt_now_read(&question->now);
	r = record(question, ret_slice, why);
	fgt_now_read(&question->now);
	return r;
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_json_to_free) struct fgt_json_to *json = NULL;
	bool is_file = arguments->operand_count > 0;
	struct stacks_question question = { .pid = 0 };
	struct fgt_why why = { "" };
	int r = 0;

	fgt_now_read(&question.now);
	if (is_file && fgt_fetch_refuse_target(arguments, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	if (is_file)
		r = load(arguments->operands[0], &question, &slice, &why);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_exit_of(r), &why);
	if (read_question(arguments, &question, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	if (!is_file)
		r = get_slice(arguments, &question, &slice, &why);
	if (r == 0)
		r = fgt_json_to_open(arguments, &json, &why);
	question.json = fgt_json_to_file(json);
	if (r == 0)
		r = print(&question, slice, &why);
	if (r == 0)
		r = fgt_json_to_commit(json, &why);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
	return (int)fgt_finish_stdout(NAME);
}

const struct fgt_verb fgt_verb_stacks = {
	.name = "stacks",
	.synopsis = "-p PID [--children] | -n NAME | --all | FILE.fgt [--at T] "
		    "[--tid TID | --thread PATTERN] [--state PATTERN] "
		    "[--function PATTERN] [--running] [--no-idle] "
		    "[-f text|md|json]",
	.summary = "every thread's stack, and what it waits for, now or then",
	.options = options,
	.operands_max = 1,
	.run = run,
	.help = "Equal stacks are shown once (× N). Locks have their name and "
		"the thread that holds\nthem; threads that wait for each other "
		"are listed as deadlocks, all of them. No thread is stopped.\n"
		"The daemon knows 10 s of how long a thread has been there "
		"(\"at least\": longer);\nof a time in the past only 1 s, if "
		"many threads changed in that.\nA process that it does not "
		"sample is recorded for 60 ms.\n\n" FGT_RANGE_TEXT
		"\nExamples:\n"
		"  fgtrace-agent stacks -p 1234\n"
		"  fgtrace-agent stacks -n redis-server --at -12s\n"
		"  fgtrace-agent stacks slow.fgt --at -2s --tid 1240\n",
};
