/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent record: samples a process or a command without a daemon, then
 * writes the slice. The first ^C ends the recording and writes it. Must never
 * kill the command.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "agent/capture/who_ran/switches.h"
#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "agent/cli/range/time_spec.h"
#include "agent/cli/summary/summary.h"
#include "agent/cli/verbs/child.h"
#include "agent/cli/verbs/recorder.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/config/config_schema.h"
#include "ringbuf/base/memory_limit.h"
#include "ringbuf/slice/wall_clock.h"

#define SECOND_NS	     1000000000ull
#define RING_SECONDS	     30u
#define RING_SECONDS_AT_MOST 3600u
#define LOOK_EVERY_MS	     100
#define FOLLOW_NS	     SECOND_NS
#define HZ_MAX		     1000
#define CLEAR_LINE	     "\r\033[K"
#define SIGNALS_COUNT	     4
#define NAME		     fgt_verb_record.name

static const struct fgt_option options[] = {
	{ "pid", 'p', "PID", "record this process", "name " },
	{ "name", 'n', "NAME", "the processes of that name", "pid " },
	{ "children", 0, NULL, "and the processes below, also later ones",
	  NULL },
	{ "duration", 'd', "SECS",
	  "end after so long (5, 1500ms, 2m); default: ^C or its end", NULL },
	{ "rate", 'r', "HZ", "ticks a second, 1 to 1000 (default: 101)", NULL },
	{ "max-cpu", 0, "PERCENT",
	  "of a core, for sampling; else at a lower rate (default: 2)", NULL },
	FGT_FILTER_OPTIONS,
	FGT_EXPORT_OPTIONS,
	{ "config", 'c', "FILE", "configuration (rate, memory, symbols)",
	  NULL },
	{ .name = NULL },
};

/* Signals that end a recording, and the command's end. */
static const int wanted_signals[SIGNALS_COUNT] = { SIGINT, SIGTERM, SIGHUP,
						   SIGCHLD };

struct recording {
	struct fgt_child child;
	int signal_fd;
	struct sigaction actions_before[SIGNALS_COUNT];
	sigset_t mask_before;
	struct fgt_recorder *recorder;
	struct fgt_sampler_options options;
	struct fgt_processes processes;
	uint64_t duration_ns; /* 0: until a signal or the end */
	uint64_t from_ns, to_ns;
	bool is_progress_wanted, is_following;
	uint64_t next_look_ns; /* for processes below */
};

static uint64_t now_ns(void)
{
	struct fgt_now now;

	fgt_now_read(&now);
	return now.mono_ns;
}

static int read_max_cpu(const struct fgt_arguments *arguments,
			struct fgt_config *config, struct fgt_why *why)
{
	const char *text = fgt_options_get(arguments, "max-cpu");

	if (!text)
		return 0;
	return fgt_config_set_text(
		fgt_config_key_find(fgt_config_keys,
				    "sampling.max_cpu_percent"),
		config, text, "--max-cpu", why);
}

/* Of each process. The memory group may have less than the configuration
 * wants. */
static size_t ring_bytes(const struct fgt_config *config, uint32_t processes)
{
	uint64_t wanted = (uint64_t)config->ring.memory_mb << 20;
	uint64_t share = fgt_memory_limit() / 2 / processes;

	return wanted < share ? wanted : share;
}

static int choose_processes(const struct fgt_arguments *arguments,
			    struct fgt_processes *ret_processes,
			    struct fgt_why *why)
{
	const char *name = fgt_options_get(arguments, "name");
	bool with_children = fgt_options_has(arguments, "children");
	int64_t pid;
	int r = fgt_options_get_number(arguments, "pid", 1, INT32_MAX, 0, &pid,
				       why);

	if (r < 0)
		return r;
	if ((pid || name) == !!arguments->command)
		return fgt_why_set(
			why, -EINVAL,
			"%s; write record -p PID, record -n NAME or record -- "
			"CMD",
			arguments->command
				? "a process and a command exclude each other"
				: "neither a process nor a command given");
	/* That of a command is known later. */
	*ret_processes =
		(struct fgt_processes){ .pids = { (int32_t)pid }, .count = 1 };
	if (name)
		r = fgt_processes_named(name, ret_processes, why);
	if (r == 0 && with_children && !arguments->command)
		r = fgt_processes_add_below(ret_processes, why);
	return r > 0 ? fgt_why_set(why, -E2BIG,
				   "more than %u processes; choose fewer",
				   FGT_PROCESSES_MAX)
		     : r;
}

