/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for the timers of the process. Runs in the sampler's thread: two short
 * system calls each time, and the begin of a list once a second.
 */
#include "agent/embed/signal/cpu_timer_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

#define LIST_NS	   1000000000u
#define CALM_NS	   2000000000u /* one that fires once is set again */
#define TEXT_BYTES 4096
#define READS_MAX  16u /* some 700 timers */
#define OWN_A_READ 30u /* of this source, or fewer */

static bool is_set(int which)
{
	struct itimerval timer;

	return getitimer(which, &timer) == 0 &&
	       (timer.it_value.tv_sec || timer.it_value.tv_usec);
}

static bool begins_with(const char *line, const char *begin)
{
	return strncmp(line, begin, strlen(begin)) == 0;
}

/* The thread that it signals stands before its clock, which is negative if it is one of
 * CPU time. */
static bool is_of_process(const char *line, bool *is_signal)
{
	if (begins_with(line, "notify: "))
		*is_signal = begins_with(line, "notify: signal/pid.");
	return *is_signal && begins_with(line, "ClockID: -");
}

int fgt_cpu_timer_find(int timers_fd, unsigned int own_timers)
{
	unsigned int reads_max = READS_MAX + own_timers / OWN_A_READ;
	char text[TEXT_BYTES];
	bool is_signal = false;
	size_t kept = 0;

	for (unsigned int i = 0; i < reads_max; i++) {
		ssize_t len = read(timers_fd, text + kept, sizeof(text) - kept);
		char *line = text, *end = text + kept + len, *next;

		if (len <= 0)
			return len < 0 ? -errno : 0;
		while ((next = memchr(line, '\n', (size_t)(end - line)))) {
			*next = '\0';
			if (is_of_process(line, &is_signal))
				return 1;
			line = next + 1;
		}
		kept = (size_t)(end - line);
		memmove(text, line, kept);
	}
	return -E2BIG;
}

static int find_listed(unsigned int own_timers)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fgt_cpu_timer_find(fd, own_timers);
}

/* As far as it is known: what cannot be read now is as it was. A kernel that
 * does not list timers at all leaves it at those of setitimer(2). */
static bool is_listed(struct fgt_cpu_timer_watch *watch, uint64_t now_ns)
{
	int found;

	if (watch->listed_ns && now_ns - watch->listed_ns < LIST_NS)
		return false; /* what was seen then is remembered */
	watch->listed_ns = now_ns;
	found = find_listed(watch->own_timers);
	if (found >= 0 || found == -ENOENT || found == -E2BIG)
		watch->is_listed = found == 1 || found == -E2BIG;
	return watch->is_listed;
}

bool fgt_cpu_timer_watch_ask(struct fgt_cpu_timer_watch *watch, uint64_t now_ns)
{
	if (is_listed(watch, now_ns) || is_set(ITIMER_PROF) ||
	    is_set(ITIMER_VIRTUAL))
		watch->seen_ns = now_ns;
	return watch->seen_ns && now_ns - watch->seen_ns < CALM_NS;
}

bool fgt_cpu_timer_watch_follow(struct fgt_cpu_timer_watch *watch,
				uint64_t now_ns)
{
	if (watch->seen_ns && now_ns - watch->seen_ns < LIST_NS)
		return true;
	return fgt_cpu_timer_watch_ask(watch, now_ns);
}
