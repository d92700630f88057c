/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread or process is waited for; the holder of a lock, by the number that
 * the target has written into it: that of its PID namespace. Runs in the
 * sampler's thread; must not take longer because a program has many threads.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/capture/look/look_parts.h"
#include "agent/capture/threads/child_pid.h"
#include "agent/capture/threads/file_lock.h"
#include "agent/capture/threads/lock_table.h"
#include "agent/capture/threads/owner.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define NUMBERS		1024u
#define READS_MAX	32u /* of a tick: 10 µs each */
#define OTHER_COST	4u /* such reads */
#define OTHER_TICKS_MAX 100u /* until it is looked for again */
/* Of a process, which are searched for a lock. */
#define DESCRIPTORS_MAX 64
#define SEARCH_MAX_NS	1000000u
/* Beside two ticks: so old the table of locks may be. */
#define TABLE_OLD_NS 200000000u

struct fgt_look_number {
	int32_t tid, number; /* 0: none */
	uint32_t start_time;
};

/* What hides processes of others from a user must not be undone here; those of
 * root are for root. */
bool fgt_look_may_name(const struct fgt_process *process, int32_t pid)
{
	FGT_AUTO(fgt_fd_close) int folder_fd = -1;
	struct fgt_owner own, other;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	folder_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return folder_fd >= 0 &&
	       fgt_owner_read_at(process->proc_fd, &own) == 0 &&
	       fgt_owner_read_at(folder_fd, &other) == 0 &&
	       (own.uid == 0 || own.uid == other.uid);
}

static bool take_reads(struct fgt_look *look, uint32_t count)
{
	struct fgt_look_holders *holders = &look->holders;

	if (holders->tick != look->tick) {
		holders->tick = look->tick;
		holders->reads_left = READS_MAX;
	}
	if (holders->reads_left < count)
		return false;
	holders->reads_left -= count;
	return true;
}

/* One of the process that has not ended; 0 if not. */
static int32_t check_own(const struct fgt_look *look, int32_t tid)
{
	const struct fgt_thread *thread =
		fgt_thread_table_find(&look->threads, tid);

	return thread && !thread->is_ended ? tid : 0;
}

/* False: one of the next ticks goes on. */
static bool read_number(struct fgt_look *look, const struct fgt_thread *thread,
			int32_t *ret_number)
{
	struct fgt_look_number *known =
		&look->holders.numbers[(uint32_t)thread->tid % NUMBERS];

	if (known->tid != thread->tid ||
	    known->start_time != thread->start_time) {
		if (!take_reads(look, 1))
			return false;
		*known = (struct fgt_look_number){
			.tid = thread->tid,
			.number = fgt_pid_number(look->process.task_fd,
						 thread->tid,
						 look->holders.level),
			.start_time = thread->start_time,
		};
	}
	*ret_number = known->number;
	return true;
}

static int32_t find_numbered(struct fgt_look *look, struct fgt_thread *waiting,
			     int32_t number)
{
	const struct fgt_thread *thread = NULL;
	int32_t found;

	if (!look->holders.numbers &&
	    !FGT_ARRAY_NEW(look->holders.numbers, NUMBERS))
		return 0;
	while ((thread = fgt_thread_table_next(&look->threads, thread))) {
		if (!read_number(look, thread, &found)) {
			waiting->is_incomplete = look->stacks.is_late = true;
			return 0;
		}
		if (found == number)
			return thread->is_ended ? 0 : thread->tid;
	}
	return 0;
}

/* A thread of another process has a directory of that name, too. */
static int32_t check_other(struct fgt_look *look, int32_t tid)
{
	struct fgt_look_holders *holders = &look->holders;
	uint32_t at = (uint32_t)tid % FGT_LOOK_HOLDERS;

	if (holders->others[at].tid == tid &&
	    look->tick - holders->others[at].tick < OTHER_TICKS_MAX)
		return tid;
	if (!take_reads(look, OTHER_COST) ||
	    !fgt_look_may_name(&look->process, tid))
		return 0;
	holders->others[at].tid = tid;
	holders->others[at].tick = look->tick;
	return tid;
}

int32_t fgt_look_find_holder(struct fgt_look *look, struct fgt_thread *thread,
			     int32_t number, bool is_shared)
{
	int32_t tid;

	/* Its /proc is that of its namespace. */
	if (look->is_embedded)
		return check_own(look, number);
	if (!look->holders.level && take_reads(look, 1))
		look->holders.level = fgt_pid_level(look->process.proc_fd);
	if (look->holders.level > 1)
		return find_numbered(look, thread, number);
	tid = check_own(look, number);
	return tid || !is_shared || !look->holders.level
		       ? tid
		       : check_other(look, number);
}

