/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a verb as a child. Its standard input is empty, and of this process's
 * descriptors it gets the ends of two pipes: standard output belongs to the
 * protocol.
 */
#include "agent/cli/mcp/run_verb.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define SELF		   "/proc/self/exe"
#define JSON_FD		   3 /* FGT_MCP_JSON_PATH */
#define PART_BYTES	   16384
#define OUTPUT_MAX	   ((size_t)1 << 20)
#define DEADLINE_S	   30
#define STATUS_NOT_STARTED 127
#define SETTINGS	   "FGTRACE_"
#define STATUS_OF(s)	   (WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s))

extern char **environ;

struct verb_child {
	pid_t pid;
	int pid_fd, text_fd, json_fd; /* -1: closed */
};

/* ---- Start --------------------------------------------------------------- */

/* Without the defaults of flags: FGTRACE_OUTPUT would make slice write a file,
 * FGTRACE_UPLOAD send one. */
static char **copy_environment(void)
{
	size_t count = 0, kept = 0;
	char **copy;

	while (environ[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++) {
		if (strncmp(environ[i], SETTINGS, strlen(SETTINGS)) != 0)
			copy[kept++] = environ[i];
	}
	return copy;
}

/* In the child. It must not outlive this process: a verb may wait for a time
 * that is to come. */
static _Noreturn void become(char *const words[], char **environment,
			     int text_fd, int json_fd, pid_t parent)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* The pipe's ends are above JSON_FD: those for reading are lower. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
	    dup2(null_fd, STDIN_FILENO) >= 0 &&
	    dup2(text_fd, STDOUT_FILENO) >= 0 &&
	    dup2(text_fd, STDERR_FILENO) >= 0 && dup2(json_fd, JSON_FD) >= 0)
		execve(SELF, words, environment);
	_exit(STATUS_NOT_STARTED);
}

static int spawn(char *const words[], int text_fd, int json_fd, pid_t *ret_pid)
{
	FGT_AUTO(free) void *environment = copy_environment();
	pid_t parent = getpid(), pid;

	if (!environment)
		return -ENOMEM;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(words, environment, text_fd, json_fd, parent);
	*ret_pid = pid;
	return 0;
}

static int make_pipe(int *ret_read, int *ret_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ret_read = ends[0];
	*ret_write = ends[1];
	return fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int start(char *const words[], struct verb_child *child)
{
	FGT_AUTO(fgt_fd_close) int text_fd = -1;
	FGT_AUTO(fgt_fd_close) int json_fd = -1;
	int r = make_pipe(&child->text_fd, &text_fd);

	if (r == 0)
		r = make_pipe(&child->json_fd, &json_fd);
	if (r == 0)
		r = spawn(words, text_fd, json_fd, &child->pid);
	if (r < 0)
		return r;
	child->pid_fd = pidfd_open(child->pid, 0);
	return child->pid_fd < 0 ? -errno : 0;
}

/* Also of a child that was not started. Returns its status. */
static int end(struct verb_child *child, bool is_killed)
{
	int status = 0;

	if (child->pid > 0 && is_killed)
		kill(child->pid, SIGKILL);
	while (child->pid > 0 && waitpid(child->pid, &status, 0) < 0 &&
	       errno == EINTR)
		;
	fgt_fd_close(child->pid_fd);
	fgt_fd_close(child->text_fd);
	fgt_fd_close(child->json_fd);
	return STATUS_OF(status);
}

/* ---- Its output ---------------------------------------------------------- */

/* What there is now. */
static int drain(int *fd, struct fgt_memory_sink *sink)
{
	uint8_t bytes[PART_BYTES];
	int r = 0;

	while (r == 0 && *fd >= 0) {
		ssize_t n = read(*fd, bytes, sizeof(bytes));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (n == 0)
			fgt_fd_close(FGT_TAKE_FD(*fd));
		else
			r = fgt_sink_write(&sink->sink, bytes, (size_t)n);
	}
	return r;
}

/* Until it has ended. */
static int collect(struct verb_child *child, struct fgt_mcp_stop *stop,
		   struct fgt_mcp_output *output)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	uint64_t end_ns = now_ns + DEADLINE_S * UINT64_C(1000000000);
	bool has_ended = false;
	int r = 0;

	while (r == 0 && !has_ended) {
		struct pollfd polled[] = {
			{ .fd = child->pid_fd, .events = POLLIN },
			{ .fd = child->text_fd, .events = POLLIN },
			{ .fd = child->json_fd, .events = POLLIN },
			{ .fd = stop->fd, .events = POLLIN },
		};

		now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
		if (now_ns >= end_ns)
			return -ETIMEDOUT;
		if (poll(polled, 4, (int)((end_ns - now_ns) / 1000000) + 1) <
			    0 &&
		    errno != EINTR)
			return -errno;
		/* Read after that look: all is there when it has ended. */
		has_ended = polled[0].revents != 0;
		r = drain(&child->text_fd, &output->text);
		if (r == 0)
			r = drain(&child->json_fd, &output->json);
		if (polled[3].revents &&
		    stop->is_asked(stop->context, &stop->fd))
			return -ECANCELED;
	}
	return r;
}

static int explain(int error, const struct fgt_mcp_output *output,
		   struct fgt_why *why)
{
	switch (error) {
	case 0:
		if (!output->status || output->text.len_bytes)
			return 0;
		return fgt_why_set(why, -EREMOTEIO,
				   "the verb ended with status %d, without a "
				   "message: run it in a shell",
				   output->status);
	case -ETIMEDOUT:
		return fgt_why_set(why, error,
				   "no answer within %d s: ask for a shorter "
				   "time, one that is over",
				   DEADLINE_S);
	case -EMSGSIZE:
		return fgt_why_set(
			why, error,
			"the answer has more than 1 MiB: ask for one "
			"thread (tid), fewer rows, or a shorter "
			"time");
	case -ECANCELED:
		return error;
	case -ENOMEM:
		return fgt_why_set(why, error, FGT_NO_MEMORY);
	default:
		return fgt_why_set(why, error,
				   "cannot run a verb: %s; raise ulimit -u or "
				   "-n, or free memory",
				   strerrordesc_np(-error));
	}
}

int fgt_mcp_run_verb(char *const words[], struct fgt_mcp_stop stop,
		     struct fgt_mcp_output *ret_output, struct fgt_why *why)
{
	struct verb_child child = { 0, -1, -1, -1 };
	int r;

	fgt_memory_sink_init(&ret_output->text, OUTPUT_MAX);
	fgt_memory_sink_init(&ret_output->json, OUTPUT_MAX);
	r = start(words, &child);
	if (r == 0)
		r = collect(&child, &stop, ret_output);
	ret_output->status = end(&child, r < 0);
	return explain(r, ret_output, why);
}

void fgt_mcp_output_done(struct fgt_mcp_output *output)
{
	fgt_memory_sink_done(&output->text);
	fgt_memory_sink_done(&output->json);
}
