/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions in which the truth program spends its time: some burn CPU time,
 * and there is one for each kind of blocking call. Runs in the threads of that
 * program.
 */
#include "work.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

volatile uint64_t truth_anchor;
uint64_t truth_end_ns;

uint64_t truth_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

struct timespec truth_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_SEC),
				  .tv_nsec = (long)(ns % NS_PER_SEC) };
}

#define DEFINE_BURN(name, factor)                                              \
	NOINLINE void name(uint64_t ns)                                        \
	{                                                                      \
		uint64_t until_ns = truth_now_ns() + ns;                       \
                                                                               \
		do {                                                           \
			for (unsigned int i = 0; i < 2000; i++)                \
				truth_anchor = truth_anchor * factor + i;      \
		} while (truth_now_ns() < until_ns);                           \
	}
DEFINE_BURN(burn_alpha, 2862933555777941757u)
DEFINE_BURN(burn_beta, 2862933555777941759u)
DEFINE_BURN(burn_gamma, 2862933555777941761u)

NOINLINE void block_nanosleep(uint64_t ns)
{
	struct timespec duration = truth_timespec(ns);

	clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
	truth_anchor++;
}

/* Goes on after signals. */
NOINLINE void block_until(uint64_t ns)
{
	struct timespec until = truth_timespec(truth_now_ns() + ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) ==
	       EINTR)
		truth_anchor++;
	truth_anchor++;
}

NOINLINE void block_futex(uint64_t ns)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_condattr_t attributes;
	pthread_cond_t condition;
	struct timespec until = truth_timespec(truth_now_ns() + ns);

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&condition, &attributes);
	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&condition, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	truth_anchor++;
}

NOINLINE void block_poll(uint64_t ns)
{
	poll(NULL, 0, (int)(ns / NS_PER_MS));
	truth_anchor++;
}

NOINLINE void block_ppoll(uint64_t ns)
{
	struct timespec duration = truth_timespec(ns);

	ppoll(NULL, 0, &duration, NULL);
	truth_anchor++;
}

NOINLINE void block_select(uint64_t ns)
{
	struct timeval duration = { .tv_sec = 0,
				    .tv_usec = (suseconds_t)(ns / 1000) };

	select(0, NULL, NULL, NULL, &duration);
	truth_anchor++;
}

NOINLINE void block_epoll(uint64_t ns)
{
	static int epoll_fd = -1;
	struct epoll_event event;

	if (epoll_fd < 0)
		epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	epoll_wait(epoll_fd, &event, 1, (int)(ns / NS_PER_MS));
	truth_anchor++;
}

NOINLINE void block_read(uint64_t ns)
{
	static int timer_fd = -1;
	struct itimerspec timer = { .it_value = truth_timespec(ns) };
	uint64_t expirations;

	if (timer_fd < 0)
		timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(timer_fd, 0, &timer, NULL);
	if (read(timer_fd, &expirations, sizeof(expirations)) > 0)
		truth_anchor++;
}

NOINLINE void block_recv(uint64_t ns)
{
	static int sockets[2] = { -1, -1 };
	struct timeval timeout = { .tv_sec = 0,
				   .tv_usec = (suseconds_t)(ns / 1000) };
	char byte;

	if (sockets[0] < 0 &&
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
		abort();
	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout,
		   sizeof(timeout));
	recv(sockets[0], &byte, 1, 0);
	truth_anchor++;
}

NOINLINE void block_sigwait(uint64_t ns)
{
	struct timespec duration = truth_timespec(ns);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigtimedwait(&set, NULL, &duration);
	truth_anchor++;
}

NOINLINE void block_semop(uint64_t ns)
{
	static int semaphores = -1;
	struct timespec duration = truth_timespec(ns);
	struct sembuf take = { .sem_num = 0, .sem_op = -1 };

	if (semaphores < 0)
		semaphores = semget(IPC_PRIVATE, 1, 0600);
	semtimedop(semaphores, &take, 1, &duration);
	if (truth_now_ns() >= truth_end_ns)
		semctl(semaphores, 0, IPC_RMID);
	truth_anchor++;
}