static int read_flags(const struct fgt_arguments *arguments,
		      const struct fgt_config *config,
		      struct recording *recording, struct fgt_why *why)
{
	const char *duration = fgt_options_get(arguments, "duration");
	uint64_t seconds = RING_SECONDS_AT_MOST;
	int64_t hz;
	int r = fgt_options_get_number(arguments, "rate", 1, HZ_MAX,
				       config->sampling.hz, &hz, why);

	if (r == 0 && duration)
		r = fgt_duration_parse(duration, &recording->duration_ns, why);
	if (r < 0)
		return r;
	r = choose_processes(arguments, &recording->processes, why);
	if (r < 0)
		return r;
	recording->is_following = fgt_options_has(arguments, "children");
	if (recording->duration_ns)
		seconds = (recording->duration_ns + SECOND_NS - 1) / SECOND_NS +
			  1;
	if (seconds > RING_SECONDS_AT_MOST)
		return fgt_why_set(why, -EINVAL,
				   "-d %s is more than an hour, the most that "
				   "can be kept; record in parts",
				   duration);
	recording->options = (struct fgt_sampler_options){
		.hz = (unsigned int)hz,
		.ring = { .seconds = seconds < RING_SECONDS
					     ? RING_SECONDS
					     : (unsigned int)seconds,
			  .size_bytes = ring_bytes(
				  config, recording->processes.count +
						  recording->is_following) },
		.max_depth = (unsigned int)config->sampling.max_depth,
		.provider = config->sampling.provider,
		.switches = FGT_SWITCHES_BUILT_IN,
		.max_cpu_percent = config->sampling.max_cpu_percent,
	};
	return 0;
}

/*
 * Blocks the signals and opens a descriptor for them, those included that were
 * ignored: a script's background job inherits SIGINT so, and its recording
 * could not be ended. No handler is installed, so no code of this program is
 * interrupted. Call before threads are started and after a command was forked:
 * it keeps what was ignored. errno of signalfd.
 */
static int take_signals(struct recording *recording)
{
	const struct sigaction by_default = { .sa_handler = SIG_DFL };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < SIGNALS_COUNT; i++)
		sigaddset(&set, wanted_signals[i]);
	recording->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (recording->signal_fd < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &set, &recording->mask_before);
	/* Blocked first: one that comes now waits for the descriptor. */
	for (size_t i = 0; i < SIGNALS_COUNT; i++)
		(void)sigaction(wanted_signals[i], &by_default,
				&recording->actions_before[i]);
	return 0;
}

/* Signals act as before: the next ^C ends the program, a hang-up does not. */
static void return_signals(struct recording *recording)
{
	const struct sigaction ignored = { .sa_handler = SIG_IGN };

	fgt_fd_close(FGT_TAKE_FD(recording->signal_fd));
	for (size_t i = 0; i < SIGNALS_COUNT; i++)
		/* The terminal and the shell each send a SIGHUP. */
		(void)sigaction(wanted_signals[i],
				wanted_signals[i] == SIGHUP
					? &ignored
					: &recording->actions_before[i],
				NULL);
	sigprocmask(SIG_SETMASK, &recording->mask_before, NULL);
}

/* Sampling has begun before the command's first instruction. */
static int start(const struct fgt_arguments *arguments,
		 struct recording *recording, struct fgt_why *why)
{
	char **command = arguments->command;
	int r = command ? fgt_child_new(command, &recording->child, why) : 0;

	if (r < 0)
		return r;
	if (command)
		recording->processes.pids[0] = recording->child.pid;
	r = take_signals(recording);
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot wait for signals: %s; close "
				   "descriptors or raise ulimit -n",
				   fgt_error_text(r));
	r = fgt_recorder_new(&recording->options, &recording->processes,
			     &recording->recorder, why);
	if (r == 0 && command)
		r = fgt_child_exec(&recording->child, command[0], why);
	recording->from_ns = now_ns();
	return r;
}

