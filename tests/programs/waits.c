/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that each wait for another thing, for as long as the program lives;
 * prints a line for each: its name, its tid, the kind of the wait, and the tid
 * of the owner or the number that the wait has.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP __attribute__((noinline, noclone))

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t g_second_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t g_robust_mutex;
pthread_rwlock_t g_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_rwlock_t g_read_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t g_condition = PTHREAD_COND_INITIALIZER;
pthread_mutex_t g_condition_mutex = PTHREAD_MUTEX_INITIALIZER;
sem_t g_semaphore;
/* Variables of a real program are more than a page. */
char g_data[65536] = { 1 };

static int g_pipe[2];
#define EVENTS 4
static int g_events[EVENTS]; /* a pipe, a socket, a timer, an event */
static int g_epoll, g_many_epoll;
static pid_t g_child;
static int g_file; /* of the whole program */
static pid_t g_holder, g_second_holder;
static pthread_t g_holding;
static pthread_barrier_t g_held;

static void print(const char *name, const char *kind, int number)
{
	flockfile(stdout);
	printf("%s %d %s %d\n", name, gettid(), kind, number);
	fflush(stdout);
	funlockfile(stdout);
}

static STEP void *hold(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&g_mutex);
	pthread_mutex_lock(&g_robust_mutex);
	pthread_rwlock_wrlock(&g_rwlock);
	g_holder = gettid();
	pthread_barrier_wait(&g_held);
	print("hold", "sleep", -1);
	for (;;)
		sleep(100);
	return NULL;
}

static STEP void *hold_second(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&g_second_mutex);
	g_second_holder = gettid();
	pthread_barrier_wait(&g_held);
	print("chained", "mutex", g_holder);
	pthread_mutex_lock(&g_mutex);
	return NULL;
}

static STEP void *lock(void *argument)
{
	print("lock", "mutex", g_holder);
	pthread_mutex_lock(&g_mutex);
	return argument;
}

static STEP void *lock_second(void *argument)
{
	print("second", "mutex", g_second_holder);
	pthread_mutex_lock(&g_second_mutex);
	return argument;
}

static STEP void *lock_robust(void *argument)
{
	print("robust", "lock", g_holder);
	pthread_mutex_lock(&g_robust_mutex);
	return argument;
}

static STEP void *read_lock(void *argument)
{
	print("reader", "rwlock", g_holder);
	pthread_rwlock_rdlock(&g_rwlock);
	return argument;
}

static STEP void *write_lock(void *argument)
{
	print("writer", "rwlock", g_holder);
	pthread_rwlock_wrlock(&g_rwlock);
	return argument;
}

/* Readers have no names. */
static STEP void *write_read_lock(void *argument)
{
	print("after_readers", "rwlock", 0);
	pthread_rwlock_wrlock(&g_read_rwlock);
	return argument;
}

static STEP void *await(void *argument)
{
	print("await", "notification", 0);
	pthread_mutex_lock(&g_condition_mutex);
	for (;;)
		pthread_cond_wait(&g_condition, &g_condition_mutex);
	return argument;
}

static STEP void *await_until(void *argument)
{
	struct timespec end;

	print("await_until", "notification", 0);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 3600;
	pthread_mutex_lock(&g_condition_mutex);
	for (;;)
		pthread_cond_timedwait(&g_condition, &g_condition_mutex, &end);
	return argument;
}

static STEP void *acquire(void *argument)
{
	print("acquire", "notification", 0);
	sem_wait(&g_semaphore);
	return argument;
}

static STEP void *read_pipe(void *argument)
{
	char byte;

	print("pipe", "descriptor", g_pipe[0]);
	return read(g_pipe[0], &byte, 1) == 1 ? argument : NULL;
}

/* Another process has it locked: the child. */
static STEP void *lock_file(void *argument)
{
	print("flock", "descriptor", g_file);
	flock(g_file, LOCK_EX);
	return argument;
}

static STEP void *lock_record(void *argument)
{
	struct flock whole = { .l_type = F_WRLCK };

	print("record", "descriptor", g_file);
	fcntl(g_file, F_SETLKW, &whole);
	return argument;
}

