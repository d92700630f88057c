/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An empty library: the functions that the HTTP example calls, without an
 * effect, so that the benchmark's first row is the same program.
 *
 * In mode "embedded" it makes the calls of a sampler inside the process, and
 * drops the results: a thread wakes and asks which threads ran, and where they
 * block; each running thread gets a signal as often as its stack would be
 * copied: at each tick of the kernel that finds it on a CPU.
 */
#define _GNU_SOURCE
#include "agent/lib/fgtrace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bare_tick.h"

#define THREADS_MAX 64
#define SIGNAL_NS   1000000 /* of CPU time, as running_signal.c */

struct thread {
	clockid_t clock;
	int syscall_fd;
	uint64_t used_ns;
};

static bool is_embedded; /* before there is any other thread */
static __thread bool is_timed;
static struct thread threads[THREADS_MAX];
/* Release and acquire: so many entries are complete. */
static atomic_uint thread_count;

static void ask_thread(struct thread *thread)
{
	struct timespec now;
	uint64_t used_ns;
	char text[256];

	if (clock_gettime(thread->clock, &now))
		return; /* it has ended */
	used_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (used_ns != thread->used_ns)
		(void)!pread(thread->syscall_fd, text, sizeof(text), 0);
	thread->used_ns = used_ns;
}

static void ask(void *own_schedstat_fd)
{
	unsigned int count =
		atomic_load_explicit(&thread_count, memory_order_acquire);

	bare_tick_ask(own_schedstat_fd);
	for (unsigned int i = 0; i < count; i++)
		ask_thread(&threads[i]);
}

static void *tick(void *nothing)
{
	bare_tick_run_asking(ask);
	return nothing;
}

static void do_nothing(int number)
{
	(void)number;
}

/* The calling thread is asked about from now on. Aborts if it cannot be: the
 * figures would be wrong. */
static void show_thread(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct thread *thread;
	unsigned int count;
	char path[64];

	pthread_mutex_lock(&mutex);
	count = atomic_load_explicit(&thread_count, memory_order_relaxed);
	thread = &threads[count];
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", gettid());
	if (count == THREADS_MAX ||
	    pthread_getcpuclockid(pthread_self(), &thread->clock))
		abort();
	thread->syscall_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (thread->syscall_fd < 0)
		abort();
	atomic_store_explicit(&thread_count, count + 1, memory_order_release);
	pthread_mutex_unlock(&mutex);
}

/* A timer of the calling thread: a signal in each period of its CPU time, or at
 * the kernel's next tick. */
static void set_timer(void)
{
	const struct timespec period = { .tv_nsec = SIGNAL_NS };
	const struct itimerspec each = { period, period };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGURG };
	timer_t timer;

	is_timed = true;
	event._sigev_un._tid = gettid();
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0)
		(void)timer_settime(timer, 0, &each, NULL);
}

int fgt_start(const struct fgt_options *options)
{
	const struct sigaction calm = { .sa_handler = do_nothing,
					.sa_flags = SA_RESTART };
	pthread_t thread;

	if (options->mode != FGT_EMBEDDED)
		return -ENOENT;
	is_embedded = true;
	(void)sigaction(SIGURG, &calm, NULL);
	return -pthread_create(&thread, NULL, tick, NULL);
}

void fgt_stop(void)
{
}

int fgt_flush(unsigned int timeout_ms)
{
	(void)timeout_ms;
	return 0;
}

int fgt_get_status(struct fgt_status *ret_status)
{
	(void)ret_status;
	return -EINVAL;
}

struct fgt_transaction *fgt_transaction_begin(const char *name, const char *op)
{
	(void)name;
	(void)op;
	if (is_embedded && !is_timed) {
		show_thread();
		set_timer();
	}
	return NULL;
}

int fgt_transaction_set_parent(struct fgt_transaction *transaction,
			       const char *header)
{
	(void)transaction;
	(void)header;
	return 0;
}

int fgt_transaction_set_status(struct fgt_transaction *transaction,
			       const char *status)
{
	(void)transaction;
	(void)status;
	return 0;
}

int fgt_transaction_finish(struct fgt_transaction *transaction)
{
	(void)transaction;
	return 0;
}

int fgt_task_begin(const char *name, uint64_t parent, uint64_t *ret_task)
{
	(void)name;
	(void)parent;
	(void)ret_task;
	return 0;
}

int fgt_task_end(uint64_t task)
{
	(void)task;
	return 0;
}

int fgt_span_begin(const char *name, uint64_t parent, uint64_t *ret_span)
{
	(void)name;
	(void)parent;
	(void)ret_span;
	return 0;
}

int fgt_span_end(uint64_t span)
{
	(void)span;
	return 0;
}