/* True if the recording is to end now. */
static bool handle_signals(struct recording *recording)
{
	struct signalfd_siginfo info;
	bool is_over = false;

	while (read(recording->signal_fd, &info, sizeof(info)) ==
	       (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		is_over = true;
		/* The terminal sends to the whole foreground group: the
		 * command got the signal, too. */
		if (info.ssi_code != SI_KERNEL && recording->child.pid &&
		    !fgt_child_has_ended(&recording->child))
			(void)kill(recording->child.pid, (int)info.ssi_signo);
	}
	return is_over ||
	       (recording->child.pid && fgt_child_has_ended(&recording->child));
}

static int next_wait_ms(const struct recording *recording, uint64_t now)
{
	uint64_t end_ns = recording->from_ns + recording->duration_ns;

	if (!recording->duration_ns ||
	    end_ns > now + LOOK_EVERY_MS * 1000000ull)
		return LOOK_EVERY_MS;
	return end_ns > now ? (int)((end_ns - now) / 1000000) + 1 : 0;
}

/* Over the line that was there; a name in it must not move the cursor. */
static void print_progress(const struct fgt_target_status *status,
			   double elapsed_s)
{
	fprintf(stderr, CLEAR_LINE "recording %u thread%s of ", status->threads,
		status->threads == 1 ? "" : "s");
	fgt_print_text(stderr, status->name, 24);
	fprintf(stderr, " (%d): %.1f s, ", status->pid, elapsed_s);
	if (status->unwind.stacks)
		fprintf(stderr, "%.0f %% complete stacks",
			fgt_percent(status->unwind.complete,
				    status->unwind.stacks));
	else
		fputs("no stacks yet", stderr);
	fputs("  ^C to stop", stderr);
	fflush(stderr);
}

static void record(struct recording *recording)
{
	struct fgt_target_status status;
	bool is_over = false;

	while (!is_over) {
		struct pollfd ready = { .fd = recording->signal_fd,
					.events = POLLIN };
		uint64_t now = now_ns();

		(void)poll(&ready, 1, next_wait_ms(recording, now));
		now = now_ns();
		is_over = handle_signals(recording);
		if (recording->is_following && now >= recording->next_look_ns) {
			fgt_recorder_follow(recording->recorder);
			recording->next_look_ns = now + FOLLOW_NS;
		}
		fgt_recorder_get_status(recording->recorder, &status);
		if (!status.is_alive ||
		    (recording->duration_ns &&
		     now - recording->from_ns >= recording->duration_ns))
			is_over = true;
		if (recording->is_progress_wanted)
			print_progress(&status,
				       (double)(now - recording->from_ns) /
					       1e9);
	}
	recording->to_ns = now_ns();
	if (recording->is_progress_wanted)
		fputs(CLEAR_LINE, stderr);
}

static enum fgt_exit write_slice(struct recording *recording,
				 const struct fgt_config *config,
				 const struct fgt_export *plan)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_why why = { "" };
	uint64_t from_ns = recording->from_ns;
	int r;

	if (recording->child.pid)
		from_ns = fgt_recorder_since_exec(recording->recorder, from_ns);
	if (from_ns > recording->to_ns)
		from_ns = recording->to_ns;
	r = fgt_recorder_finish(recording->recorder, from_ns, recording->to_ns,
				config, &slice, &why);
	if (!plan->is_quiet || recording->is_following)
		fgt_recorder_note_missing(recording->recorder);
	if (r < 0)
		return fgt_complain(NAME, fgt_exit_of(r), "%s", why.text);
	return fgt_export_run(plan, slice);
}

/* Once sampling has begun, all that can fail is to execute the command. */
static enum fgt_exit exit_of_start(const struct fgt_arguments *arguments,
				   const struct recording *recording, int error)
{
	if (!arguments->command || !recording->recorder)
		return fgt_exit_of(error);
	return error == -ENOENT ? FGT_EXIT_NOT_FOUND : FGT_EXIT_NOT_EXECUTED;
}

