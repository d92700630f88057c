/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that block in ten ways, each below a chain of calls of known depth.
 * Prints the functions' addresses and one line a thread, then "ready"; ends
 * when its standard input does.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "chain.h"

#define FOR_EVER_S 1000000

static int pipe_fds[2];
static int epoll_fd;
static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_t main_thread;
static atomic_int blocked_count;

static int end_nanosleep(void *context)
{
	struct timespec duration = { .tv_sec = FOR_EVER_S };

	(void)context;
	return nanosleep(&duration, NULL) + 1;
}

static int end_clock_nanosleep(void *context)
{
	struct timespec duration = { .tv_sec = FOR_EVER_S };

	(void)context;
	return clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL) + 1;
}

static int end_poll(void *context)
{
	struct pollfd entry = { .fd = pipe_fds[0], .events = POLLIN };

	(void)context;
	return poll(&entry, 1, -1) + 1;
}

static int end_select(void *context)
{
	fd_set set;

	(void)context;
	FD_ZERO(&set);
	FD_SET(pipe_fds[0], &set);
	return select(pipe_fds[0] + 1, &set, NULL, NULL, NULL) + 1;
}

static int end_read(void *context)
{
	char byte;

	(void)context;
	return (int)read(pipe_fds[0], &byte, 1) + 1;
}

static int end_epoll_wait(void *context)
{
	struct epoll_event event;

	(void)context;
	return epoll_wait(epoll_fd, &event, 1, -1) + 1;
}

static int end_cond_wait(void *context)
{
	(void)context;
	pthread_mutex_lock(&guard);
	while (pthread_cond_wait(&never, &guard) == 0)
		;
	return 1;
}

static int end_mutex(void *context)
{
	(void)context;
	return pthread_mutex_lock(&taken) + 1;
}

static int end_semaphore(void *context)
{
	(void)context;
	return sem_wait(&semaphore) + 1;
}

static int end_join(void *context)
{
	(void)context;
	return pthread_join(main_thread, NULL) + 1;
}

static int end_touch(void *context)
{
	(void)context;
	return 1;
}

static const struct kind {
	const char *name;
	chain_end end;
} kinds[] = {
	{ "nanosleep", end_nanosleep },
	{ "clock_nanosleep", end_clock_nanosleep },
	{ "poll", end_poll },
	{ "select", end_select },
	{ "read", end_read },
	{ "epoll_wait", end_epoll_wait },
	{ "cond_wait", end_cond_wait },
	{ "mutex", end_mutex },
	{ "semaphore", end_semaphore },
	{ "join", end_join },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct thread {
	size_t kind;
	int depth;
};

static void *thread_main(void *argument)
{
	const struct thread *thread = argument;

	/* Leaves return addresses and frame pointers on the stack. */
	chain_b(thread->depth + 7, end_touch, NULL);
	chain_a(thread->depth + 3, end_touch, NULL);
	printf("thread %ld %s %d\n", (long)syscall(SYS_gettid),
	       kinds[thread->kind].name, thread->depth);
	atomic_fetch_add(&blocked_count, 1);
	chain_a(thread->depth, kinds[thread->kind].end, NULL);
	return NULL;
}

static int start_threads(int threads_per_kind, int depth_min, int depth_step)
{
	int total = threads_per_kind * (int)KINDS;
	struct thread *threads = calloc((size_t)total, sizeof(*threads));
	pthread_t id;

	if (!threads)
		return -ENOMEM;
	for (int i = 0; i < total; i++) {
		threads[i].kind = (size_t)i % KINDS;
		/* Odd and even: either function calls the end. */
		threads[i].depth = depth_min + i / (int)KINDS * depth_step +
				   (i / (int)KINDS) % 2;
		if (pthread_create(&id, NULL, thread_main, &threads[i]) != 0)
			return -EAGAIN;
	}
	while (atomic_load(&blocked_count) < total)
		usleep(1000);
	return 0;
}

int main(int argc, char **argv)
{
	int threads_per_kind = argc > 1 ? atoi(argv[1]) : 6;
	char byte;

	setvbuf(stdout, NULL, _IOLBF, 0);
	main_thread = pthread_self();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (pipe(pipe_fds) < 0 || epoll_fd < 0)
		return 1;
	sem_init(&semaphore, 0, 0);
	pthread_mutex_lock(&taken);
	for (size_t i = 0; i < KINDS; i++)
		printf("function %s %p\n", kinds[i].name,
		       (void *)(size_t)kinds[i].end);
	printf("function chain_a %p\n", (void *)(size_t)chain_a);
	printf("function chain_b %p\n", (void *)(size_t)chain_b);
	printf("function thread_main %p\n", (void *)(size_t)thread_main);
	if (start_threads(threads_per_kind, 10, 10) < 0)
		return 1;
	printf("ready\n");
	/* The thread reads without an end, so that pthread_join(main)
	 * blocks. */
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
