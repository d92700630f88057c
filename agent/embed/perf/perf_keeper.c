/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that keeps perf events. The sampler's thread hands it orders; it
 * waits for the answer only where there is one to be used, so that a tick does
 * not wait for a CPU once more.
 *
 * The kernel may end a process for a call that a seccomp filter does not know,
 * and a filter may come at any time: before the orders that it finds when it
 * wakes, the thread looks whether its calls are filtered, with calls that the
 * sampler makes anyway. If so, it makes no more of them.
 */
#include "agent/embed/perf/perf_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/budget/priority.h"
#include "agent/capture/threads/procfs.h"
#include "agent/embed/signal/signal_permission.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/thread.h"

#define ORDERS_MAX 256u /* that wait to be carried out */
/* A filter may have ended the thread, a busy machine may keep it waiting. */
#define ANSWER_MAX_NS 20000000
#define STUCK_NS      200000000u
#define STATUS_BYTES  4096
#define STACK_BYTES   (128u << 10) /* the program may lock all memory */
#define GONE_TRIES    200
#define GONE_PAUSE_NS 100000

enum order_kind {
	ORDER_OPEN,
	ORDER_CLOSE,
};

struct order {
	enum order_kind kind;
	int fd;
	/* Of an order whose answer is waited for: */
	int32_t tid;
	size_t pages;
	bool is_awaited;
};

struct answer {
	int result, fd;
	struct fgt_perf_buffer buffer;
};

struct fgt_perf_keeper {
	pthread_t thread;
	int32_t tid;
	int status_fd; /* in the thread's own table */

	/* Protects what follows; nothing is locked inside it. */
	pthread_mutex_t mutex;
	pthread_cond_t posted, done;
	struct order orders[ORDERS_MAX];
	uint64_t posted_count, done_count; /* orders[… % ORDERS_MAX] */
	uint64_t moved_ns; /* an order was posted as the only one, or done */
	/* One order at a time has an answer. Its sender may have stopped
	 * waiting: then the answer is thrown away. */
	struct perf_event_attr attr; /* that it is to open */
	struct answer answer;
	bool is_asked, is_left;
	bool shall_end, is_ready;
	bool is_filtered;
	int start_error;
};

/* ---- In the thread ------------------------------------------------------ */

static bool is_free(int status_fd)
{
	char status[STATUS_BYTES];
	ssize_t len = pread(status_fd, status, sizeof(status) - 1, 0);

	if (len <= 0)
		return false;
	status[len] = '\0';
	return strstr(status, "\nSeccomp:\t0\n");
}

static int carry_open(const struct fgt_perf_keeper *keeper,
		      const struct order *order, struct answer *ret_answer)
{
	FGT_AUTO(fgt_fd_close)
	int fd = fgt_perf_open(&keeper->attr, order->tid, -1);
	int rc;

	if (fd < 0)
		return FGT_TAKE_FD(fd);
	rc = fgt_perf_buffer_map(&ret_answer->buffer, fd, order->pages,
				 order->pages);
	if (rc == 0)
		ret_answer->fd = FGT_TAKE_FD(fd);
	return rc;
}

/* A descriptor that is left to the end of the thread is closed by that. */
static int carry_out(const struct fgt_perf_keeper *keeper,
		     const struct order *order, struct answer *ret_answer)
{
	switch (order->kind) {
	case ORDER_OPEN:
		return carry_open(keeper, order, ret_answer);
	case ORDER_CLOSE:
		return close(order->fd) < 0 ? -errno : 0;
	}
	return -EINVAL;
}

/* With the mutex held. */
static void give_answer(struct fgt_perf_keeper *keeper,
			const struct order *order, struct answer *answer)
{
	if (keeper->is_left && order->kind == ORDER_OPEN &&
	    answer->result == 0) {
		fgt_perf_buffer_unmap(&answer->buffer);
		fgt_fd_close(answer->fd);
	}
	keeper->answer = *answer;
	keeper->is_asked = keeper->is_left = false;
	pthread_cond_signal(&keeper->done);
}

