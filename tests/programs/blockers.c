/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of 17 blocking calls (one thread each): every call must last as
 * long as asked, never return EINTR (fault S1), and give the errno that it
 * gives alone.
 *
 * blockers SECONDS [spin]
 *
 * spin: three threads instead that compute for longer than a tick before each
 * short call. Prints "ready PID", then a line a call:
 * NAME calls N early N eintr N wrong N
 * and exits 1 if early, eintr or wrong is not 0 anywhere.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC 1000000000ull
#define ASKED_MS   130
#define ASKED_NS   (ASKED_MS * 1000000ull)

struct probe {
	const char *name;
	/* Blocks for ASKED_NS; returns the call's errno, 0 for success. */
	int (*block)(void);
	int expected;
	uint64_t asked_ns;
	unsigned int calls, early, eintr, wrong;
	pthread_t thread;
};

static uint64_t end_ns;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_SEC),
				  .tv_nsec = (long)(ns % NS_PER_SEC) };
}

static int errno_of(long result)
{
	return result < 0 ? errno : 0;
}

static int block_nanosleep(void)
{
	struct timespec duration = to_timespec(ASKED_NS);

	return errno_of(nanosleep(&duration, NULL));
}

static int block_clock_nanosleep(void)
{
	struct timespec until = to_timespec(now_ns(CLOCK_MONOTONIC) + ASKED_NS);

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int block_usleep(void)
{
	return errno_of(usleep(ASKED_MS * 1000));
}

static int block_sleep(void)
{
	return sleep(1) ? EINTR : 0; /* what is left to sleep */
}

static int block_poll(void)
{
	return errno_of(poll(NULL, 0, ASKED_MS));
}

static int block_ppoll(void)
{
	struct timespec duration = to_timespec(ASKED_NS);

	return errno_of(ppoll(NULL, 0, &duration, NULL));
}

static int block_epoll_wait(void)
{
	static int epoll_fd = -1;
	struct epoll_event event;

	if (epoll_fd < 0)
		epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return errno_of(epoll_wait(epoll_fd, &event, 1, ASKED_MS));
}

static int block_select(void)
{
	struct timeval duration = { .tv_usec = ASKED_MS * 1000 };

	return errno_of(select(0, NULL, NULL, NULL, &duration));
}

static int block_sem_timedwait(void)
{
	struct timespec until = to_timespec(now_ns(CLOCK_REALTIME) + ASKED_NS);
	sem_t semaphore;

	sem_init(&semaphore, 0, 0);
	return errno_of(sem_timedwait(&semaphore, &until));
}

static int block_recv(void)
{
	static int sockets[2] = { -1, -1 };
	struct timeval timeout = { .tv_usec = ASKED_MS * 1000 };
	char byte;

	if (sockets[0] < 0) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
			       sockets) < 0)
			return errno;
		setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout,
			   sizeof(timeout));
	}
	return errno_of(recv(sockets[0], &byte, 1, 0));
}

static int block_semtimedop(void)
{
	struct timespec duration = to_timespec(ASKED_NS);
	struct sembuf take = { .sem_num = 0, .sem_op = -1 };
	int semaphores = semget(IPC_PRIVATE, 1, 0600);
	int error = errno_of(semtimedop(semaphores, &take, 1, &duration));

	semctl(semaphores, 0, IPC_RMID);
	return error;
}

static int block_sigtimedwait(void)
{
	struct timespec duration = to_timespec(ASKED_NS);
	sigset_t set;

	/* Any foreign signal shows, except our own children's ends. */
	sigfillset(&set);
	sigdelset(&set, SIGCHLD);
	return errno_of(sigtimedwait(&set, NULL, &duration));
}

static int block_futex(void)
{
	struct timespec duration = to_timespec(ASKED_NS);
	uint32_t word = 0;

	return errno_of(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0,
				&duration, NULL, 0));
}

static int block_cond_timedwait(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec until = to_timespec(now_ns(CLOCK_REALTIME) + ASKED_NS);
	int error;

	pthread_mutex_lock(&mutex);
	error = pthread_cond_timedwait(&condition, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	return error;
}

static int block_read(void)
{
	static int timer_fd = -1;
	struct itimerspec timer = { .it_value = to_timespec(ASKED_NS) };
	uint64_t expirations;

	if (timer_fd < 0)
		timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(timer_fd, 0, &timer, NULL);
	return errno_of(read(timer_fd, &expirations, sizeof(expirations)));
}

static int block_waitpid(void)
{
	struct timespec duration = to_timespec(ASKED_NS);
	pid_t child = fork();

	if (child == 0) {
		nanosleep(&duration, NULL);
		_exit(0);
	}
	return errno_of(waitpid(child, NULL, 0));
}

static int block_accept(void)
{
	static int listener = -1;
	struct timeval timeout = { .tv_usec = ASKED_MS * 1000 };

	if (listener < 0) {
		struct sockaddr_un any = { .sun_family = AF_UNIX };

		listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		/* Autobind: an abstract name that is never connected. */
		bind(listener, (struct sockaddr *)&any, sizeof(sa_family_t));
		listen(listener, 1);
		setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &timeout,
			   sizeof(timeout));
	}
	return errno_of(accept(listener, NULL, NULL));
}

/* ---- Longer on a CPU than in the call ----------------------------------- */

