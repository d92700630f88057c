/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ticks of one target. Runs in the sampler's thread.
 */
#include "agent/capture/tick.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/capture/look/look.h"
#include "agent/capture/look/look_thread.h"
#include "agent/capture/target_fds.h"
#include "agent/capture/threads/access.h"

#define SECOND_NS     1000000000u
#define MAPS_QUIET_NS 5000000000u /* with news of mappings from the kernel */
#define RENAMES_MAX   64u
#define YOUNG_TICKS   4u

#define LACKING_MAX	     256u /* looked at in a tick */
#define LACKING_PAUSE_MIN_NS 20000000u
#define LACKING_PAUSE_MAX_NS 1000000000u
#define LACKING_CALM_NS	     10000000000u

void fgt_tick_begin(struct fgt_target *target, const struct fgt_tick *tick)
{
	target->tick++;
	target->elapsed_ns = target->tick_ns ? tick->mono_ns - target->tick_ns
					     : 0;
	target->tick_ns = tick->mono_ns;
	target->work.ticks++;
	target->work.missed_ticks += tick->missed;
	fgt_ring_tick_begin(target->ring, tick->mono_ns, tick->wall_ns,
			    tick->missed);
}

static void take_exec(struct fgt_target *target, const struct fgt_tick *tick)
{
	struct fgt_thread_table *threads = &target->threads;
	struct fgt_thread *thread = NULL;

	target->has_exec = false;
	fgt_target_reread(target, tick, true);
	threads->is_stale = true;
	fgt_thread_table_look_at_all(threads, tick->mono_ns);
	while ((thread = fgt_thread_table_next(threads, thread))) {
		thread->call_state = 0;
		thread->has_unsafe_call = thread->is_fragile = false;
		fgt_thread_set_read_bytes(thread, 0);
		if (thread->active)
			fgt_look_forget(thread);
		fgt_thread_table_rename(threads, thread);
		/* What it did in the old program must not go on in this one. */
		if (thread->slot != FGT_THREAD_NO_SLOT)
			fgt_ring_set(target->ring, thread->slot, NULL, 0,
				     FGT_STATE_UNKNOWN, 0);
	}
}

void fgt_tick_sample(struct fgt_target *target, const struct fgt_tick *tick,
		     const struct fgt_running_sample *sample)
{
	struct fgt_thread *thread;

	if (target->has_exec)
		take_exec(target, tick);
	thread = fgt_thread_table_find(&target->threads, sample->tid);
	/* Its birth and its death may both lie between two ticks. */
	if (!thread)
		thread = fgt_thread_table_add(&target->threads, sample->tid);
	/* The kernel tells of switches, and this thread may never switch. */
	target->has_run = true;
	if (thread)
		fgt_look_sampled(target, tick, thread, sample);
}

void fgt_tick_task(struct fgt_target *target, uint32_t type,
		   const struct fgt_running_task *task)
{
	struct fgt_thread *thread;

	switch (type) {
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		target->threads.is_stale = true;
		break;
	case PERF_RECORD_MMAP2:
		target->stacks.is_stale = true;
		break;
	case PERF_RECORD_COMM:
		if (task->is_exec)
			target->has_exec = true;
		/* Read when it is known whose number that is by then. */
		thread = fgt_thread_table_find(&target->threads, task->tid);
		if (!thread)
			break;
		thread->has_new_name = true;
		if (!thread->active) /* named by another one */
			fgt_thread_table_activate(&target->threads, thread, 0);
		break;
	default:
		break;
	}
}

/* The old program's memory is gone when its file reads nothing any more. One
 * that samples itself would be gone, too. */
static void notice_exec(struct fgt_target *target, const struct fgt_tick *tick)
{
	char byte;

	if (target->is_embedded)
		return;
	if (target->has_exec ||
	    (target->memory_fd >= 0 && pread(target->memory_fd, &byte, 1,
					     (off_t)target->memory_probe) == 0))
		take_exec(target, tick);
}