/* With the mutex held, which it lets go of meanwhile. */
static void carry_out_posted(struct fgt_perf_keeper *keeper)
{
	bool is_filtered = keeper->is_filtered;

	pthread_mutex_unlock(&keeper->mutex);
	is_filtered = is_filtered || !is_free(keeper->status_fd);
	pthread_mutex_lock(&keeper->mutex);
	keeper->is_filtered = is_filtered;
	while (keeper->done_count < keeper->posted_count) {
		const struct order order =
			keeper->orders[keeper->done_count % ORDERS_MAX];
		struct answer answer = { .result = -EPERM };

		pthread_mutex_unlock(&keeper->mutex);
		if (!is_filtered)
			answer.result = carry_out(keeper, &order, &answer);
		pthread_mutex_lock(&keeper->mutex);
		keeper->done_count++;
		keeper->moved_ns = fgt_clock_ns(CLOCK_MONOTONIC);
		if (order.is_awaited)
			give_answer(keeper, &order, &answer);
	}
}

/* Leaves the program's table. Nothing of that is copied: a descriptor of the
 * program that was open here, too, would stay open when the program closes it.
 */
static int get_table(struct fgt_perf_keeper *keeper)
{
	if (!fgt_signal_permission_is_free())
		return -EPERM;
	if (close_range(0, ~0u, CLOSE_RANGE_UNSHARE) < 0)
		return -errno;
	keeper->status_fd =
		open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	if (keeper->status_fd < 0)
		return -errno;
	fgt_priority_shorten_slice();
	return 0;
}

static void *keep(void *context)
{
	struct fgt_perf_keeper *keeper = context;
	int rc;

	prctl(PR_SET_NAME, "fgt-perf");
	rc = get_table(keeper);
	pthread_mutex_lock(&keeper->mutex);
	keeper->tid = gettid();
	keeper->start_error = rc;
	keeper->is_ready = true;
	pthread_cond_signal(&keeper->done);
	while (rc == 0 && !keeper->shall_end) {
		if (keeper->done_count < keeper->posted_count)
			carry_out_posted(keeper);
		else
			pthread_cond_wait(&keeper->posted, &keeper->mutex);
	}
	pthread_mutex_unlock(&keeper->mutex);
	return NULL;
}

/* ---- Start and end ------------------------------------------------------ */

static void free_keeper(struct fgt_perf_keeper *keeper)
{
	pthread_cond_destroy(&keeper->posted);
	pthread_cond_destroy(&keeper->done);
	pthread_mutex_destroy(&keeper->mutex);
	free(keeper);
}

/* Time-outs that no change of the wall clock moves. */
static void init_done(pthread_cond_t *done)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(done, &attr);
	pthread_condattr_destroy(&attr);
}

int fgt_perf_keeper_start(struct fgt_perf_keeper **ret_keeper)
{
	struct fgt_perf_keeper *keeper = calloc(1, sizeof(*keeper));
	int rc;

	if (!keeper)
		return -ENOMEM;
	pthread_mutex_init(&keeper->mutex, NULL);
	pthread_cond_init(&keeper->posted, NULL);
	init_done(&keeper->done);
	rc = fgt_thread_start(STACK_BYTES, keep, keeper, &keeper->thread);
	if (rc < 0) {
		free_keeper(keeper);
		return rc;
	}
	pthread_mutex_lock(&keeper->mutex);
	while (!keeper->is_ready)
		pthread_cond_wait(&keeper->done, &keeper->mutex);
	rc = keeper->start_error;
	pthread_mutex_unlock(&keeper->mutex);
	if (rc < 0) {
		pthread_join(keeper->thread, NULL);
		free_keeper(keeper);
		return rc;
	}
	*ret_keeper = keeper;
	return 0;
}

/* A thread that is joined may still be in /proc for a moment, where the program
 * may count its threads, for one before it changes its user. */
