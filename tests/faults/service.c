/* SPDX-License-Identifier: Apache-2.0 */
/* The service of which each program of this folder has one fault. */
#include "service.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX	  16
#define QUEUE_MAX	  4096
#define REQUEST_PERIOD_US 4000

pthread_mutex_t g_cache_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t g_config_lock = PTHREAD_RWLOCK_INITIALIZER;

static pthread_mutex_t g_queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_queue_filled = PTHREAD_COND_INITIALIZER;
static unsigned int g_queued;
static const struct fault *g_fault;
static _Atomic uint64_t g_from_ns, g_to_ns;
static int g_backends[WORKERS_MAX][2];
static int g_log_fd;
static uint64_t g_table[4096];

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool is_faulty(void)
{
	uint64_t now = now_ns();

	return now >= g_from_ns && now < g_to_ns;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void burn_us(unsigned int us)
{
	static _Thread_local volatile uint64_t sum;
	uint64_t end = cpu_ns() + us * 1000ull;

	while (cpu_ns() < end)
		for (int i = 0; i < 2000; i++)
			sum += (uint64_t)i * i;
}

static void sleep_us(unsigned int us)
{
	struct timespec pause = { us / 1000000, us % 1000000 * 1000L };

	nanosleep(&pause, NULL);
}

void start_thread_named(const char *name, void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, (void *)name))
		abort();
	pthread_setname_np(thread, name);
	pthread_detach(thread);
}

static unsigned int spread(unsigned int us)
{
	static _Thread_local unsigned int seed;

	if (!seed)
		seed = (unsigned int)(uintptr_t)&seed | 1;
	return us / 2 + (unsigned int)rand_r(&seed) % us;
}

/* ---- What each request does --------------------------------------------- */

static STEP void parse_request(void)
{
	burn_us(spread(300));
}

static STEP void lookup_cache(void)
{
	pthread_mutex_lock(&g_cache_lock);
	burn_us(20);
	pthread_mutex_unlock(&g_cache_lock);
}

static STEP void read_config(void)
{
	pthread_rwlock_rdlock(&g_config_lock);
	burn_us(10);
	pthread_rwlock_unlock(&g_config_lock);
}

static STEP void ask_backend(int fd)
{
	char byte = 1;

	if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
		abort();
}

static STEP void handle_request(int fd)
{
	parse_request();
	lookup_cache();
	read_config();
	ask_backend(fd);
	if (g_fault->handle && is_faulty())
		g_fault->handle();
}

static STEP void take_request(void)
{
	pthread_mutex_lock(&g_queue_lock);
	while (!g_queued)
		pthread_cond_wait(&g_queue_filled, &g_queue_lock);
	g_queued--;
	pthread_mutex_unlock(&g_queue_lock);
}

/* ---- Threads ------------------------------------------------------------ */

static void *run_worker(void *argument)
{
	int fd = *(int *)argument;

	for (;;) {
		take_request();
		handle_request(fd);
	}
	return NULL;
}

static void *run_backend(void *argument)
{
	int fd = *(int *)argument;
	char byte;

	while (read(fd, &byte, 1) == 1) {
		sleep_us(spread(1500));
		if (write(fd, &byte, 1) != 1)
			break;
	}
	return NULL;
}

static STEP void receive_request(void)
{
	sleep_us(spread(REQUEST_PERIOD_US));
}

static void *run_acceptor(void *argument)
{
	(void)argument;
	for (;;) {
		receive_request();
		pthread_mutex_lock(&g_queue_lock);
		if (g_queued < QUEUE_MAX)
			g_queued++;
		pthread_cond_signal(&g_queue_filled);
		pthread_mutex_unlock(&g_queue_lock);
	}
	return NULL;
}

static STEP void flush_log(void)
{
	static const char line[256] = { 'x' };

	if (pwrite(g_log_fd, line, sizeof(line), 0) != sizeof(line))
		abort();
}

static STEP void clean_up_cache(void)
{
	pthread_mutex_lock(&g_cache_lock);
	burn_us(spread(200));
	pthread_mutex_unlock(&g_cache_lock);
}

static void *run_flusher(void *argument)
{
	(void)argument;
	for (;;) {
		sleep_us(spread(50000));
		flush_log();
		clean_up_cache();
	}
	return NULL;
}

static void *run_actor(void *argument)
{
	(void)argument;
	while (now_ns() < g_from_ns)
		sleep_us(1000);
	g_fault->act();
	for (;;)
		pause();
	return NULL;
}

static void start_workers(int workers)
{
	static int fds[WORKERS_MAX][2];
	char name[16];

	for (int i = 0; i < workers; i++) {
		pthread_t thread;

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, g_backends[i]))
			abort();
		fds[i][0] = g_backends[i][0];
		fds[i][1] = g_backends[i][1];
		pthread_create(&thread, NULL, run_backend, &fds[i][1]);
		snprintf(name, sizeof(name), "backend-%d", i);
		pthread_setname_np(thread, name);
		pthread_create(&thread, NULL, run_worker, &fds[i][0]);
		snprintf(name, sizeof(name), "worker-%d", i);
		pthread_setname_np(thread, name);
	}
}

int run_service(const struct fault *fault, int argc, char **argv)
{
	double before_s = argc > 1 ? atof(argv[1]) : 10;
	char path[] = "/tmp/fault-log-XXXXXX", byte;

	g_fault = fault;
	g_log_fd = mkstemp(path);
	if (g_log_fd < 0)
		return 1;
	unlink(path);
	memset(g_table, 1, sizeof(g_table));
	g_from_ns = now_ns() + (uint64_t)(before_s * 1e9);
	g_to_ns = g_from_ns + FAULT_MS * 1000000ull;
	if (fault->prepare)
		fault->prepare();
	start_workers(fault->workers ? fault->workers : 6);
	start_thread_named("flusher", run_flusher);
	if (fault->act)
		start_thread_named(fault->actor, run_actor);
	start_thread_named("acceptor", run_acceptor);
	while (now_ns() < g_to_ns + 2000000000ull)
		sleep_us(10000);
	printf("{\"from\": %llu, \"to\": %llu}\n",
	       (unsigned long long)g_from_ns, (unsigned long long)g_to_ns);
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
