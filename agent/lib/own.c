/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits and files of the library in the program. The functions for files run
 * in a constructor: before main(), or in dlopen(3), where other threads may
 * read the environment. They open no file.
 */
#include "agent/lib/own.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"

void fgt_own_wait(sem_t *semaphore, uint64_t until_ns)
{
	const struct timespec until = fgt_timespec_of(until_ns);

	while (sem_clockwait(semaphore, CLOCK_MONOTONIC, &until) < 0 &&
	       errno == EINTR)
		;
}

/* Length of the mark for the number of the process, 0: there is none here. */
static size_t mark_len(const char *at)
{
	static const char *const marks[] = { "{pid}", "%p" };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strncmp(at, marks[i], strlen(marks[i])) == 0)
			return strlen(marks[i]);
	return 0;
}

/* Absolute, because the program may change its directory. */
int fgt_own_file_path(const char *text, char *ret_path, size_t size,
		      bool *ret_is_numbered)
{
	bool is_numbered = false;
	size_t len = 0;

	if (text[0] != '/') {
		if (!getcwd(ret_path, size - 1))
			return errno == ERANGE ? -ENAMETOOLONG : -errno;
		len = strlen(ret_path);
		ret_path[len++] = '/';
	}
	while (*text && len < size - 1) {
		size_t mark = mark_len(text);

		if (!mark) {
			ret_path[len++] = *text++;
			continue;
		}
		is_numbered = true;
		len += (size_t)snprintf(ret_path + len, size - len, "%d",
					(int)getpid());
		text += mark;
	}
	if (len >= size - 1)
		return -ENAMETOOLONG;
	ret_path[len] = '\0';
	*ret_is_numbered = is_numbered;
	return 0;
}

/* The variable has the path, too: a child that gets another path writes
 * another file. */
enum fgt_own_file fgt_own_file_take(const char *variable, const char *path)
{
	const char *owner = getenv(variable);
	const char *colon = owner ? strchr(owner, ':') : NULL;
	char own[PATH_MAX + 16];

	snprintf(own, sizeof(own), "%d:%s", (int)getpid(), path);
	if (owner && strcmp(owner, own) == 0)
		return FGT_OWN_FILE_MINE;
	if (colon && strcmp(colon + 1, path) == 0)
		return FGT_OWN_FILE_ANOTHERS;
	/* setenv() moves what getenv() in another thread reads. */
	if (__libc_single_threaded)
		setenv(variable, own, 1);
	return FGT_OWN_FILE_NEW;
}