static void wait_until_gone(int32_t tid)
{
	const struct timespec pause = { .tv_nsec = GONE_PAUSE_NS };
	char path[64], text[16];

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	for (int i = 0; i < GONE_TRIES; i++) {
		if (fgt_procfs_read(AT_FDCWD, path, text, sizeof(text)) < 0)
			return;
		nanosleep(&pause, NULL);
	}
}

void fgt_perf_keeper_end(struct fgt_perf_keeper *keeper)
{
	if (!keeper)
		return;
	pthread_mutex_lock(&keeper->mutex);
	keeper->shall_end = true;
	pthread_cond_signal(&keeper->posted);
	pthread_mutex_unlock(&keeper->mutex);
	pthread_join(keeper->thread, NULL);
	wait_until_gone(keeper->tid);
	free_keeper(keeper);
}

int32_t fgt_perf_keeper_tid(const struct fgt_perf_keeper *keeper)
{
	return keeper->tid;
}

bool fgt_perf_keeper_works(struct fgt_perf_keeper *keeper)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	bool is_idle, works;

	pthread_mutex_lock(&keeper->mutex);
	is_idle = keeper->done_count == keeper->posted_count;
	works = !keeper->is_filtered &&
		(is_idle || now_ns < keeper->moved_ns + STUCK_NS);
	pthread_mutex_unlock(&keeper->mutex);
	return works;
}

/* ---- Orders ------------------------------------------------------------- */

/* With the mutex held. Orders that are not carried out are not piled up. */
static int put(struct fgt_perf_keeper *keeper, const struct order *order)
{
	if (keeper->is_filtered)
		return -EPERM;
	if (keeper->posted_count - keeper->done_count == ORDERS_MAX)
		return -EBUSY;
	if (keeper->posted_count == keeper->done_count)
		keeper->moved_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	keeper->orders[keeper->posted_count++ % ORDERS_MAX] = *order;
	pthread_cond_signal(&keeper->posted);
	return 0;
}

static int post(struct fgt_perf_keeper *keeper, const struct order *order)
{
	int rc;

	pthread_mutex_lock(&keeper->mutex);
	rc = put(keeper, order);
	pthread_mutex_unlock(&keeper->mutex);
	return rc;
}

/* With the mutex held. */
static bool wait_for_answer(struct fgt_perf_keeper *keeper)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ANSWER_MAX_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	while (keeper->is_asked)
		if (pthread_cond_timedwait(&keeper->done, &keeper->mutex,
					   &until) == ETIMEDOUT)
			break;
	return !keeper->is_asked;
}

int fgt_perf_keeper_open(struct fgt_perf_keeper *keeper,
			 const struct perf_event_attr *attr, int32_t tid,
			 size_t pages, struct fgt_perf_buffer *ret_buffer,
			 int *ret_fd)
{
	const struct order order = {
		.kind = ORDER_OPEN,
		.tid = tid,
		.pages = pages,
		.is_awaited = true,
	};
	int rc;

	pthread_mutex_lock(&keeper->mutex);
	rc = keeper->is_asked ? -EBUSY : put(keeper, &order);
	if (rc == 0) {
		keeper->is_asked = true;
		keeper->attr = *attr;
		if (wait_for_answer(keeper)) {
			rc = keeper->answer.result;
		} else {
			keeper->is_left = true;
			rc = -EBUSY;
		}
	}
	if (rc == 0) {
		*ret_buffer = keeper->answer.buffer;
		*ret_fd = keeper->answer.fd;
	}
	pthread_mutex_unlock(&keeper->mutex);
	return rc;
}

/* What cannot be ordered is left to the end of the thread. */
void fgt_perf_keeper_close(struct fgt_perf_keeper *keeper,
			   struct fgt_perf_buffer *buffer, int fd)
{
	const struct order order = { .kind = ORDER_CLOSE, .fd = fd };

	fgt_perf_buffer_unmap(buffer);
	(void)post(keeper, &order);
}
