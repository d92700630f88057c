/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does things that profilers often break (fork, exec, signals, stops, dying)
 * and prints what happened. Run alone and under the sampler, it must print the
 * same lines and end the same way.
 *
 * behave fork|exec N|signals|stop|segv|abort|exit|threads
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static atomic_uint signals_received;
static volatile uint64_t anchor;

static void burn_ms(unsigned int ms)
{
	struct timespec now, begin;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (unsigned int i = 0; i < 10000; i++)
			anchor = anchor * 31 + i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 +
			 (now.tv_nsec - begin.tv_nsec) / 1000000 <
		 (long)ms);
}

static void count_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals_received, 1);
}

static int behave_fork(void)
{
	unsigned int right = 0;

	for (int i = 0; i < 300; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			burn_ms(1);
			_exit(i % 100);
		}
		if (waitpid(child, &status, 0) == child && WIFEXITED(status) &&
		    WEXITSTATUS(status) == i % 100)
			right++;
	}
	printf("fork: %u of 300 children ended as they should\n", right);
	for (int i = 0; i < 100; i++) {
		char *arguments[] = { "true", NULL };
		int status = -1;
		pid_t child;

		if (posix_spawnp(&child, "true", NULL, NULL, arguments,
				 environ) == 0)
			waitpid(child, &status, 0);
		right += status == 0;
	}
	printf("spawn: %u of 400 in all\n", right);
	return 0;
}

static int behave_exec(const char *program, unsigned int left)
{
	char count[16];

	burn_ms(5);
	if (left == 0) {
		printf("exec: the last one\n");
		return 7;
	}
	snprintf(count, sizeof(count), "%u", left - 1);
	execl(program, "behave", "exec", count, (char *)NULL);
	return 1;
}

static int behave_signals(void)
{
	struct sigaction action = { .sa_handler = count_signal,
				    .sa_flags = SA_RESTART };
	unsigned int refused = 0;

	sigaction(SIGRTMIN + 3, &action, NULL);
	sigaction(SIGPROF, &action, NULL);
	sigaction(SIGURG, &action, NULL);
	for (unsigned int i = 0; i < 20000; i++) {
		/* Queued: each must arrive. */
		union sigval value = { .sival_int = (int)i };

		if (sigqueue(getpid(), SIGRTMIN + 3, value) < 0)
			refused++;
	}
	for (unsigned int i = 0; i < 10; i++) {
		raise(SIGPROF);
		raise(SIGURG);
		burn_ms(20);
	}
	printf("signals: %u received, %u refused\n",
	       atomic_load(&signals_received), refused);
	return 0;
}

static int behave_stop(void)
{
	unsigned int stops = 0;
	int status;
	pid_t child = fork();

	if (child == 0) {
		for (int i = 0; i < 10; i++) {
			raise(SIGSTOP);
			burn_ms(5);
		}
		_exit(9);
	}
	while (waitpid(child, &status, WUNTRACED) == child &&
	       WIFSTOPPED(status)) {
		struct timespec pause = { .tv_nsec = 30000000 };

		stops++;
		nanosleep(&pause, NULL);
		kill(child, SIGCONT);
	}
	printf("stop: %u stops, then exit %d\n", stops,
	       WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 0;
}

static void *end_soon(void *argument)
{
	burn_ms(1);
	return argument;
}

static int behave_threads(void)
{
	unsigned int joined = 0;

	for (uintptr_t i = 1; i <= 500; i++) {
		pthread_t threads[4];
		void *result;

		for (int j = 0; j < 4; j++)
			pthread_create(&threads[j], NULL, end_soon,
				       (void *)(i * 4));
		for (int j = 0; j < 4; j++) {
			pthread_join(threads[j], &result);
			joined += result == (void *)(i * 4);
		}
	}
	printf("threads: %u of 2000 joined\n", joined);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Long enough to be noticed and sampled before it happens. */
	if (strcmp(mode, "exec") != 0)
		burn_ms(300);
	if (!strcmp(mode, "fork"))
		return behave_fork();
	if (!strcmp(mode, "exec") && argc > 2)
		return behave_exec(argv[0][0] == '/' ? argv[0]
						     : "/proc/self/exe",
				   (unsigned int)atoi(argv[2]));
	if (!strcmp(mode, "signals"))
		return behave_signals();
	if (!strcmp(mode, "stop"))
		return behave_stop();
	if (!strcmp(mode, "threads"))
		return behave_threads();
	if (!strcmp(mode, "segv"))
		raise(SIGSEGV);
	if (!strcmp(mode, "abort"))
		abort();
	if (!strcmp(mode, "exit"))
		return 3;
	fprintf(stderr, "usage: behave fork|exec N|signals|stop|threads|segv|"
			"abort|exit\n");
	return 2;
}
