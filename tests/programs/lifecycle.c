/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that change under the sampler: each mode burns or blocks in
 * functions whose names show which process and which image they belong to.
 *
 * lifecycle fork|exec|names|sleepers|reuse N SECONDS
 *
 * Prints "ready PID". reuse: a thread ends, and the next one gets its number
 * (needs to set it): prints "reused TID", 0 if it could not be had.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t anchor;

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define DEFINE_WORK(name, factor)                                              \
	static NOINLINE void name(double seconds)                              \
	{                                                                      \
		double end = now_seconds() + seconds;                          \
                                                                               \
		do {                                                           \
			for (unsigned int i = 0; i < 5000; i++)                \
				anchor = anchor * factor + i;                  \
		} while (now_seconds() < end);                                 \
	}
DEFINE_WORK(parent_work, 33)
DEFINE_WORK(child_work, 35)
DEFINE_WORK(before_exec_work, 37)
DEFINE_WORK(after_exec_work, 39)
DEFINE_WORK(named_work, 41)

static NOINLINE void never_runs_again(double seconds)
{
	usleep((useconds_t)(seconds * 1e6));
	anchor++;
}

static void *sleep_once(void *argument)
{
	never_runs_again(*(double *)argument);
	return NULL;
}

static void *work_named(void *argument)
{
	/* The most hostile names that prctl takes (15 bytes). */
	static const char *const names[] = { "a) R 1 (b", "new\nline",
					     "ü;<x>\"\\", "\033[31mred" };
	static unsigned int next;

	prctl(PR_SET_NAME, names[next++ % 4], 0, 0, 0);
	named_work(*(double *)argument / 4);
	return NULL;
}

/* No two functions are equal: the compiler would merge them. */
static NOINLINE void first_life(double seconds)
{
	usleep((useconds_t)(seconds * 1e6));
	anchor += 2;
}

static NOINLINE void second_life(double seconds)
{
	usleep((useconds_t)(seconds * 1e6));
	anchor += 3;
}

struct life {
	void (*live)(double seconds);
	const char *name;
	double seconds;
	pid_t wanted; /* lives on only if it is this one */
	pid_t tid;
};

static void *live(void *argument)
{
	struct life *life = argument;

	life->tid = gettid();
	prctl(PR_SET_NAME, life->name, 0, 0, 0);
	if (!life->wanted || life->wanted == life->tid)
		life->live(life->seconds);
	return NULL;
}

static void set_last_pid(int fd, pid_t pid)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", (int)pid);

	if (fd < 0 || pwrite(fd, text, (size_t)len, 0) != len)
		anchor++;
}

/* Other processes take numbers, too: so tries several times. */
static void reuse_number(double seconds)
{
	struct life first = { first_life, "first", seconds / 2, 0, 0 };
	struct life second = { second_life, "second", seconds / 2, 0, 0 };
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	pthread_t thread;

	pthread_create(&thread, NULL, live, &first);
	pthread_join(thread, NULL);
	second.wanted = first.tid;
	for (int i = 0; i < 1000 && second.tid != first.tid; i++) {
		set_last_pid(fd, first.tid - 1);
		pthread_create(&thread, NULL, live, &second);
		pthread_join(thread, NULL);
	}
	printf("reused %d\n", second.tid == first.tid ? (int)first.tid : 0);
	fflush(stdout);
}

static void run_threads(unsigned int count, void *(*run)(void *),
			double *seconds)
{
	pthread_t *threads = calloc(count, sizeof(*threads));

	for (unsigned int i = 0; threads && i < count; i++) {
		pthread_create(&threads[i], NULL, run, seconds);
		if (run == work_named)
			usleep(1000);
	}
	for (unsigned int i = 0; threads && i < count; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 3 ? argv[1] : "";
	unsigned int count = argc > 3 ? (unsigned int)atoi(argv[2]) : 0;
	double seconds = argc > 3 ? atof(argv[3]) : 0;

	if (!strcmp(mode, "after")) {
		after_exec_work(seconds);
		return 0;
	}
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(mode, "fork")) {
		if (fork() == 0) {
			child_work(seconds);
			_exit(0);
		}
		parent_work(seconds);
		wait(NULL);
	} else if (!strcmp(mode, "exec")) {
		before_exec_work(seconds);
		execl("/proc/self/exe", "lifecycle", "after", "0", argv[3],
		      (char *)NULL);
	} else if (!strcmp(mode, "names")) {
		run_threads(4, work_named, &seconds);
	} else if (!strcmp(mode, "reuse")) {
		reuse_number(seconds);
		usleep(200000);
	} else if (!strcmp(mode, "sleepers")) {
		run_threads(count, sleep_once, &seconds);
	} else {
		fprintf(stderr, "usage: lifecycle "
				"fork|exec|names|sleepers|reuse N SECONDS\n");
		return 2;
	}
	return 0;
}
