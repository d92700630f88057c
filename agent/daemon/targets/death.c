/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns what signal ended a process. Runs in the daemon's loop, and for targets
 * in the thread of jobs; must not wait for the process, and for its parent only
 * as long as the kernel takes to give up a process that is waited for: at most
 * 20 ms, and only once where the kernel never reports the end.
 *
 * Only a parent may wait for a process, and the daemon is none. Three ways are
 * left:
 * 1. PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15): the exit status once
 *    the parent has waited, for as long as a pidfd is open, so never too late.
 *    Before that it answers without the bit.
 * 2. Before that there is a zombie, whose /proc/PID/stat ends in the exit
 *    status (field 52), for root and the process's own user.
 * 3. Neither: an older kernel, and the parent was quicker. The cause is lost.
 * A process that calls exec lives on; one that ends by exit(3) or _exit(2) has
 * a status without a signal. Neither is a crash; nor is an end that was
 * requested.
 */
#include "agent/daemon/targets/death.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/threads/process.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/clock.h"

#define STAT_MAX	1024
#define EXIT_CODE_FIELD 52
#define REAP_NS		20000000 /* while other processes want its CPU */
#define REAP_PAUSE_NS	100000

/* linux/pidfd.h of 6.15; older headers do not have it. */
struct pidfd_info {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};
#define PIDFD_INFO_EXIT_BIT UINT64_C(8)
#define PIDFD_GET_INFO_CALL _IOWR(0xFF, 11, struct pidfd_info)

/* The kernel has reported the end of a process that was waited for; it has not
 * done so when it should have. Any thread; hints only. */
static atomic_bool has_reported, is_silent;

static void judge(int status, struct fgt_death *ret_death)
{
	*ret_death = WIFSIGNALED(status)
			     ? (struct fgt_death){ FGT_DEATH_SIGNAL,
						   WTERMSIG(status) }
			     : (struct fgt_death){ FGT_DEATH_EXIT, 0 };
}

/* -EAGAIN: its parent has not waited yet, or does so at this moment. */
static int ask_pidfd(int pidfd, struct fgt_death *ret_death)
{
	struct pidfd_info info = { .mask = PIDFD_INFO_EXIT_BIT };

	if (ioctl(pidfd, PIDFD_GET_INFO_CALL, &info) < 0)
		return errno == ESRCH ? -EAGAIN : -errno;
	if (!(info.mask & PIDFD_INFO_EXIT_BIT))
		return -EAGAIN;
	judge(info.exit_code, ret_death);
	atomic_store_explicit(&has_reported, true, memory_order_relaxed);
	return 0;
}

/* Field 52, counted behind the name, which may hold anything. */
static bool find_exit_code(const char *text, int *ret_status)
{
	const char *at = strrchr(text, ')');

	for (int field = 2; at && field < EXIT_CODE_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, "%d", ret_status) == 1;
}

static bool ask_zombie(int32_t pid, uint64_t start_time,
		       struct fgt_death *ret_death)
{
	char path[32], text[STAT_MAX];
	struct fgt_stat stat;
	int len, status;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (fgt_procfs_begin(pid) < 0)
		return false;
	len = fgt_procfs_read(AT_FDCWD, path, text, sizeof(text));
	if (len <= 0 || fgt_stat_parse(text, (size_t)len, &stat) < 0 ||
	    stat.start_time != start_time || stat.state != 'Z' ||
	    !find_exit_code(text, &status))
		return false;
	judge(status, ret_death);
	return true;
}

/* -EAGAIN: as ask_pidfd(). */
static int ask(int pidfd, int32_t pid, uint64_t start_time,
	       struct fgt_death *ret_death)
{
	int r = ask_pidfd(pidfd, ret_death);

	return r < 0 && ask_zombie(pid, start_time, ret_death) ? 0 : r;
}

void fgt_death_look(int pidfd, int32_t pid, uint64_t start_time,
		    struct fgt_death *ret_death)
{
	struct pollfd poll_fd = { .fd = pidfd, .events = POLLIN };
	const struct timespec pause = { .tv_nsec = REAP_PAUSE_NS };
	uint64_t until_ns;
	int r;

	*ret_death = (struct fgt_death){ FGT_DEATH_NOT_YET, 0 };
	if (poll(&poll_fd, 1, 0) != 1)
		return;
	until_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	if (atomic_load_explicit(&has_reported, memory_order_relaxed) ||
	    !atomic_load_explicit(&is_silent, memory_order_relaxed))
		until_ns += REAP_NS;
	r = ask(pidfd, pid, start_time, ret_death);
	/* While its parent waits for it, it is a zombie no more, and the pidfd
	 * has no status yet: ask again until it has. */
	while (r == -EAGAIN && fgt_clock_ns(CLOCK_MONOTONIC) < until_ns) {
		nanosleep(&pause, NULL);
		r = ask(pidfd, pid, start_time, ret_death);
	}
	if (r == -EAGAIN)
		atomic_store_explicit(&is_silent, true, memory_order_relaxed);
	if (r < 0)
		ret_death->kind = FGT_DEATH_UNKNOWN;
}

bool fgt_death_is_asked_for(const struct fgt_death *death)
{
	return death->kind == FGT_DEATH_SIGNAL &&
	       (death->signal == SIGTERM || death->signal == SIGINT ||
		death->signal == SIGHUP);
}

void fgt_death_name(const struct fgt_death *death, char *ret_text, size_t len)
{
	const char *name;

	if (death->kind != FGT_DEATH_SIGNAL) {
		snprintf(ret_text, len, "unknown");
		return;
	}
	name = sigabbrev_np(death->signal);
	if (name)
		snprintf(ret_text, len, "SIG%s", name);
	else if (death->signal >= SIGRTMIN && death->signal <= SIGRTMAX)
		snprintf(ret_text, len, "SIGRTMIN+%d",
			 death->signal - SIGRTMIN);
	else
		snprintf(ret_text, len, "signal %d", death->signal);
}
