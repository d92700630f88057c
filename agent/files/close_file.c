/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes files of targets, and asks for what is known of them. Runs in any
 * thread; must not wait for a file system: that is done by threads that may be
 * lost. Any close(2) of a file asks its file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "agent/files/reader.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/thread.h"

#define CLOSING_MAX  256u /* at a time; further files wait open */
#define OF_USER_MAX  8u /* of these: one user keeps no other's files open */
#define FOR_ROOT_MAX 8u /* of these: however many users there are */
#define SLOW_NS	     UINT64_C(200000000)
#define URGE_NS	     10000000
#define STACK_BYTES  (64 << 10)

/* A thread, while it closes a file. */
struct closing_file {
	bool is_busy;
	int fd;
	uint32_t uid;
	uint64_t since_ns;
};

struct waiting_file {
	STAILQ_ENTRY(waiting_file) link;
	int fd;
	uint32_t uid;
};

/* Protects all below. Nests inside the locks of the readers and of the cache of
 * images; nothing nests inside it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct closing_file closings[CLOSING_MAX];
static STAILQ_HEAD(, waiting_file) waiting = STAILQ_HEAD_INITIALIZER(waiting);

/* Lock held. */
static bool may_close(uint32_t uid)
{
	unsigned int all = 0, of_user = 0;

	for (size_t i = 0; i < CLOSING_MAX; i++) {
		all += closings[i].is_busy;
		of_user += closings[i].is_busy && closings[i].uid == uid;
	}
	return of_user < OF_USER_MAX &&
	       all < CLOSING_MAX - (uid ? FOR_ROOT_MAX : 0);
}

/* The first file that may be closed now becomes this thread's. Lock held. */
static bool take_next(struct closing_file *closing)
{
	struct waiting_file *file;

	closing->is_busy = false;
	STAILQ_FOREACH(file, &waiting, link)
		if (may_close(file->uid))
			break;
	if (!file)
		return false;
	*closing = (struct closing_file){
		.is_busy = true,
		.fd = file->fd,
		.uid = file->uid,
		.since_ns = fgt_clock_ns(CLOCK_MONOTONIC),
	};
	STAILQ_REMOVE(&waiting, file, waiting_file, link);
	free(file);
	return true;
}

static void do_nothing(int number)
{
	(void)number;
}

/*
 * A socket that lingers (SO_LINGER) waits in close(2) for as long as its user
 * wants, but no longer than until the thread gets a signal: it gets one every
 * 10 ms.
 */
static int start_urging(timer_t *ret_timer)
{
	const struct sigaction action = { .sa_handler = do_nothing,
					  .sa_flags = SA_RESTART };
	const struct itimerspec often = { .it_interval.tv_nsec = URGE_NS,
					  .it_value.tv_nsec = URGE_NS };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGURG };
	sigset_t urgent;

	event._sigev_un._tid = gettid();
	if (sigaction(SIGURG, &action, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, ret_timer) < 0)
		return -errno;
	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	pthread_sigmask(SIG_UNBLOCK, &urgent, NULL);
	return timer_settime(*ret_timer, 0, &often, NULL) < 0 ? -errno : 0;
}

/* One after the other, until none is left that may be closed. */
static void *close_files(void *context)
{
	struct closing_file *closing = context;
	bool is_over = false;
	timer_t timer;
	int r = start_urging(&timer);

	while (!is_over) {
		close(closing->fd);
		pthread_mutex_lock(&lock);
		is_over = !take_next(closing);
		pthread_mutex_unlock(&lock);
	}
	if (r == 0)
		timer_delete(timer);
	return NULL;
}

/* Lock held. */
static struct closing_file *find_idle(void)
{
	for (size_t i = 0; i < CLOSING_MAX; i++)
		if (!closings[i].is_busy)
			return &closings[i];
	return NULL;
}

/* Without a thread for it, the file waits for the next one. Lock held. */
static void close_next(void)
{
	struct closing_file *closing = find_idle();
	struct waiting_file *file;

	if (!closing || !take_next(closing) ||
	    fgt_thread_start(STACK_BYTES, close_files, closing, NULL) == 0)
		return;
	closing->is_busy = false;
	file = malloc(sizeof(*file));
	if (!file)
		return;
	*file = (struct waiting_file){ .fd = closing->fd, .uid = closing->uid };
	STAILQ_INSERT_HEAD(&waiting, file, link);
}

void fgt_close_aside(int fd, uint32_t uid)
{
	struct waiting_file *file;

	if (fd < 0)
		return;
	file = malloc(sizeof(*file));
	if (!file)
		return; /* it stays open: closing it here may never end */
	*file = (struct waiting_file){ .fd = fd, .uid = uid };
	pthread_mutex_lock(&lock);
	STAILQ_INSERT_TAIL(&waiting, file, link);
	close_next();
	pthread_mutex_unlock(&lock);
}

unsigned int fgt_close_count_slow(uint32_t uid, uint64_t now_ns)
{
	unsigned int count = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CLOSING_MAX; i++)
		count += closings[i].is_busy && closings[i].uid == uid &&
			 now_ns - closings[i].since_ns >= SLOW_NS;
	pthread_mutex_unlock(&lock);
	return count;
}

bool fgt_file_close_is_slow(uint32_t uid)
{
	return fgt_close_count_slow(uid, fgt_clock_ns(CLOCK_MONOTONIC)) > 0;
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
