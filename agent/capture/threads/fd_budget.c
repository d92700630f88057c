/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that are kept open. Runs in the sampler's thread, and at the end
 * of a target in the thread that lets go of it when no sampler runs any more.
 */
#include "agent/capture/threads/fd_budget.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"

#define LIMIT_MAX     200000u
#define RESERVE_MIN   64u /* for sockets, files, the images of targets */
#define RESERVE_MAX   4096u
#define LIMIT_UNKNOWN 1024u
#define FREE_SHARE    4u /* of the numbers that are free: one in so many */

void fgt_fd_budget_init(struct fgt_fd_budget *budget)
{
	struct rlimit limit = { .rlim_cur = LIMIT_UNKNOWN };
	size_t total, reserve;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    limit.rlim_cur < limit.rlim_max) {
		rlim_t before = limit.rlim_cur;

		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			limit.rlim_cur = before;
	}
	total = limit.rlim_cur > LIMIT_MAX ? LIMIT_MAX : (size_t)limit.rlim_cur;
	reserve = total / 4;
	if (reserve < RESERVE_MIN)
		reserve = RESERVE_MIN;
	if (reserve > RESERVE_MAX)
		reserve = RESERVE_MAX;
	budget->limit = total > reserve ? total - reserve : 0;
	budget->used = 0;
}

void fgt_fd_budget_claim(struct fgt_fd_budget *budget)
{
	struct rlimit limit = { .rlim_cur = LIMIT_UNKNOWN };
	size_t free;

	getrlimit(RLIMIT_NOFILE, &limit);
	budget->limit = limit.rlim_cur / 8 > FGT_FD_MODEST_MAX
				? FGT_FD_MODEST_MAX
				: (size_t)limit.rlim_cur / 8;
	free = budget->used + fgt_fd_apart_count_free(
				      (unsigned int)budget->limit * FREE_SHARE);
	budget->is_tight = budget->limit > free / FREE_SHARE;
	if (budget->is_tight)
		budget->limit = free / FREE_SHARE;
}

void fgt_fd_budget_forgo(struct fgt_fd_budget *budget)
{
	budget->limit = 0;
	budget->is_tight = true;
}

void fgt_fd_budget_init_modest(struct fgt_fd_budget *budget)
{
	budget->used = 0;
	fgt_fd_budget_claim(budget);
	budget->is_modest = true;
	for (size_t i = 0; i < FGT_FD_MODEST_MAX; i++)
		budget->kept[i] = -1;
}

/* Puts one number in the place of another: -1 is that of a free place. */
static void replace(struct fgt_fd_budget *budget, int before, int after)
{
	for (size_t i = 0; budget->is_modest && i < FGT_FD_MODEST_MAX; i++)
		if (budget->kept[i] == before) {
			budget->kept[i] = after;
			return;
		}
}

void fgt_fd_budget_forked(const struct fgt_fd_budget *budget)
{
	for (size_t i = 0; budget->is_modest && i < FGT_FD_MODEST_MAX; i++)
		fgt_fd_close(budget->kept[i]);
}

bool fgt_fd_budget_take(struct fgt_fd_budget *budget)
{
	if (budget->used >= budget->limit)
		return false;
	budget->used++;
	return true;
}

void fgt_fd_budget_close(struct fgt_fd_budget *budget, int *fd)
{
	if (*fd < 0)
		return;
	replace(budget, *fd, -1);
	fgt_fd_close(FGT_TAKE_FD(*fd));
	budget->used--;
}

void fgt_fd_budget_note(struct fgt_fd_budget *budget, int error)
{
	if (!budget->is_modest || (error != -EMFILE && error != -ENFILE))
		return;
	budget->is_short = true;
	budget->is_system_short = error == -ENFILE;
}

static int open_file(int task_fd, int32_t tid, const char *name)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "%d/%s", tid, name);
	fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* -ESRCH: the thread has ended. Else, in a process that records itself, the
 * number may be another file's now. */
static int explain_error(struct fgt_fd_budget *budget, int *fd, int error)
{
	if (error == -ESRCH || !budget->is_modest)
		return error;
	if (!fgt_fd_apart_is_kept(*fd)) {
		fgt_fd_budget_close(budget, fd);
		error = -EBADF;
	}
	budget->has_lost |= error == -EBADF || error == -ENOTDIR;
	return error;
}

void fgt_fd_budget_doubt(struct fgt_fd_budget *budget, int *fd)
{
	(void)explain_error(budget, fd, -EBADMSG);
}

int fgt_fd_budget_read(struct fgt_fd_budget *budget, int *fd, int task_fd,
		       int32_t tid, const char *name, char *buffer, size_t size)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	FGT_AUTO(fgt_fd_close) int opened = -1;
	ssize_t len;

	if (*fd < 0) {
		opened = open_file(task_fd, tid, name);
		if (opened < 0) {
			fgt_call_leave(heartbeat, -1);
			fgt_fd_budget_note(budget, opened);
			return explain_error(budget, fd, opened);
		}
	}
	do {
		len = pread(*fd < 0 ? opened : *fd, buffer, size - 1, 0);
	} while (len < 0 && errno == EINTR);
	fgt_call_leave(heartbeat, opened);
	if (len < 0)
		return explain_error(budget, fd, -errno);
	buffer[len] = '\0';
	if (opened >= 0 && fgt_fd_budget_take(budget)) {
		opened = fgt_fd_apart(opened);
		replace(budget, -1, opened);
		*fd = FGT_TAKE_FD(opened);
	}
	return (int)len;
}