static enum fgt_exit record_and_write(const struct fgt_arguments *arguments,
				      const struct fgt_config *config,
				      const struct fgt_export *plan,
				      struct recording *recording)
{
	struct fgt_why why = { "" };
	int r = start(arguments, recording, &why);

	if (r < 0)
		return fgt_complain_why(
			NAME, exit_of_start(arguments, recording, r), &why);
	if (!plan->is_quiet && recording->duration_ns &&
	    recording->options.ring.seconds > RING_SECONDS)
		fprintf(stderr,
			"keeping the last %u s, at most %zu MiB of them "
			"(ring.memory_mb)\n",
			recording->options.ring.seconds,
			recording->options.ring.size_bytes >> 20);
	record(recording);
	/* From here on a ^C ends this process. */
	return_signals(recording);
	return write_slice(recording, config, plan);
}

static int pass_on(struct recording *recording, enum fgt_exit status,
		   bool is_quiet)
{
	int command_status;

	if (recording->child.pid == 0)
		return (int)status;
	if (!is_quiet && !fgt_child_has_ended(&recording->child))
		fputs("the command still runs; waiting for its end\n", stderr);
	command_status = fgt_child_wait(&recording->child);
	if (command_status)
		return command_status;
	/* The command worked; that it was too short was reported. */
	return status == FGT_EXIT_NO_DATA ? FGT_EXIT_OK : (int)status;
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	struct recording recording = { .signal_fd = -1 };
	FGT_AUTO(fgt_export_done) struct fgt_export plan = { .verb = NAME };
	struct fgt_why why = { "" };
	enum fgt_exit status;
	int result;

	if (fgt_config_load(fgt_options_get(arguments, "config"), &config,
			    &why) < 0 ||
	    read_max_cpu(arguments, config, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	result = read_flags(arguments, config, &recording, &why);
	if (result < 0)
		return fgt_complain(NAME,
				    result == -ESRCH || result == -E2BIG
					    ? FGT_EXIT_FAILURE
					    : FGT_EXIT_USAGE,
				    "%s", why.text);
	if (fgt_export_plan(arguments, config, &plan, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	status = fgt_export_check(&plan);
	if (status != FGT_EXIT_OK)
		return (int)status;
	/* In the background writing to the terminal would stop this job. */
	recording.is_progress_wanted = !plan.is_quiet &&
				       isatty(STDERR_FILENO) &&
				       tcgetpgrp(STDERR_FILENO) == getpgrp();
	status = record_and_write(arguments, config, &plan, &recording);
	/* A command that was not executed exits by fgt_child_done(). */
	result = recording.from_ns && recording.to_ns
			 ? pass_on(&recording, status, plan.is_quiet)
			 : (int)status;
	fgt_child_done(&recording.child);
	fgt_recorder_free(recording.recorder);
	return result;
}

const struct fgt_verb fgt_verb_record = {
	.name = "record",
	.synopsis = "[-d SECS] [-r HZ] [--max-cpu PERCENT] [-f FORMAT] "
		    "[-o FILE] "
		    "[--children] (-p PID | -n NAME | -- CMD [ARG...])",
	.summary = "sample a process or a command without a daemon",
	.options = options,
	.has_command = 1,
	.run = run,
	.help = "Records until -d is over, the process ends, or SIGINT (^C), "
		"SIGTERM or SIGHUP. CMD\nis sampled from its first "
		"instruction on, keeps its standard input and output, and\n"
		"its exit status is returned (128 + the signal's number if "
		"one ended it, 127 if it\nwas not found, 126 if it could not "
		"be executed), also when it was too short to be\nsampled; "
		"if it is 0 but the file could not be written, the exit\n"
		"status is 1, or 4 if that was not permitted. With "
		"--children\nprocesses below are looked for once a second, 256 "
		"at most."
		"\n\n" FGT_EXPORT_TEXT "\nExamples:\n"
		"  fgtrace-agent record -d 10 -o out.trace.json -p 1234\n"
		"  fgtrace-agent record -o out.folded -- gzip -k big.log\n"
		"  fgtrace-agent record -r 499 --top 10 -- ./benchmark\n",
};
