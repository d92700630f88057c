/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a target's threads. Runs in the sampler's thread; must not
 * grow beyond FGT_THREADS_MAX whatever the target does.
 */
#include "agent/capture/threads/thread_table.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/heartbeat.h"

#define PF_IO_WORKER   0x00000010u /* include/linux/sched.h */
#define PF_USER_WORKER 0x00004000u
#define PF_KTHREAD     0x00200000u

#define THREADS_PER_SCAN 64u /* listing so many costs about one read */

int fgt_thread_table_init(struct fgt_thread_table *threads, int task_fd,
			  const char *process_name,
			  struct fgt_fd_budget *budget, struct fgt_ring *ring)
{
	*threads = (struct fgt_thread_table){
		.task_fd = task_fd,
		.process_name = process_name,
		.budget = budget,
		.ring = ring,
		.is_stale = true,
		.last_pid = -1,
		.last_pid_fd = -1,
	};
	return fgt_thread_store_init(&threads->table);
}

static void free_thread(struct fgt_thread_table *threads,
			struct fgt_thread *thread)
{
	struct fgt_thread_aside *aside;

	fgt_thread_table_deactivate(threads, thread);
	if (threads->on_free)
		threads->on_free(threads->context, thread);
	aside = fgt_thread_store_find_aside(&threads->table, thread);
	if (aside)
		fgt_fd_budget_close(threads->budget, &aside->schedstat_fd);
	fgt_thread_store_remove(&threads->table, thread);
}

void fgt_thread_table_done(struct fgt_thread_table *threads)
{
	struct fgt_thread *thread = NULL;

	while ((thread = fgt_thread_table_next(threads, thread)))
		free_thread(threads, thread);
	fgt_thread_store_done(&threads->table);
	fgt_thread_table_free_active(threads);
}

struct fgt_thread *fgt_thread_table_find(const struct fgt_thread_table *threads,
					 int32_t tid)
{
	return fgt_thread_store_find(&threads->table, tid);
}

/* What stat shows of a thread; false if it is gone. */
static bool read_identity(const struct fgt_thread_table *threads, int32_t tid,
			  struct fgt_stat *ret_stat)
{
	int rc = fgt_stat_read(threads->task_fd, "", tid, ret_stat);

	fgt_fd_budget_note(threads->budget, rc);
	return rc == 0;
}

/* A thread of the kernel inside the process (io_uring): no user stack. */
static bool is_worker(const struct fgt_stat *stat)
{
	return stat->flags & (PF_IO_WORKER | PF_USER_WORKER | PF_KTHREAD);
}

/* The sampler and the library's threads, in a process that samples itself. */
static bool is_excluded(const struct fgt_thread_table *threads, int32_t tid)
{
	for (uint32_t i = 0; i < FGT_EXCLUDED_MAX; i++)
		if (threads->excluded[i] == tid)
			return true;
	return false;
}

static void give_slot(struct fgt_thread_table *threads,
		      struct fgt_thread *thread, const struct fgt_stat *stat)
{
	thread->start_time = (uint32_t)stat->start_time;
	if (is_worker(stat) || is_excluded(threads, thread->tid))
		return;
	if (fgt_ring_thread_add(threads->ring, thread->tid, stat->start_time,
				stat->name, &thread->slot) < 0) {
		thread->slot = FGT_THREAD_NO_SLOT;
		threads->is_full = true;
		return;
	}
	threads->sampled_count++;
}

static struct fgt_thread *new_thread(struct fgt_thread_table *threads,
				     int32_t tid, const struct fgt_stat *stat)
{
	struct fgt_thread *thread = fgt_thread_store_add(&threads->table, tid);

	if (!thread) {
		threads->is_full = true;
		return NULL;
	}
	thread->slot = FGT_THREAD_NO_SLOT;
	thread->is_new = thread->needs_look = true;
	if (!fgt_thread_table_activate(threads, thread, 0)) {
		threads->is_stale = true; /* tried again */
		fgt_thread_store_remove(&threads->table, thread);
		return NULL;
	}
	give_slot(threads, thread, stat);
	return thread;
}

struct fgt_thread *fgt_thread_table_add(struct fgt_thread_table *threads,
					int32_t tid)
{
	struct fgt_stat stat = { .id = tid };
	bool is_alive = read_identity(threads, tid, &stat);

	if (!is_alive) {
		threads->is_stale = true; /* the next scan ends it */
		snprintf(stat.name, sizeof(stat.name), "%s",
			 threads->process_name);
	}
	return new_thread(threads, tid, &stat);
}

/*
 * The one of that number, if it is still the same: a directory of another
 * inode may be that of a later thread. What was seen under the number in this
 * tick then belongs to no thread.
 */
static struct fgt_thread *find_same(struct fgt_thread_table *threads,
				    int32_t tid, uint32_t inode)
{
	struct fgt_thread *thread = fgt_thread_table_find(threads, tid);
	struct fgt_stat stat;

	if (!thread || thread->inode == inode ||
	    !read_identity(threads, tid, &stat))
		return thread;
	if (thread->start_time == (uint32_t)stat.start_time) {
		thread->inode = inode;
		return thread;
	}
	thread->is_replaced = true;
	fgt_thread_table_end(threads, thread);
	return NULL;
}