#define SPIN_MS	      16
#define SPIN_ASKED_MS 2
#define SPIN_ASKED_NS ((SPIN_MS + SPIN_ASKED_MS) * 1000000ull)

static void spin(void)
{
	uint64_t until_ns = now_ns(CLOCK_MONOTONIC) + SPIN_MS * 1000000ull;

	while (now_ns(CLOCK_MONOTONIC) < until_ns)
		continue;
}

static int spin_epoll_wait(void)
{
	static int epoll_fd = -1;
	struct epoll_event event;

	if (epoll_fd < 0)
		epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	spin();
	return errno_of(epoll_wait(epoll_fd, &event, 1, SPIN_ASKED_MS));
}

static int spin_semtimedop(void)
{
	struct timespec duration = to_timespec(SPIN_ASKED_MS * 1000000ull);
	struct sembuf take = { .sem_num = 0, .sem_op = -1 };
	int semaphores = semget(IPC_PRIVATE, 1, 0600);
	int error;

	spin();
	error = errno_of(semtimedop(semaphores, &take, 1, &duration));
	semctl(semaphores, 0, IPC_RMID);
	return error;
}

static int spin_sigtimedwait(void)
{
	struct timespec duration = to_timespec(SPIN_ASKED_MS * 1000000ull);
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGCHLD);
	spin();
	return errno_of(sigtimedwait(&set, NULL, &duration));
}

static struct probe spinners[] = {
	{ .name = "spin_epoll_wait",
	  .block = spin_epoll_wait,
	  .asked_ns = SPIN_ASKED_NS },
	{ .name = "spin_semtimedop",
	  .block = spin_semtimedop,
	  .expected = EAGAIN,
	  .asked_ns = SPIN_ASKED_NS },
	{ .name = "spin_sigtimedwait",
	  .block = spin_sigtimedwait,
	  .expected = EAGAIN,
	  .asked_ns = SPIN_ASKED_NS },
};

static struct probe probes[] = {
	{ .name = "nanosleep", .block = block_nanosleep },
	{ .name = "clock_nanosleep", .block = block_clock_nanosleep },
	{ .name = "usleep", .block = block_usleep },
	{ .name = "sleep", .block = block_sleep, .asked_ns = NS_PER_SEC },
	{ .name = "poll", .block = block_poll },
	{ .name = "ppoll", .block = block_ppoll },
	{ .name = "epoll_wait", .block = block_epoll_wait },
	{ .name = "select", .block = block_select },
	{ .name = "sem_timedwait",
	  .block = block_sem_timedwait,
	  .expected = ETIMEDOUT },
	{ .name = "recv", .block = block_recv, .expected = EAGAIN },
	{ .name = "semtimedop", .block = block_semtimedop, .expected = EAGAIN },
	{ .name = "sigtimedwait",
	  .block = block_sigtimedwait,
	  .expected = EAGAIN },
	{ .name = "futex", .block = block_futex, .expected = ETIMEDOUT },
	{ .name = "cond_timedwait",
	  .block = block_cond_timedwait,
	  .expected = ETIMEDOUT },
	{ .name = "read", .block = block_read },
	{ .name = "waitpid", .block = block_waitpid },
	{ .name = "accept", .block = block_accept, .expected = EAGAIN },
};
#define PROBE_COUNT   (sizeof(probes) / sizeof(probes[0]))
#define SPINNER_COUNT (sizeof(spinners) / sizeof(spinners[0]))

static void *probe_calls(void *argument)
{
	struct probe *probe = argument;
	uint64_t asked_ns = probe->asked_ns ? probe->asked_ns : ASKED_NS;

	pthread_setname_np(pthread_self(), probe->name);
	while (now_ns(CLOCK_MONOTONIC) < end_ns) {
		uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
		int error = probe->block();
		uint64_t lasted_ns = now_ns(CLOCK_MONOTONIC) - begin_ns;

		probe->calls++;
		if (lasted_ns < asked_ns / 100 * 99)
			probe->early++;
		if (error == EINTR)
			probe->eintr++;
		else if (error != probe->expected)
			probe->wrong++;
	}
	return NULL;
}

/* Prints a line each when all have ended; true if any was harmed. */
static bool run_all(struct probe *all, size_t count)
{
	bool is_harmed = false;

	for (size_t i = 0; i < count; i++)
		pthread_create(&all[i].thread, NULL, probe_calls, &all[i]);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (size_t i = 0; i < count; i++) {
		struct probe *probe = &all[i];

		pthread_join(probe->thread, NULL);
		printf("%s calls %u early %u eintr %u wrong %u\n", probe->name,
		       probe->calls, probe->early, probe->eintr, probe->wrong);
		is_harmed |= probe->early || probe->eintr || probe->wrong ||
			     !probe->calls;
	}
	return is_harmed;
}

int main(int argc, char **argv)
{
	bool is_spinning = argc == 3 && strcmp(argv[2], "spin") == 0;
	sigset_t set;

	if (argc != 2 && !is_spinning) {
		fprintf(stderr, "usage: blockers SECONDS [spin]\n");
		return 2;
	}
	end_ns = now_ns(CLOCK_MONOTONIC) + (uint64_t)(atof(argv[1]) * 1e9);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (is_spinning)
		return run_all(spinners, SPINNER_COUNT);
	return run_all(probes, PROBE_COUNT);
}
