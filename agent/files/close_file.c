/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes files of targets, and asks for what is known of them. Runs in any
 * thread; must not wait for a file system: that is done by threads that may be
 * lost. Any close(2) of a file asks its file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "agent/files/reader.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define CLOSING_MAX 64u /* at a time; others stay open until the end */
#define SLOW_NS	    UINT64_C(200000000)

struct closing_file {
	atomic_bool is_busy;
	int fd;
	uint32_t uid;
	uint64_t since_ns;
};

/* Protects the choice of a free one. Nests inside the lock of the readers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct closing_file closings[CLOSING_MAX];

static bool is_busy(struct closing_file *closing)
{
	/* Acquire: pairs with the release of close_one(). */
	return atomic_load_explicit(&closing->is_busy, memory_order_acquire);
}

static void *close_one(void *context)
{
	struct closing_file *closing = context;

	close(closing->fd);
	/* Release: its fields may be written again. */
	atomic_store_explicit(&closing->is_busy, false, memory_order_release);
	return NULL;
}

static bool start_thread(struct closing_file *closing)
{
	pthread_attr_t attributes;
	pthread_t thread;
	bool is_started;

	if (pthread_attr_init(&attributes) != 0)
		return false;
	is_started =
		pthread_attr_setdetachstate(&attributes,
					    PTHREAD_CREATE_DETACHED) == 0 &&
		pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN * 4) ==
			0 &&
		pthread_create(&thread, &attributes, close_one, closing) == 0;
	pthread_attr_destroy(&attributes);
	return is_started;
}

void fgt_close_aside(int fd, uint32_t uid)
{
	struct closing_file *closing = NULL;

	if (fd < 0)
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CLOSING_MAX && !closing; i++)
		if (!is_busy(&closings[i]))
			closing = &closings[i];
	if (closing) {
		closing->fd = fd;
		closing->uid = uid;
		closing->since_ns = fgt_clock_ns(CLOCK_MONOTONIC);
		atomic_store_explicit(&closing->is_busy, true,
				      memory_order_relaxed);
		if (!start_thread(closing))
			atomic_store_explicit(&closing->is_busy, false,
					      memory_order_relaxed);
	}
	pthread_mutex_unlock(&lock);
}

unsigned int fgt_close_count_slow(uint32_t uid, uint64_t now_ns)
{
	unsigned int count = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CLOSING_MAX; i++)
		count += is_busy(&closings[i]) && closings[i].uid == uid &&
			 now_ns - closings[i].since_ns >= SLOW_NS;
	pthread_mutex_unlock(&lock);
	return count;
}

int fgt_file_status(int fd, struct stat *ret_status)
{
	struct statx known;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS,
		  &known) < 0)
		return -errno;
	*ret_status = (struct stat){
		.st_dev = makedev(known.stx_dev_major, known.stx_dev_minor),
		.st_ino = known.stx_ino,
		.st_mode = known.stx_mode,
		.st_nlink = known.stx_nlink,
		.st_uid = known.stx_uid,
		.st_size = (off_t)known.stx_size,
		.st_mtim = { .tv_sec = known.stx_mtime.tv_sec,
			     .tv_nsec = known.stx_mtime.tv_nsec },
		.st_ctim = { .tv_sec = known.stx_ctime.tv_sec,
			     .tv_nsec = known.stx_ctime.tv_nsec },
	};
	return 0;
}
