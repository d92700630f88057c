/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the roots of targets. Runs in any thread; must never take another
 * process that got the same pid for the target.
 */
#include "agent/unwind/elf/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/open_file.h"
#include "ringbuf/base/owner.h"

/* Fields of /proc/PID/stat, proc(5). */
#define STAT_START_TIME	 22
#define STAT_VSIZE	 23
#define STAT_START_STACK 28
#define STAT_START_BRK	 47

/* The text of a small procfs file, "" if it cannot be read. */
static void read_text(int dir_fd, const char *name, char *text, size_t size)
{
	FGT_AUTO(fgt_fd_close)
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : pread(fd, text, size - 1, 0);

	text[len > 0 ? len : 0] = '\0';
}

/* 0 if unknown. The name may hold anything, so count from the last ')'. */
static uint64_t find_field(const char *stat, int wanted)
{
	const char *at = strrchr(stat, ')');

	for (int field = 2; at && field < wanted; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

static uint64_t read_start_time(int proc_fd)
{
	char text[1024];

	read_text(proc_fd, "stat", text, sizeof(text));
	return find_field(text, STAT_START_TIME);
}

/* Never waits for the process's memory, as reading its maps may. */
static void read_memory(int proc_fd, struct fgt_target_root *root)
{
	char text[1024];

	read_text(proc_fd, "stat", text, sizeof(text));
	root->mapped_bytes = find_field(text, STAT_VSIZE);
	root->stack_start = find_field(text, STAT_START_STACK);
	root->heap_start = find_field(text, STAT_START_BRK);
}

/* The last number of the line "NSpid:\t…", 0 if there is none. */
static int32_t read_ns_pid(int proc_fd)
{
	char text[8192];
	char *line, *end, *last;

	read_text(proc_fd, "status", text, sizeof(text));
	line = strstr(text, "\nNSpid:");
	if (!line)
		return 0;
	line++;
	end = strchr(line, '\n');
	if (end)
		*end = '\0';
	last = strrchr(line, '\t');
	return last ? (int32_t)strtol(last + 1, NULL, 10) : 0;
}

/* -1: not in time, too. */
static int open_root(int proc_fd, uint32_t uid)
{
	const struct fgt_open_request request = {
		.place = FGT_OPEN_ROOT,
		.dir_fd = proc_fd,
		.uid = uid,
	};
	struct fgt_opened_file root;

	return fgt_file_open(&request, &root) < 0 ? -1 : root.fd;
}

static void open_target(const struct fgt_process_info *process,
			struct fgt_target_root *root)
{
	FGT_AUTO(fgt_fd_close) int proc_fd = -1;
	char path[32];

	if (process->pid <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%" PRId32, process->pid);
	proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc_fd < 0 || read_start_time(proc_fd) != process->start_time)
		return;
	root->ns_pid = read_ns_pid(proc_fd);
	read_memory(proc_fd, root);
	root->target_fd = open_root(proc_fd, (uint32_t)process->uid);
	/* The link leads to "/" if the process has died: check again. */
	if (root->target_fd >= 0 &&
	    read_start_time(proc_fd) != process->start_time)
		fgt_fd_close(FGT_TAKE_FD(root->target_fd));
	root->proc_fd = FGT_TAKE_FD(proc_fd);
}

void fgt_target_root_open(const struct fgt_process_info *process, bool is_live,
			  struct fgt_target_root *ret_root)
{
	char host[sizeof(process->host)] = "";

	ret_root->target_fd = ret_root->proc_fd = -1;
	ret_root->ns_pid = 0;
	ret_root->heap_start = ret_root->stack_start = 0;
	ret_root->mapped_bytes = 0;
	ret_root->uid = (uint32_t)process->uid;
	ret_root->host_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	gethostname(host, sizeof(host) - 1);
	ret_root->is_this_host = is_live || !strcmp(host, process->host);
	if (is_live)
		open_target(process, ret_root);
}

void fgt_target_root_close(struct fgt_target_root *root)
{
	fgt_fd_close(root->proc_fd);
	fgt_fd_close(root->target_fd);
	fgt_fd_close(root->host_fd);
	root->proc_fd = root->target_fd = root->host_fd = -1;
}
