/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time, busy threads, and the library by its interface: loaded, not linked, so
 * that the same program also runs without it.
 */
#include "zoo.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/lib/fgtrace.h"

#define NS_PER_SEC 1000000000ull

static volatile uint64_t anchor;

#ifdef ZOO_STATIC
int zoo_try_begin(void)
{
	return 0;
}

void zoo_begin(void)
{
}

void zoo_end(void)
{
}
#else
static void *library;

static void *need(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		printf("%s is missing\n", name);
		exit(3);
	}
	return found;
}

int zoo_try_begin(void)
{
	const char *mode = getenv("ZOO_START");
	const char *path = getenv("ZOO_LIBRARY");
	struct fgt_options options = { .size = sizeof(options), .hz = 1000 };
	int (*start)(const struct fgt_options *options);
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!mode || !path)
		return 0;
	options.mode = strcmp(mode, "agent") == 0 ? FGT_AGENT : FGT_EMBEDDED;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		printf("%s\n", dlerror());
		exit(3);
	}
	start = (int (*)(const struct fgt_options *))need("fgt_start");
	rc = start(&options);
	printf("# fgt_start %d\n", rc);
	return rc;
}

void zoo_begin(void)
{
	if (zoo_try_begin() < 0)
		exit(3);
}

void zoo_end(void)
{
	const char *path = getenv("ZOO_OUT");
	int (*cut)(uint64_t, uint64_t, struct fgt_slice **);
	int (*put)(const struct fgt_slice *, enum fgt_format, int);
	void (*stop)(void), (*done)(struct fgt_slice *);
	struct fgt_slice *slice = NULL;
	int fd, rc;

	if (!library)
		return;
	cut = (int (*)(uint64_t, uint64_t, struct fgt_slice **))need(
		"fgt_get_slice");
	put = (int (*)(const struct fgt_slice *, enum fgt_format, int))need(
		"fgt_slice_write");
	stop = (void (*)(void))need("fgt_stop");
	done = (void (*)(struct fgt_slice *))need("fgt_slice_free");
	rc = cut(zoo_now_ns() - 20 * NS_PER_SEC, zoo_now_ns(), &slice);
	printf("# fgt_get_slice %d\n", rc);
	if (rc == 0 && path) {
		fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
		printf("# fgt_slice_write %d\n",
		       put(slice, FGT_FORMAT_FGT, fd));
		close(fd);
	}
	done(slice);
	stop();
}
#endif

uint64_t zoo_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

ZOO_NOINLINE void zoo_burn_ms(unsigned int ms)
{
	uint64_t end_ns = zoo_now_ns() + ms * 1000000ull;

	do {
		for (unsigned int i = 0; i < 2000; i++)
			anchor = anchor * 31 + i;
	} while (zoo_now_ns() < end_ns);
}

/* Sleeps to the end also after EINTR; tests of EINTR sleep themselves. */
void zoo_sleep_ms(unsigned int ms)
{
	uint64_t end_ns = zoo_now_ns() + ms * 1000000ull;
	struct timespec until = { .tv_sec = (time_t)(end_ns / NS_PER_SEC),
				  .tv_nsec = (long)(end_ns % NS_PER_SEC) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		continue;
}

static void *burn_on(void *argument)
{
	(void)argument;
	for (;;)
		zoo_burn_ms(100);
	return NULL;
}

void zoo_start_burners(unsigned int count)
{
	pthread_t thread;

	for (unsigned int i = 0; i < count; i++)
		if (pthread_create(&thread, NULL, burn_on, NULL) == 0)
			pthread_detach(thread);
}

int zoo_our_signal(void)
{
	struct sigaction action;

	for (int number = 1; number <= SIGRTMAX; number++)
		if (sigaction(number, NULL, &action) == 0 &&
		    action.sa_handler != SIG_DFL &&
		    action.sa_handler != SIG_IGN)
			return number;
	return SIGURG;
}

void zoo_handle(int number, void (*handler)(int number), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	if (sigaction(number, &action, NULL) < 0) {
		perror("sigaction");
		exit(3);
	}
}

unsigned int zoo_count_lines(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned int count = 0;
	int c;

	if (!file)
		return 0;
	while ((c = getc(file)) != EOF)
		count += c == '\n';
	fclose(file);
	return count;
}

unsigned int zoo_count_entries(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	unsigned int count = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

bool zoo_note(const char *what, unsigned long wrong)
{
	printf("%s: %lu wrong\n", what, wrong);
	return wrong != 0;
}