static STEP void *await_child(void *argument)
{
	print("child", "child", g_child);
	waitpid(g_child, NULL, 0);
	return argument;
}

static STEP void *join(void *argument)
{
	print("join", "join", g_holder);
	pthread_join(g_holding, NULL);
	return argument;
}

static STEP void *poll_events(void *argument)
{
	struct pollfd polled[EVENTS + 1] = { { .fd = -1 } }; /* is ignored */

	for (int i = 0; i < EVENTS; i++)
		polled[i + 1] = (struct pollfd){ g_events[i], POLLIN, 0 };
	print("poll", "events", EVENTS + 1);
	poll(polled, EVENTS + 1, -1);
	return argument;
}

static STEP void *select_events(void *argument)
{
	fd_set set;

	FD_ZERO(&set);
	for (int i = 0; i < EVENTS; i++)
		FD_SET(g_events[i], &set);
	print("select", "events", g_events[EVENTS - 1] + 1);
	select(g_events[EVENTS - 1] + 1, &set, NULL, NULL, NULL);
	return argument;
}

static STEP void *await_epoll(void *argument)
{
	struct epoll_event event;

	print("epoll", "events", g_epoll);
	epoll_wait(g_epoll, &event, 1, -1);
	return argument;
}

static STEP void *await_many(void *argument)
{
	struct epoll_event event;

	print("epoll_many", "events", g_many_epoll);
	epoll_wait(g_many_epoll, &event, 1, -1);
	return argument;
}

/* The socket listens at a port of this machine. */
static void open_events(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct epoll_event event = { .events = EPOLLIN };
	int many[20];

	g_events[0] = g_pipe[0];
	g_events[1] = socket(AF_INET, SOCK_STREAM, 0);
	g_events[2] = timerfd_create(CLOCK_MONOTONIC, 0);
	g_events[3] = eventfd(0, 0);
	g_epoll = epoll_create1(0);
	g_many_epoll = epoll_create1(0);
	if (bind(g_events[1], (void *)&address, sizeof(address)) ||
	    listen(g_events[1], 1))
		abort();
	for (int i = 0; i < EVENTS; i++)
		epoll_ctl(g_epoll, EPOLL_CTL_ADD, g_events[i], &event);
	for (int i = 0; i < 20; i++) {
		many[i] = eventfd(0, 0);
		epoll_ctl(g_many_epoll, EPOLL_CTL_ADD, many[i], &event);
	}
}

/* By an open file of the child's. */
static void lock_in_child(void)
{
	struct flock whole = { .l_type = F_WRLCK };
	char path[32];
	int file;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", g_file);
	file = open(path, O_RDWR);
	if (fcntl(file, F_SETLK, &whole) || flock(file, LOCK_EX))
		abort();
}

static void wait_for_lock_in_child(void)
{
	while (!flock(g_file, LOCK_EX | LOCK_NB)) {
		flock(g_file, LOCK_UN);
		usleep(1000);
	}
}

static pthread_t start(void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		abort();
	return thread;
}

int main(void)
{
	pthread_mutexattr_t robust;
	char byte;

	g_file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	if (g_file < 0 || pipe(g_pipe) || sem_init(&g_semaphore, 0, 0))
		return 1;
	g_child = fork();
	if (g_child == 0) {
		close(g_pipe[1]);
		lock_in_child();
		/* Until its parent ends. */
		return read(g_pipe[0], &byte, 1) != 0;
	}
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&g_robust_mutex, &robust);
	wait_for_lock_in_child();
	pthread_barrier_init(&g_held, NULL, 3);
	g_holding = start(hold);
	start(hold_second);
	pthread_barrier_wait(&g_held);
	start(lock);
	start(lock_second);
	start(lock_robust);
	start(read_lock);
	start(write_lock);
	pthread_rwlock_rdlock(&g_read_rwlock);
	start(write_read_lock);
	start(await);
	start(await_until);
	start(acquire);
	start(read_pipe);
	start(await_child);
	start(join);
	open_events();
	start(poll_events);
	start(select_events);
	start(await_epoll);
	start(await_many);
	start(lock_file);
	start(lock_record);
	usleep(300000);
	puts("ready");
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
