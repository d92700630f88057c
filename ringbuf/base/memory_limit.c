/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of memory groups. Runs in any thread; must not take a file that is
 * not there for a limit.
 */
#include "ringbuf/base/memory_limit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

#define GROUPS_BYTES 8192

/* A whole small file, as text; "" if it cannot be read. */
static void read_text(const char *path, char *text, size_t size)
{
	FGT_AUTO(fgt_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, size - 1);

	text[len > 0 ? len : 0] = '\0';
}

static uint64_t read_limit(const char *path)
{
	char text[32], *end;
	unsigned long long limit;

	read_text(path, text, sizeof(text));
	limit = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : limit; /* "max" */
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Of the group and of those above it, the top of the mount included. */
static uint64_t read_groups(const char *mount, const char *group,
			    const char *file)
{
	uint64_t limit = UINT64_MAX;
	char path[PATH_MAX];
	size_t len = strlen(group);

	for (;;) {
		if (snprintf(path, sizeof(path), "%s%.*s/%s", mount, (int)len,
			     group, file) < (int)sizeof(path))
			limit = least(limit, read_limit(path));
		if (len == 0)
			return limit;
		while (len > 0 && group[--len] != '/')
			;
	}
}

static bool has_memory(const char *controllers)
{
	char *rest = NULL, copy[256];

	snprintf(copy, sizeof(copy), "%s", controllers);
	for (char *name = strtok_r(copy, ",", &rest); name;
	     name = strtok_r(NULL, ",", &rest))
		if (!strcmp(name, "memory"))
			return true;
	return false;
}

/* NUMBER:CONTROLLERS:PATH; version 2 names no controllers. */
static uint64_t read_line(const char *mount, char *line)
{
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;
	char memory[PATH_MAX];

	if (!group)
		return UINT64_MAX;
	*group++ = '\0';
	if (!*++controllers)
		return read_groups(mount, group, "memory.max");
	if (!has_memory(controllers) ||
	    snprintf(memory, sizeof(memory), "%s/memory", mount) >=
		    (int)sizeof(memory))
		return UINT64_MAX;
	return read_groups(memory, group, "memory.limit_in_bytes");
}

uint64_t fgt_memory_limit_read(const char *groups_path, const char *mount)
{
	char text[GROUPS_BYTES], *rest = NULL;
	uint64_t limit = UINT64_MAX;

	read_text(groups_path, text, sizeof(text));
	for (char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		limit = least(limit, read_line(mount, line));
	return limit;
}

uint64_t fgt_memory_limit(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	uint64_t memory =
		pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE)
			  : UINT64_MAX;

	return least(memory, fgt_memory_limit_read("/proc/self/cgroup",
						   "/sys/fs/cgroup"));
}
