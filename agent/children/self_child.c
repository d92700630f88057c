/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes this program again as a child. Runs in the daemon's threads; must
 * not wait for a child that has not been killed, nor pass on a secret.
 */
#include "agent/children/self_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/children/child_ends.h"
#include "ringbuf/base/owner.h"

#define VARIABLES_MAX 20
#define END_MAX_MS    1000
#define LEFT_MAX      32

/* How to find libraries, how sanitizers report. The rest may hold secrets. */
static const char *const wanted[] = {
	"LD_LIBRARY_PATH=", "ASAN_OPTIONS=",  "LSAN_OPTIONS=",
	"TSAN_OPTIONS=",    "UBSAN_OPTIONS=", NULL,
};

static const char *const wanted_on_network[] = {
	"http_proxy=",	 "https_proxy=", "all_proxy=", "no_proxy=",
	"HTTPS_PROXY=",	 "ALL_PROXY=",	 "NO_PROXY=",  "SSL_CERT_FILE=",
	"SSL_CERT_DIR=", NULL,
};

static bool is_among(const char *entry, const char *const *names)
{
	while (*names && strncmp(entry, *names, strlen(*names)))
		names++;
	return *names != NULL;
}

static void choose_environment(bool is_on_network,
			       char *ret_chosen[VARIABLES_MAX])
{
	size_t count = 0;

	for (char **entry = environ; entry && *entry; entry++)
		if (count + 1 < VARIABLES_MAX &&
		    (is_among(*entry, wanted) ||
		     (is_on_network && is_among(*entry, wanted_on_network))))
			ret_chosen[count++] = *entry;
	ret_chosen[count] = NULL;
}

/*
 * Not fork: its child would hold a copy of all rings, and malloc may not be
 * called in the fork of a process that has threads.
 */
static int spawn(const struct fgt_self_child *child, int fd, pid_t *ret_pid)
{
	char *arguments[] = { (char *)(uintptr_t)child->name,
			      (char *)(uintptr_t)child->verb, NULL };
	posix_spawn_file_actions_t actions;
	char *environment[VARIABLES_MAX];
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	if (posix_spawn_file_actions_init(&actions))
		return -EAGAIN;
	if (posix_spawnattr_init(&attributes)) {
		posix_spawn_file_actions_destroy(&actions);
		return -EAGAIN;
	}
	choose_environment(child->is_on_network, environment);
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes,
				 POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	error = posix_spawn_file_actions_adddup2(&actions, fd,
						 FGT_SELF_CHILD_FD);
	if (!error)
		error = posix_spawn(
			ret_pid, child->path ? child->path : "/proc/self/exe",
			&actions, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error ? -EAGAIN : 0;
}

static int start(const struct fgt_self_child *child, int fd, int *ret_pid_fd)
{
	pid_t pid;
	int r = spawn(child, fd, &pid), pid_fd;

	if (r < 0)
		return r;
	/* The pid is the child's until waitpid(); afterwards only the pidfd is
	 * safe. */
	pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pid_fd < 0) { /* no descriptor is left */
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return -EAGAIN;
	}
	fgt_child_ends_begin(child, pid, pid_fd);
	*ret_pid_fd = pid_fd;
	return 0;
}

int fgt_self_child_start(const struct fgt_self_child *child, int *ret_fd,
			 int *ret_pid_fd)
{
	int pair[2], r;

	if (strcmp(program_invocation_name, child->name) == 0 ||
	    socketpair(AF_UNIX, child->socket_type | SOCK_CLOEXEC, 0, pair) < 0)
		return -EAGAIN;
	r = start(child, pair[1], ret_pid_fd);
	close(pair[1]);
	if (r < 0)
		close(pair[0]);
	else
		*ret_fd = pair[0];
	return r;
}

bool fgt_self_child_is_asked(int argc, char **argv, const char *name,
			     const char *verb)
{
	if (argc != 2 || strcmp(argv[0], name) != 0 ||
	    strcmp(argv[1], verb) != 0)
		return false;
	prctl(PR_SET_NAME, name);
	return true;
}

int32_t fgt_self_child_pid(int pid_fd)
{
	char path[32], text[512];
	const char *line;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pid_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	fgt_fd_close(fd);
	text[len > 0 ? len : 0] = 0;
	line = strstr(text, "\nPid:");
	len = line ? strtol(line + strlen("\nPid:"), NULL, 10) : 0;
	return len > 0 ? (int32_t)len : 0;
}

static int set_class(int32_t pid, int class, int priority)
{
	const struct sched_param param = { .sched_priority = priority };

	return sched_setscheduler(pid, class, &param) < 0 ? -errno : 0;
}

int fgt_self_child_raise(int32_t pid, int *ret_class)
{
	*ret_class = sched_getscheduler(pid);
	if (*ret_class < 0)
		return -errno;
	return set_class(pid, SCHED_FIFO | SCHED_RESET_ON_FORK, 1);
}

int fgt_self_child_lower(int32_t pid, int class)
{
	return set_class(pid, class, 0);
}

void fgt_self_child_lose(int fd, int pid_fd)
{
	struct pollfd entry = { .fd = fd };

	if (poll(&entry, 1, 0) == 1 && entry.revents & POLLHUP)
		fgt_child_ends_lose(pid_fd);
}

void fgt_self_child_kill(int pid_fd)
{
	if (pid_fd < 0)
		return;
	fgt_child_ends_expect(pid_fd);
	syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
}

bool fgt_self_child_reap(int pid_fd)
{
	siginfo_t info = { .si_pid = 0 };

	if (pid_fd >= 0 &&
	    waitid(P_PIDFD, (id_t)pid_fd, &info, WEXITED | WNOHANG) == 0 &&
	    info.si_pid == 0)
		return false;
	fgt_child_ends_note(pid_fd, &info);
	fgt_fd_close(pid_fd);
	return true;
}

/*
 * One that waits for a file system that does not answer never ends. It is
 * reaped when other children end; without room here, by the kernel when the
 * daemon ends.
 */
static void leave_behind(int pid_fd)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int left[LEFT_MAX]; /* + 1; 0: free */
	bool is_kept = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < LEFT_MAX; i++) {
		if (left[i] && fgt_self_child_reap(left[i] - 1))
			left[i] = 0;
		if (!left[i] && !is_kept) {
			left[i] = pid_fd + 1;
			is_kept = true;
		}
	}
	pthread_mutex_unlock(&lock);
	if (!is_kept)
		fgt_fd_close(pid_fd);
}

void fgt_self_child_end(int pid_fd)
{
	struct pollfd entry = { .fd = pid_fd, .events = POLLIN };
	int ready;

	if (pid_fd < 0)
		return;
	fgt_self_child_kill(pid_fd);
	do
		ready = poll(&entry, 1, END_MAX_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0 || !fgt_self_child_reap(pid_fd))
		leave_behind(pid_fd);
}
