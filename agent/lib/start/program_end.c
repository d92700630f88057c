/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose first thread has left by pthread_exit() ends with its last
 * thread, which the library's threads would never let come (fault S20). Runs on
 * the worker, and in a thread that calls exit().
 */
#include "agent/lib/start/program_end.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/lib/start/start.h"
#include "ringbuf/base/thread.h"

#define EXIT_STACK_BYTES 0 /* as usual: handlers of the program run on it */
#define EXIT_CODE_FIELD	 52 /* of /proc/PID/stat */

/* Threads of the library that never run code of the program: theirs would have
 * the same name. */
static const char *const own_names[] = {
	"fgt-sender\n",
	"fgt-sampler\n",
	"fgt-activity\n",
	"fgt-perf\n",
};

/* Without a descriptor, whose number the program may be about to use. */
static bool has_first_thread(void)
{
	char path[1];

	return readlink("/proc/self/exe", path, sizeof(path)) >= 0 ||
	       errno != ENOENT;
}

/* NULL: no such file, or it is empty. */
static const char *read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	const char *read;

	if (!file)
		return NULL;
	read = fgets(line, (int)size, file);
	(void)fclose(file);
	return read;
}

/* Of the library, or the kernel's for io_uring; or it has just ended. The worker
 * calls the program's log, which may start threads: those inherit its name. */
static bool is_own_thread(const char *tid)
{
	char path[64], name[32];

	if (atoi(tid) == gettid())
		return true;
	snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", tid);
	if (!read_line(path, name, sizeof(name)))
		return errno == ENOENT || errno == ESRCH;
	for (size_t i = 0; i < sizeof(own_names) / sizeof(*own_names); i++)
		if (!strcmp(name, own_names[i]))
			return true;
	return !strncmp(name, "iou-", strlen("iou-"));
}

static bool has_other_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	bool has_others = false;

	if (!tasks)
		return true;
	while (!has_others && (task = readdir(tasks)))
		has_others = task->d_name[0] != '.' &&
			     atoi(task->d_name) != getpid() &&
			     !is_own_thread(task->d_name);
	(void)closedir(tasks);
	return has_others;
}

/* What the first thread ended with; 0 where it cannot be read. */
static int read_exit_code(void)
{
	char line[1024], *at = NULL;
	int code = 0;

	if (read_line("/proc/self/stat", line, sizeof(line)))
		at = strrchr(line, ')');
	for (int field = 2; at && field < EXIT_CODE_FIELD; field++)
		at = strchr(at + 1, ' ');
	if (at)
		code = (int)strtol(at, NULL, 10) >> 8 & 0xff;
	return code;
}

/* As libc for the last thread. Where the first one left by a system call no
 * handler runs; the status is that of the thread which ended last. */
static void *leave(void *context)
{
	const struct fgt_program_end *end = context;
	int code = read_exit_code();
	sigset_t none;

	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	if (code == 0)
		exit(0);
	fgt_preload_end();
	_exit(end->first_ended_before ? 0 : code);
}

uint64_t fgt_program_end_check(struct fgt_program_end *end, uint64_t now_ns)
{
	/* A filter of system calls that the program has set may be deadly. */
	if (end->has_begun || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0 ||
	    has_first_thread())
		return UINT64_MAX;
	if (has_other_threads())
		end->first_ended_before = true;
	else
		end->has_begun = fgt_thread_start(EXIT_STACK_BYTES, leave, end,
						  NULL) == 0;
	return now_ns + FGT_PROGRAM_END_CHECK_NS;
}
