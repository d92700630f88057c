/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that waits before its exec. Runs in the command line's main
 * thread; between fork and exec only what is safe there. Must not kill the
 * command, whatever happens to the recording.
 */
#include "agent/cli/verbs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

#define STATUS_NOT_STARTED 127

/* In the child: waits for a byte, then becomes the command. */
static void become(char **command, int go_fd, int done_fd)
{
	char byte;
	int error;

	/* It is the recorder's: an fgtrace-agent that the command runs would
	 * write there, too. There is one thread. */
	unsetenv("FGTRACE_OUTPUT");
	if (fgt_fd_read(go_fd, &byte, 1) != 1)
		_exit(STATUS_NOT_STARTED);
	execvp(command[0], command);
	error = errno;
	(void)!write(done_fd, &error, sizeof(error));
	_exit(STATUS_NOT_STARTED);
}

static int make_pipe(int *ret_read, int *ret_write, struct fgt_why *why)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return fgt_why_set(why, -errno,
				   "cannot make a pipe: %m; close "
				   "descriptors or raise ulimit -n");
	*ret_read = ends[0];
	*ret_write = ends[1];
	return 0;
}

int fgt_child_new(char **command, struct fgt_child *ret_child,
		  struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int go_read = -1;
	FGT_AUTO(fgt_fd_close) int go_write = -1;
	FGT_AUTO(fgt_fd_close) int done_read = -1;
	FGT_AUTO(fgt_fd_close) int done_write = -1;
	pid_t pid;
	int r;

	r = make_pipe(&go_read, &go_write, why);
	if (r == 0)
		r = make_pipe(&done_read, &done_write, why);
	if (r < 0)
		return r;
	pid = fork();
	if (pid < 0)
		return fgt_why_set(
			why, -errno,
			"cannot start a process: %m; raise ulimit -u "
			"or free memory");
	if (pid == 0) {
		close(go_write);
		become(command, go_read, done_write);
	}
	*ret_child = (struct fgt_child){ .pid = pid,
					 .go_fd = FGT_TAKE_FD(go_write),
					 .done_fd = FGT_TAKE_FD(done_read) };
	return 0;
}

int fgt_child_exec(struct fgt_child *child, const char *name,
		   struct fgt_why *why)
{
	int error = 0;

	(void)!write(child->go_fd, "x", 1);
	if (fgt_fd_read(child->done_fd, &error, sizeof(error)) !=
	    (ssize_t)sizeof(error))
		return 0;
	(void)fgt_child_wait(child);
	return fgt_why_set(
		why, -error,
		"cannot run '%s': %s; check its path and permissions", name,
		strerrordesc_np(error));
}

/* The sampler of this process may hold the command by ptrace: waitpid() then
 * also returns its stops, which are no end. */
static bool is_end(int wait_status)
{
	return WIFEXITED(wait_status) || WIFSIGNALED(wait_status);
}

static bool reap(struct fgt_child *child, int flags)
{
	int wait_status = 0;
	pid_t pid;

	if (child->is_reaped || child->pid == 0)
		return true;
	do
		pid = waitpid(child->pid, &wait_status, flags);
	while ((pid < 0 && errno == EINTR) ||
	       (pid > 0 && !is_end(wait_status)));
	/* ECHILD: SIGCHLD is ignored here, so the kernel reaped it. */
	child->is_reaped = pid != 0;
	if (pid > 0)
		child->wait_status = wait_status;
	return child->is_reaped;
}

bool fgt_child_has_ended(struct fgt_child *child)
{
	return reap(child, WNOHANG);
}

int fgt_child_wait(struct fgt_child *child)
{
	reap(child, 0);
	if (WIFSIGNALED(child->wait_status))
		return 128 + WTERMSIG(child->wait_status);
	return WEXITSTATUS(child->wait_status);
}

void fgt_child_done(struct fgt_child *child)
{
	if (child->pid == 0)
		return;
	fgt_fd_close(FGT_TAKE_FD(child->go_fd));
	fgt_fd_close(FGT_TAKE_FD(child->done_fd));
	(void)fgt_child_has_ended(child);
	child->pid = 0;
}
