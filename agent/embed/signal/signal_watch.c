/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/self/maps and /proc/self/timers. Runs in the sampler's thread;
 * must not allocate, and must not take more than a small share of CPU time
 * however many mappings and timers there are.
 */
#include "agent/embed/signal/signal_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/owner.h"

#define CHUNK_BYTES 4096u
/* One part in so many of all time may go into readings … */
#define SHARE 1000u
/* … and what it saved at most: where a program begins, threads and rings are
 * made at the same time. */
#define SAVED_NS      1000000000u
#define FOLLOW_SHARE  10u /* of the time since a thread was asked for */
#define FOLLOW_MAX_NS 1000000000u

/* Timers are looked for that rarely: two short system calls and the begin of a
 * list each time. */
#define LIST_NS	   1000000000u
#define CALM_NS	   2000000000u /* one that fires once is set again */
#define TEXT_BYTES 4096
#define READS_MAX  16u /* some 700 timers */
#define OWN_A_READ 30u /* of this source, or fewer */

/* ---- io_uring ---------------------------------------------------------- */

static const char ring_name[] = "anon_inode:[io_uring]";

bool fgt_io_uring_is_in(int *maps_fd)
{
	/* What a name that is cut leaves of itself is searched again. */
	char text[sizeof(ring_name) + CHUNK_BYTES];
	size_t kept = 0;
	off_t offset = 0;

	for (;;) {
		ssize_t got =
			fgt_fd_pread(maps_fd, text + kept, CHUNK_BYTES, offset);
		size_t len;

		if (got <= 0)
			return false;
		offset += got;
		len = kept + (size_t)got;
		if (memmem(text, len, ring_name, sizeof(ring_name) - 1))
			return true;
		kept = len < sizeof(ring_name) ? len : sizeof(ring_name);
		memmove(text, text + len - kept, kept);
	}
}

static void read_maps(struct fgt_io_uring_watch *watch, uint64_t now_ns)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	uint64_t begun_ns = fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		watch->has_ring = fgt_io_uring_is_in(&fd);
	if (now_ns > SAVED_NS && watch->paid_ns < now_ns - SAVED_NS)
		watch->paid_ns = now_ns - SAVED_NS;
	watch->paid_ns +=
		(fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns) * SHARE;
	watch->read_ns = now_ns;
}

static bool may_read(const struct fgt_io_uring_watch *watch, uint64_t now_ns)
{
	return !watch->has_ring && watch->read_ns != now_ns &&
	       watch->paid_ns <= now_ns;
}

bool fgt_io_uring_watch_ask(struct fgt_io_uring_watch *watch, uint64_t now_ns)
{
	watch->asked_ns = now_ns;
	if (may_read(watch, now_ns))
		read_maps(watch, now_ns);
	return watch->has_ring;
}

bool fgt_io_uring_watch_follow(struct fgt_io_uring_watch *watch,
			       uint64_t now_ns)
{
	uint64_t pause_ns = (now_ns - watch->asked_ns) / FOLLOW_SHARE;

	if (pause_ns > FOLLOW_MAX_NS)
		pause_ns = FOLLOW_MAX_NS;
	if (now_ns - watch->read_ns >= pause_ns && may_read(watch, now_ns))
		read_maps(watch, now_ns);
	return watch->has_ring;
}

/* ---- Timers on CPU time ------------------------------------------------ */

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

/* The thread that it signals stands before its clock, which is negative if it
 * is one of CPU time. */
static bool is_of_process(const char *line, bool *is_signal)
{
	if (begins_with(line, "notify: "))
		*is_signal = begins_with(line, "notify: signal/pid.");
	return *is_signal && begins_with(line, "ClockID: -");
}

int fgt_cpu_timer_find(int *timers_fd, unsigned int own_timers)
{
	unsigned int reads_max = READS_MAX + own_timers / OWN_A_READ;
	char text[TEXT_BYTES];
	bool is_signal = false;
	size_t kept = 0;
	off_t offset = 0;

	for (unsigned int i = 0; i < reads_max; i++) {
		ssize_t len = fgt_fd_pread(timers_fd, text + kept,
					   sizeof(text) - kept, offset);
		char *line = text, *end = text + kept + len, *next;

		if (len <= 0)
			return len < 0 ? -errno : 0;
		offset += len;
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

	return fd < 0 ? -errno : fgt_cpu_timer_find(&fd, own_timers);
}

/* The last answer holds where the list cannot be read now. On a kernel that
 * does not list timers at all only those of setitimer(2) are seen. */
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
	if (watch->seen_ns && now_ns - watch->seen_ns < LIST_NS)
		return true;
	if (is_listed(watch, now_ns) || is_set(ITIMER_PROF) ||
	    is_set(ITIMER_VIRTUAL))
		watch->seen_ns = now_ns;
	return watch->seen_ns && now_ns - watch->seen_ns < CALM_NS;
}
