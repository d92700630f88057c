/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of children and threads in other PID namespaces. Runs in the
 * sampler's thread; must not read the memory of a process (as maps and cmdline
 * do).
 */
#include "agent/capture/threads/child_pid.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"

#define STATUS_BYTES 4096
#define LEVELS_MAX   32 /* the kernel's MAX_PID_NS_LEVEL */
#define CHILDREN_MAX 128

/* A process's numbers, from the namespace of /proc inwards. Returns how many;
 * 0: not known. */
static unsigned int read_numbers(int dir_fd, const char *path,
				 int32_t numbers[LEVELS_MAX])
{
	char text[STATUS_BYTES];
	unsigned int count = 0;
	char *at;

	if (fgt_procfs_read(dir_fd, path, text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "\nNSpid:");
	at = at ? at + strlen("\nNSpid:") : NULL;
	while (at && *at == '\t' && count < LEVELS_MAX)
		numbers[count++] = (int32_t)strtol(at + 1, &at, 10);
	return count;
}

/* level: of the target, 1 for the namespace of /proc. */
static bool is_called(int32_t pid, unsigned int level, int32_t number)
{
	int32_t numbers[LEVELS_MAX];
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return read_numbers(AT_FDCWD, path, numbers) >= level &&
	       numbers[level - 1] == number;
}

static int32_t find_child(int proc_fd, int32_t tid, unsigned int level,
			  int32_t number, uint32_t *reads_left)
{
	char path[32], text[CHILDREN_MAX * 8];
	char *at = text;

	snprintf(path, sizeof(path), "task/%d/children", tid);
	if (fgt_procfs_read(proc_fd, path, text, sizeof(text)) < 0)
		return 0;
	for (unsigned int i = 0; i < CHILDREN_MAX && *reads_left != 0; i++) {
		char *end;
		int32_t pid = (int32_t)strtol(at, &end, 10);

		/* The last number may have been cut. */
		if (end == at || *end != ' ')
			return 0;
		--*reads_left;
		if (is_called(pid, level, number))
			return pid;
		at = end;
	}
	return 0;
}

int32_t fgt_child_pid(int proc_fd, int32_t pid, int32_t tid, int32_t number,
		      uint32_t *reads_left)
{
	int32_t numbers[LEVELS_MAX], child;
	unsigned int level = read_numbers(proc_fd, "status", numbers);

	if (level <= 1)
		return level ? number : 0;
	child = find_child(proc_fd, tid, level, number, reads_left);
	return child || tid == pid
		       ? child
		       : find_child(proc_fd, pid, level, number, reads_left);
}

unsigned int fgt_pid_level(int proc_fd)
{
	int32_t numbers[LEVELS_MAX];

	return read_numbers(proc_fd, "status", numbers);
}

int32_t fgt_pid_number(int task_fd, int32_t tid, unsigned int level)
{
	int32_t numbers[LEVELS_MAX];
	char path[32];

	snprintf(path, sizeof(path), "%d/status", tid);
	return read_numbers(task_fd, path, numbers) >= level
		       ? numbers[level - 1]
		       : 0;
}
