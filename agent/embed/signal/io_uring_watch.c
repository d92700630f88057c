/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for io_uring's mappings among those of this process. Runs in the
 * sampler's thread; must not allocate, and must not take more than a small
 * share of CPU time however many mappings there are.
 */
#include "agent/embed/signal/io_uring_watch.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define CHUNK_BYTES 4096u
/* Of all time one part in so many may go into readings … */
#define SHARE 1000u
/* … and what it saved at most: where a program begins, threads and rings are
 * made at the same time. */
#define SAVED_NS      1000000000u
#define FOLLOW_SHARE  10u /* of the time since a thread was asked for */
#define FOLLOW_MAX_NS 1000000000u

static const char ring_name[] = "anon_inode:[io_uring]";

bool fgt_io_uring_is_in(int maps_fd)
{
	/* What a name that is cut leaves of itself is searched again. */
	char text[sizeof(ring_name) + CHUNK_BYTES];
	size_t kept = 0;

	for (;;) {
		ssize_t got = read(maps_fd, text + kept, CHUNK_BYTES);
		size_t len;

		if (got <= 0)
			return false;
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
		watch->has_ring = fgt_io_uring_is_in(fd);
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
