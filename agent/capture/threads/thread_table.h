/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of one target, and what is remembered of each
 * between two ticks. Identity is (tid, start time).
 *
 * Runs in the sampler's thread, except that the thread that attaches a target
 * makes its table. MT-Unsafe for one table | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_THREAD_TABLE_H
#define FGT_AGENT_CAPTURE_THREADS_THREAD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/capture/threads/fd_budget.h"
#include "agent/capture/threads/process.h"
#include "agent/capture/threads/thread_store.h"
#include "ringbuf/ring/ring.h"

struct fgt_thread_table {
	struct fgt_thread_store table;
	/* Those that ran within a second, one behind the other: they move when
	 * other threads come or go. */
	struct fgt_active_thread *active;
	uint32_t active_count, active_peak, active_capacity;
	uint32_t sampled_count; /* those with a slot */
	uint32_t nlink; /* of the task directory at the last scan */
	int64_t last_pid; /* of the namespace, at the last scan */
	int last_pid_fd; /* borrowed; see fgt_thread_table_scan() */
	uint32_t ticks_since_scan;
	bool is_stale; /* threads may have come or gone */
	bool is_scan_owed; /* it was put off, to list less often */
	bool is_full; /* more threads than fit */
	bool has_ended; /* some thread is marked as ended */
	int32_t excluded[FGT_EXCLUDED_MAX]; /* never sampled; 0: none */
	uint64_t known_runtime_ns; /* sum of use.runtime_ns */
	uint64_t ended_runtime_ns; /* … of those that are gone */
	int task_fd; /* borrowed */
	const char *process_name; /* borrowed */
	struct fgt_fd_budget *budget;
	struct fgt_ring *ring;
	/* Called when a thread has become active (false: without memory it
	 * stays idle), before it becomes idle, and before it is freed. */
	bool (*on_active)(void *context, struct fgt_thread *thread);
	void (*on_idle)(void *context, struct fgt_thread *thread);
	void (*on_free)(void *context, struct fgt_thread *thread);
	void *context;
};

/* process_name: for threads that ended before theirs could be read; borrowed,
 * and may change. */
int fgt_thread_table_init(struct fgt_thread_table *threads, int task_fd,
			  const char *process_name,
			  struct fgt_fd_budget *budget, struct fgt_ring *ring);
void fgt_thread_table_done(struct fgt_thread_table *threads);

struct fgt_thread *fgt_thread_table_find(const struct fgt_thread_table *threads,
					 int32_t tid);

/*
 * Adds a thread that the kernel reported. One that is gone already gets the
 * start time 0, the process's name (it most likely never had another), and
 * leaves at the end of the next tick. NULL: no room.
 */
struct fgt_thread *fgt_thread_table_add(struct fgt_thread_table *threads,
					int32_t tid);

/*
 * Lists /proc/PID/task if threads may have come or gone. has_events: the kernel
 * reports births and deaths, and no other sign is needed. last_pid: what
 * fgt_thread_table_last_pid() returns, negative if unknown; FGT_LAST_PID_ASK:
 * it is read from last_pid_fd if it matters. True: they have been listed.
 */
#define FGT_LAST_PID_ASK INT64_MAX
bool fgt_thread_table_scan(struct fgt_thread_table *threads, bool has_events,
			   int64_t last_pid);
/* Are there more or fewer than when they were last counted for a scan? */
bool fgt_thread_table_has_other_count(const struct fgt_thread_table *threads);

/* What is read from /proc/sys/kernel/ns_last_pid; negative errno. */
int64_t fgt_thread_table_last_pid(int fd);

/* The first thread behind this one; NULL: the first of all, or the end. This
 * one may have been removed meanwhile. */
static inline struct fgt_thread *
fgt_thread_table_next(const struct fgt_thread_table *threads,
		      const struct fgt_thread *thread)
{
	return fgt_thread_store_next(&threads->table, thread);
}

/* What the kernel reports of its switches; NULL: nothing. */
static inline struct fgt_thread_switches *
fgt_thread_table_switches(const struct fgt_thread_table *threads,
			  const struct fgt_thread *thread)
{
	const struct fgt_thread_aside *aside =
		fgt_thread_store_find_aside(&threads->table, thread);

	return aside ? aside->switches : NULL;
}

/* Puts a thread among the active ones. False: no memory. */
bool fgt_thread_table_activate(struct fgt_thread_table *threads,
			       struct fgt_thread *thread, uint64_t now_ns);

/* Its use at the last look at it. Of one that is idle, and has nothing kept
 * aside, only runtime_ns: more is not needed. */
struct fgt_cpu_use fgt_thread_table_use(const struct fgt_thread_table *threads,
					const struct fgt_thread *thread);
/* Its use as it is now. */
void fgt_thread_table_set_use(struct fgt_thread_table *threads,
			      struct fgt_thread *thread,
			      const struct fgt_cpu_use *use);
/* Its use as it is now: true if it ran since the last look at it, which makes
 * it an active one. False also without memory for that: it is asked again. */
bool fgt_thread_table_take_use(struct fgt_thread_table *threads,
			       struct fgt_thread *thread,
			       const struct fgt_cpu_use *use);
/* After all of them have been made idle. */
void fgt_thread_table_free_active(struct fgt_thread_table *threads);
/* Makes one idle: closes and frees what it kept, except its use. */
void fgt_thread_table_deactivate(struct fgt_thread_table *threads,
				 struct fgt_thread *thread);
/* Those that have been idle for a second, and for two periods. */
void fgt_thread_table_retire(struct fgt_thread_table *threads, uint64_t now_ns,
			     uint64_t period_ns);
/* All shall be looked at in the next tick. */
void fgt_thread_table_look_at_all(struct fgt_thread_table *threads,
				  uint64_t now_ns);

/* Re-reads a name; gives it to the ring if it is another one. */
void fgt_thread_table_rename(struct fgt_thread_table *threads,
			     struct fgt_thread *thread);

/* Marks a thread as ended. */
void fgt_thread_table_end(struct fgt_thread_table *threads,
			  struct fgt_thread *thread);
/* What a look at it found: 1: it ran, and is an active one; -ESRCH: it is gone,
 * and marked as ended: then true. */
bool fgt_thread_table_note(struct fgt_thread_table *threads,
			   struct fgt_thread *thread, int found,
			   uint64_t now_ns);
void fgt_thread_table_end_all(struct fgt_thread_table *threads);
/* Frees those that are marked; between the ring's begin and commit. One that
 * was sampled in this tick stays until the next. */
void fgt_thread_table_reap(struct fgt_thread_table *threads);

#endif
