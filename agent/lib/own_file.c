/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files and whose they are. Runs in a constructor: before main(), or in
 * dlopen(3), where other threads may read the environment. Opens nothing.
 */
#include "agent/lib/own_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <unistd.h>

/* How long the mark is that stands for the number of the process; 0: none. */
static size_t mark_len(const char *at)
{
	static const char *const marks[] = { "{pid}", "%p" };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strncmp(at, marks[i], strlen(marks[i])) == 0)
			return strlen(marks[i]);
	return 0;
}

/* The program may leave its folder. */
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

/* The path stands there, too: who names another file for a child means it. */
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
	/* It moves what getenv(3) of another thread is reading. */
	if (__libc_single_threaded)
		setenv(variable, own, 1);
	return FGT_OWN_FILE_NEW;
}