/*
 * A new thread has its parent's name until it is given its own, which is among
 * the first things that it does. Where the kernel does not tell of names, it
 * is read again while the thread is young, of not too many at once; later with
 * all others.
 */
static void look_at_names_of_young(struct fgt_target *target)
{
	struct fgt_thread_table *threads = &target->threads;
	uint32_t count = 0;

	for (uint32_t i = 0; i < threads->active_count; i++) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (!thread->has_run || thread->young_ticks == YOUNG_TICKS)
			continue;
		/* Those that were there before us are none. */
		if (target->tick <= 1) {
			thread->young_ticks = YOUNG_TICKS;
		} else if (count++ < RENAMES_MAX) {
			thread->young_ticks++;
			thread->has_new_name = true;
		}
	}
}

static void look_at_active(struct fgt_target *target,
			   const struct fgt_tick *tick)
{
	struct fgt_thread_table *threads = &target->threads;

	if (!tick->has_cpu_events)
		look_at_names_of_young(target);
	for (uint32_t i = 0; i < threads->active_count; i++) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (thread->has_new_name && !thread->is_ended)
			fgt_thread_table_rename(threads, thread);
		thread->has_new_name = false;
		if (!tick->has_cpu_events)
			fgt_look_account(target, tick, thread);
		if (!thread->is_sampled && !thread->is_ended &&
		    (thread->has_run || thread->needs_look))
			fgt_look_unsampled(target, tick, thread);
		fgt_account_age(&thread->active->look->account,
				tick->period_ns);
	}
}

static bool take_has_run(struct fgt_thread_table *threads)
{
	for (uint32_t i = 0; i < threads->active_count; i++)
		if (threads->active[i].thread->has_run)
			return true;
	return false;
}

static void end_tick(struct fgt_thread_table *threads)
{
	fgt_thread_table_reap(threads);
	for (uint32_t i = 0; i < threads->active_count; i++) {
		threads->active[i].thread->is_sampled = false;
		threads->active[i].thread->has_run = false;
	}
}

static void reread_names(struct fgt_target *target)
{
	struct fgt_thread_table *threads = &target->threads;
	uint32_t first = (uint32_t)target->tick;

	for (uint32_t i = 0; i < threads->active_count && i < RENAMES_MAX; i++)
		fgt_thread_table_rename(
			threads,
			threads->active[(first + i) % threads->active_count]
				.thread);
}

static void describe(struct fgt_target *target, const struct fgt_tick *tick)
{
	struct fgt_target_status *work = &target->work;

	work->running = tick->running->name;
	work->who_ran = target->who_ran->name;
	/* What a process may not see of itself stays said. */
	if (target->is_readable &&
	    !(target->is_embedded && target->is_explained))
		snprintf(work->limitation, sizeof(work->limitation), "%s",
			 tick->limitation);
	if (target->threads.is_full)
		fgt_target_explain(target, tick,
				   "more threads than there is room for: some "
				   "are not sampled (raise ring.memory_mb)");
}

/* What need not be done in every tick. */
static void do_chores(struct fgt_target *target, const struct fgt_tick *tick)
{
	uint64_t elapsed_ns = tick->mono_ns - target->chores_ns;

	if (target->chores_ns && elapsed_ns < SECOND_NS)
		return;
	if (target->chores_ns)
		target->work.effective_hz =
			(double)(target->work.ticks - target->rate_ticks) *
			1e9 / (double)elapsed_ns;
	target->rate_ticks = target->work.ticks;
	target->chores_ns = tick->mono_ns;
	target->has_new_texts = true;
	fgt_thread_table_retire(&target->threads, tick->mono_ns,
				tick->period_ns);
	if (target->is_embedded)
		fgt_target_mind_fds(target, tick);
	describe(target, tick);
	if (!target->has_run)
		return;
	target->has_run = false;
	target->is_traced =
		fgt_access_tracer(target->process.proc_fd, "status") != 0;
	if (!tick->has_cpu_events)
		reread_names(target);
	if (fgt_stacks_is_due(&target->stacks, tick->mono_ns,
			      tick->has_cpu_events ? MAPS_QUIET_NS : 0))
		fgt_target_reread(target, tick, false);
}