static void visit_entry(struct fgt_thread_table *threads,
			const struct dirent64 *entry)
{
	int32_t tid = fgt_procfs_number(entry->d_name);
	uint32_t inode = (uint32_t)entry->d_ino; /* no more in procfs */
	struct fgt_thread *thread;
	struct fgt_stat stat;

	if (tid <= 0)
		return;
	thread = find_same(threads, tid, inode);
	if (!thread && threads->table.count < FGT_THREADS_MAX &&
	    read_identity(threads, tid, &stat)) {
		thread = new_thread(threads, tid, &stat);
		if (thread)
			thread->inode = inode;
	}
	if (thread)
		thread->is_listed = true;
}

/* May wait for ever, see fgt_procfs_open(). */
static ssize_t list_more(int task_fd, void *buffer, size_t size)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	ssize_t len = getdents64(task_fd, buffer, size);
	int error = errno;

	fgt_call_leave(heartbeat, -1);
	errno = error;
	return len;
}

static int list_directory(struct fgt_thread_table *threads)
{
	_Alignas(struct dirent64) char buffer[32768];
	ssize_t len;

	/* It is not the offset of a file of the program's that is set. */
	if (!fgt_fd_apart_is_kept(threads->task_fd)) {
		threads->budget->has_lost = true;
		return -EBADF;
	}
	if (lseek(threads->task_fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((len = list_more(threads->task_fd, buffer, sizeof(buffer))) >
	       0) {
		for (ssize_t at = 0; at < len;) {
			struct dirent64 *entry = (void *)(buffer + at);

			visit_entry(threads, entry);
			at += entry->d_reclen;
		}
	}
	return len < 0 ? -errno : 0;
}

/*
 * A thread that ended while another one began leaves the number of links as
 * it was; then the namespace's last pid has moved. On a machine that forks a
 * lot it always moves: look the less often the more there is to list.
 */
static bool take_reason(struct fgt_thread_table *threads, bool has_events,
			int64_t last_pid)
{
	struct stat status;
	uint32_t nlink;

	if (fstat(threads->task_fd, &status) < 0)
		return true;
	nlink = (uint32_t)status.st_nlink;
	if (threads->is_stale || nlink != threads->nlink) {
		threads->nlink = nlink;
		return true;
	}
	if (has_events)
		return false;
	threads->is_scan_owed = ++threads->ticks_since_scan <
				threads->table.count / THREADS_PER_SCAN;
	if (threads->is_scan_owed)
		return false;
	if (last_pid == FGT_LAST_PID_ASK)
		last_pid = fgt_thread_table_last_pid(threads->last_pid_fd);
	if (last_pid == threads->last_pid && last_pid >= 0)
		return false;
	threads->last_pid = last_pid;
	return true;
}

int64_t fgt_thread_table_last_pid(int fd)
{
	char text[32];
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);

	if (len <= 0)
		return -ENOENT;
	text[len] = '\0';
	return strtoll(text, NULL, 10);
}

bool fgt_thread_table_has_other_count(const struct fgt_thread_table *threads)
{
	struct stat status;

	return fstat(threads->task_fd, &status) < 0 ||
	       status.st_nlink != threads->nlink;
}

bool fgt_thread_table_scan(struct fgt_thread_table *threads, bool has_events,
			   int64_t last_pid)
{
	struct fgt_thread *thread = NULL;
	bool is_complete;

	if (!take_reason(threads, has_events, last_pid))
		return false;
	threads->ticks_since_scan = 0;
	threads->is_stale = threads->is_scan_owed = false;
	is_complete = list_directory(threads) == 0;
	while ((thread = fgt_thread_table_next(threads, thread))) {
		bool is_listed = thread->is_listed;

		thread->is_listed = false;
		/* A sample is as good as being listed, for its own tick. */
		if (!is_complete || is_listed || thread->is_replaced)
			continue;
		if (thread->is_sampled)
			threads->is_stale = true;
		else
			fgt_thread_table_end(threads, thread);
	}
	return true;
}

void fgt_thread_table_rename(struct fgt_thread_table *threads,
			     struct fgt_thread *thread)
{
	char path[32], name[64];

	if (thread->slot == FGT_THREAD_NO_SLOT)
		return;
	snprintf(path, sizeof(path), "%d/comm", thread->tid);
	if (fgt_procfs_read_line(threads->task_fd, path, name, sizeof(name)) <
	    0)
		return;
	fgt_ring_thread_rename(threads->ring, thread->slot, name);
}

static void remove_thread(struct fgt_thread_table *threads,
			  struct fgt_thread *thread)
{
	uint64_t runtime_ns = fgt_thread_table_use(threads, thread).runtime_ns;

	threads->known_runtime_ns -= runtime_ns;
	threads->ended_runtime_ns += runtime_ns;
	if (thread->slot != FGT_THREAD_NO_SLOT) {
		fgt_ring_thread_end(threads->ring, thread->slot);
		threads->sampled_count--;
	}
	free_thread(threads, thread);
}

void fgt_thread_table_end(struct fgt_thread_table *threads,
			  struct fgt_thread *thread)
{
	thread->is_ended = true;
	threads->has_ended = true;
}

void fgt_thread_table_end_all(struct fgt_thread_table *threads)
{
	struct fgt_thread *thread = NULL;

	while ((thread = fgt_thread_table_next(threads, thread))) {
		thread->is_sampled = false;
		fgt_thread_table_end(threads, thread);
	}
}

void fgt_thread_table_reap(struct fgt_thread_table *threads)
{
	struct fgt_thread *thread = NULL;

	if (!threads->has_ended)
		return;
	threads->has_ended = false;
	while ((thread = fgt_thread_table_next(threads, thread))) {
		if (thread->is_ended && thread->is_sampled &&
		    !thread->is_replaced)
			threads->has_ended = true;
		else if (thread->is_ended)
			remove_thread(threads, thread);
	}
}