void fgt_look_name_holder(const struct fgt_look *look, struct fgt_wait *wait)
{
	char path[32];

	if ((wait->kind != FGT_WAIT_MUTEX && wait->kind != FGT_WAIT_RWLOCK &&
	     wait->kind != FGT_WAIT_PI_LOCK) ||
	    !wait->owner_tid ||
	    fgt_thread_table_find(&look->threads, wait->owner_tid))
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", wait->owner_tid);
	if (fgt_procfs_read_line(AT_FDCWD, path, wait->text,
				 sizeof(wait->text)) < 0)
		wait->text[0] = '\0';
}

/* Where the reads of the tick do not suffice, one of the next ticks goes on. */
int32_t fgt_look_find_child(struct fgt_look *look, struct fgt_thread *thread,
			    int32_t number, char *text, size_t size)
{
	uint32_t before = look->child_reads_left;
	int32_t pid = before ? fgt_child_pid(look->process.proc_fd,
					     look->process.pid, thread->tid,
					     number, &look->child_reads_left)
			     : 0;
	char path[32];

	if (!pid && !look->child_reads_left && before < FGT_LOOK_CHILD_READS)
		thread->is_incomplete = look->stacks.is_late = true;
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (size &&
	    (!pid || fgt_procfs_read_line(AT_FDCWD, path, text, size) < 0))
		text[0] = '\0';
	return pid;
}

bool fgt_look_is_number(const struct fgt_look *look, int32_t tid,
			int32_t number)
{
	const struct fgt_look_holders *holders = &look->holders;
	const struct fgt_look_number *known;

	if (look->is_embedded || holders->level <= 1)
		return tid == number;
	known = holders->numbers ? &holders->numbers[(uint32_t)tid % NUMBERS]
				 : NULL;
	return known && known->tid == tid && known->number == number;
}

/* Of several threads the kernel does not know which one has the lock. */
static bool has_one_thread(int32_t pid)
{
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return fgt_procfs_status(AT_FDCWD, path, &status) == 0 &&
	       status.st_nlink == 3;
}

/* The table has who took it. Others may have the open file by now, and that
 * process not any more. Of another user's descriptors those of files only are
 * read: the kernel may wait for a lock of others. */
static bool has_flock(int32_t pid)
{
	uint64_t until_ns = fgt_clock_ns(CLOCK_MONOTONIC) + SEARCH_MAX_NS;
	char path[48], text[1024];

	for (int i = 0; i < DESCRIPTORS_MAX; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
		if (fgt_procfs_link(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
		    text[0] != '/')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", pid, i);
		if (fgt_procfs_read(AT_FDCWD, path, text, sizeof(text)) > 0 &&
		    fgt_file_lock_is_flock_of(text, pid))
			return true;
		if (fgt_clock_ns(CLOCK_MONOTONIC) > until_ns)
			break;
	}
	return false;
}

const char *fgt_look_file_locks(const struct fgt_look *look, uint64_t since_ns,
				bool *ret_is_whole)
{
	uint64_t age_ns = TABLE_OLD_NS + 2 * look->elapsed_ns;
	uint64_t oldest_ns = look->tick_ns > age_ns ? look->tick_ns - age_ns
						    : 0;

	return fgt_lock_table_get(look->tick_ns,
				  since_ns > oldest_ns ? since_ns : oldest_ns,
				  ret_is_whole);
}

bool fgt_look_find_file_lock(struct fgt_look *look, struct fgt_thread *thread,
			     bool is_flock, uint64_t since_ns, char *text,
			     size_t size, int32_t *ret_tid)
{
	int32_t pid, own_pid = look->process.pid;
	char path[32], name[32];
	bool is_whole = false, is_certain;
	const char *locks;

	/* A program that records itself gets no thread for this. */
	if (look->is_embedded)
		return false;
	if (!look->file_locks_left) {
		thread->is_incomplete = look->stacks.is_late = true;
		return false;
	}
	locks = fgt_look_file_locks(look, since_ns, &is_whole);
	if (!locks) {
		thread->needs_look = true; /* at the next tick */
		return false;
	}
	look->file_locks_left--;
	pid = fgt_file_lock_holder(locks, own_pid, is_flock);
	if (!pid)
		return false;
	*ret_tid = 0;
	if (!fgt_look_may_name(&look->process, pid)) {
		snprintf(text, size, "a process of another user");
		return true;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (fgt_procfs_read_line(AT_FDCWD, path, name, sizeof(name)) < 0)
		return false;
	is_certain = is_whole && (!is_flock || has_flock(pid));
	if (is_certain && has_one_thread(pid))
		*ret_tid = pid;
	snprintf(text, size, "%s (pid %d)%s", name, pid,
		 is_certain && fgt_file_lock_leads_to(locks, pid, own_pid)
			 ? ", which waits for this process"
			 : "");
	return true;
}