/* Takes up to LACKING_MAX; false: there are more. */
static bool take_lacking(struct fgt_target *target)
{
	struct fgt_thread_table *threads = &target->threads;
	struct fgt_thread_store *table = &threads->table;
	struct fgt_thread *thread;
	uint32_t taken = 0;

	while (taken < LACKING_MAX) {
		thread = fgt_thread_store_from(table, target->lacking.next);
		if (!thread)
			return true;
		target->lacking.next =
			fgt_thread_store_index(table, thread) + 1;
		if (!thread->lacks_maps)
			continue;
		thread->lacks_maps = false;
		thread->needs_look = true;
		/* It has not run: idle again at the next chores. */
		if (!thread->active)
			fgt_thread_table_activate(threads, thread, 0);
		target->lacking.has_found = true;
		taken++;
	}
	return false;
}

/*
 * Blocked threads whose stacks led where no mapping was known, once the maps
 * are others, which may have been read anew for any thread, or as a chore.
 * Where they change all the time (JIT compilers), and the stacks lead nowhere
 * all the same, seldom.
 */
static void look_where_maps_lacked(struct fgt_target *target,
				   const struct fgt_tick *tick)
{
	uint64_t elapsed_ns = tick->mono_ns - target->lacking.begun_ns;

	if (!target->is_readable)
		return;
	if (target->lacking.next == 0) {
		if (target->lacking.generation == target->stacks.generation ||
		    elapsed_ns < target->lacking.pause_ns)
			return;
		target->lacking.generation = target->stacks.generation;
		target->lacking.begun_ns = tick->mono_ns;
		target->lacking.has_found = false;
	}
	if (!take_lacking(target))
		return;
	target->lacking.next = 0;
	if (!target->lacking.has_found || elapsed_ns > LACKING_CALM_NS)
		target->lacking.pause_ns = LACKING_PAUSE_MIN_NS;
	else if (target->lacking.pause_ns < LACKING_PAUSE_MAX_NS)
		target->lacking.pause_ns *= 2;
}

static void commit(struct fgt_target *target)
{
	fgt_ring_tick_commit(target->ring);
	target->work.threads = target->threads.sampled_count;
	fgt_target_publish(target);
}

bool fgt_tick_finish(struct fgt_target *target, const struct fgt_tick *tick)
{
	struct fgt_thread_table *threads = &target->threads;

	target->running = tick->running;
	target->running_state = tick->running_state;
	threads->excluded[FGT_EXCLUDED_MAX - 1] = tick->own_tid;
	if (tick->switches)
		fgt_target_take_switches(target, tick->switches, tick->mono_ns);
	if (!target->is_embedded && !fgt_process_is_alive(&target->process)) {
		fgt_thread_table_end_all(threads);
		fgt_thread_table_reap(threads);
		commit(target);
		return false;
	}
	threads->last_pid_fd = tick->last_pid_fd;
	if (!target->who_ran->has_scan)
		fgt_thread_table_scan(threads, tick->has_cpu_events,
				      tick->last_pid);
	if (target->who_ran->tick(target->who_ran_state, tick->mono_ns) < 0) {
		/* More threads than can be watched. */
		target->has_no_switches = true;
		fgt_target_leave_switches(target, tick->mono_ns);
	}
	if (take_has_run(threads)) {
		target->has_run = true;
		notice_exec(target, tick);
	}
	fgt_stacks_refresh_if_stale(&target->stacks, tick->mono_ns);
	look_where_maps_lacked(target, tick);
	look_at_active(target, tick);
	end_tick(threads);
	do_chores(target, tick);
	commit(target);
	return true;
}
