/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ticks of one target. Runs in the sampler's thread.
 */
#include "agent/capture/sampling.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS     1000000000u
#define MAPS_QUIET_NS 5000000000u /* with news of mappings from the kernel */
#define RENAMES_MAX   64u
#define YOUNG_TICKS   4u

void fgt_tick_begin(struct fgt_sampled *sampled, const struct fgt_tick *tick)
{
	sampled->is_in_tick = true;
	fgt_look_begin_tick(&sampled->look, tick->mono_ns);
	sampled->status.ticks++;
	sampled->status.missed_ticks += tick->missed;
	fgt_ring_tick_begin(sampled->ring, tick->mono_ns, tick->wall_ns,
			    tick->missed);
}

/* The only place where what looks have found goes into the ring. tick: NULL for
 * a verdict without edges. */
static void write_verdict(struct fgt_sampled *sampled,
			  const struct fgt_tick *tick,
			  struct fgt_thread *thread,
			  const struct fgt_verdict *verdict)
{
	struct fgt_ring *ring = sampled->ring;

	switch (verdict->kind) {
	case FGT_VERDICT_AS_BEFORE:
		break;
	case FGT_VERDICT_STACK:
		fgt_ring_set(ring, thread->slot, verdict->frames,
			     verdict->frame_count, verdict->state,
			     verdict->credit_ticks);
		break;
	case FGT_VERDICT_MARKED:
		fgt_ring_set_state(ring, thread->slot, verdict->state,
				   verdict->leaf, verdict->credit_ticks);
		break;
	case FGT_VERDICT_ENDED:
		if (sampled->traces)
			fgt_sampled_end_trace(sampled, thread);
		fgt_ring_thread_end(ring, thread->slot);
		thread->slot = FGT_THREAD_NO_SLOT;
		sampled->look.threads.sampled_count--;
		return;
	}
	if (verdict->past_ticks)
		fgt_ring_set_past(ring, thread->slot, verdict->past_frames,
				  verdict->past_count, verdict->past_state,
				  verdict->past_ticks);
	if (verdict->kind != FGT_VERDICT_AS_BEFORE)
		thread->is_followed = false;
	if (verdict->wait) {
		fgt_ring_set_wait(ring, thread->slot, verdict->wait);
		fgt_look_follow(&sampled->look, thread, verdict->state,
				verdict->wait);
	}
	if (verdict->has_moved)
		fgt_ring_set_moved(ring, thread->slot);
	if (verdict->edges && verdict->edges->count)
		fgt_ring_set_edges(ring, thread->slot, verdict->edges);
	if (verdict->edges)
		fgt_sampled_write_wakes(sampled, tick, thread);
	if (sampled->traces && tick)
		fgt_sampled_read_trace(sampled, tick, thread,
				       verdict->credit_ticks);
}

/* What it did in the old program must not go on in the new one. */
static void forget_program(struct fgt_sampled *sampled,
			   struct fgt_thread *thread)
{
	const struct fgt_verdict unknown =
		fgt_verdict_stack(NULL, 0, FGT_STATE_UNKNOWN);
	struct fgt_thread_switches *switches =
		fgt_thread_table_switches(&sampled->look.threads, thread);

	if (switches)
		fgt_switch_places_forget(switches);
	thread->call_state = 0;
	thread->has_unsafe_call = thread->is_fragile = false;
	fgt_thread_set_read_bytes(thread, 0);
	if (thread->active)
		fgt_look_thread_forget(thread);
	fgt_thread_table_rename(&sampled->look.threads, thread);
	if (thread->slot != FGT_THREAD_NO_SLOT)
		write_verdict(sampled, NULL, thread, &unknown);
}

static void take_exec(struct fgt_sampled *sampled, const struct fgt_tick *tick)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	struct fgt_thread *thread = NULL;

	sampled->has_exec = false;
	fgt_sampled_take_program(sampled, tick);
	fgt_sampled_reread(sampled, tick, true);
	threads->is_stale = true;
	fgt_thread_table_look_at_all(threads, tick->mono_ns);
	while ((thread = fgt_thread_table_next(threads, thread)))
		forget_program(sampled, thread);
}

void fgt_tick_sample(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		     const struct fgt_running_sample *sample)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	struct fgt_verdict verdict;
	struct fgt_thread *thread;

	if (sampled->has_exec)
		take_exec(sampled, tick);
	thread = fgt_thread_table_find(threads, sample->tid);
	/* Its birth and its death may both lie between two ticks. */
	if (!thread)
		thread = fgt_thread_table_add(threads, sample->tid);
	/* The kernel reports switches, and this thread may never switch. */
	sampled->has_run = true;
	if (!thread)
		return;
	verdict = fgt_look_sampled(&sampled->look, tick, thread, sample);
	write_verdict(sampled, tick, thread, &verdict);
}

void fgt_tick_task(struct fgt_sampled *sampled, uint32_t type,
		   const struct fgt_running_task *task)
{
	struct fgt_thread *thread;

	if (task->pid != sampled->look.process.pid) {
		sampled->status.unsampled_children++;
		return;
	}
	switch (type) {
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		sampled->look.threads.is_stale = true;
		break;
	case PERF_RECORD_MMAP2:
		sampled->look.stacks.is_stale = true;
		break;
	case PERF_RECORD_COMM:
		sampled->has_exec |= task->is_exec;
		sampled->execs += task->is_exec;
		/* Read when it is known whose number that is by then. */
		thread = fgt_thread_table_find(&sampled->look.threads,
					       task->tid);
		if (!thread)
			break;
		thread->has_new_name = true;
		if (!thread->active) /* named by another one */
			fgt_thread_table_activate(&sampled->look.threads,
						  thread, 0);
		break;
	default:
		break;
	}
}

/* Of the program that it was opened for. */
static bool is_memory_gone(const struct fgt_sampled *sampled)
{
	struct fgt_heartbeat *heartbeat;
	ssize_t got;
	char byte;

	if (sampled->memory_fd < 0)
		return false;
	heartbeat = fgt_call_enter(FGT_STEP_MEMORY);
	got = pread(sampled->memory_fd, &byte, 1, (off_t)sampled->memory_probe);
	fgt_call_leave(heartbeat, -1);
	return got == 0;
}

/* The old program's memory is gone when its file reads nothing any more. One
 * that samples itself would be gone, too. */
static void notice_exec(struct fgt_sampled *sampled,
			const struct fgt_tick *tick)
{
	if (sampled->look.is_embedded)
		return;
	if (sampled->has_exec || is_memory_gone(sampled))
		take_exec(sampled, tick);
}

/*
 * A new thread has its parent's name until it is given its own, which is among
 * the first things that it does. Where the kernel does not report names, it is
 * read again while the thread is young, of not too many at once; later with
 * all others.
 */
static void reread_young_names(struct fgt_sampled *sampled)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	uint32_t count = 0;

	for (uint32_t i = 0; i < threads->active_count; i++) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (!thread->has_run || thread->young_ticks == YOUNG_TICKS)
			continue;
		/* Threads older than the recording are not young. */
		if (sampled->look.tick <= 1) {
			thread->young_ticks = YOUNG_TICKS;
		} else if (count++ < RENAMES_MAX) {
			thread->young_ticks++;
			thread->has_new_name = true;
		}
	}
}

static void take_refusal(struct fgt_sampled *sampled,
			 const struct fgt_tick *tick, enum fgt_refusal refusal)
{
	/* Explains why, and finds out whether it lasts. */
	if (refusal == FGT_REFUSAL_OF_TARGET)
		fgt_sampled_reread(sampled, tick, false);
	if (refusal == FGT_REFUSAL_NOT_DUMPABLE)
		fgt_sampled_explain(sampled,
				    "blocked threads show the stack that they "
				    "last ran with: this process is not "
				    "dumpable (PR_SET_DUMPABLE, set-uid, a "
				    "change of user): make it dumpable again, "
				    "or run it as root");
}

/*
 * A thread that has just been listed, and of which nothing is known, may have
 * begun after the tick's instant, and be gone at the next: then it has no tick
 * at all. At the next one it did exist.
 */
static void wait_for_news(struct fgt_sampled *sampled,
			  struct fgt_thread *thread)
{
	const struct fgt_verdict unknown =
		fgt_verdict_stack(NULL, 0, FGT_STATE_UNKNOWN);

	if (thread->slot == FGT_THREAD_NO_SLOT)
		return;
	if (thread->is_put_off)
		write_verdict(sampled, NULL, thread, &unknown);
	else
		fgt_ring_thread_put_off(sampled->ring, thread->slot);
	thread->is_put_off = true;
}

static void look_at(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		    struct fgt_thread *thread)
{
	struct fgt_verdict verdict =
		fgt_look_unsampled(&sampled->look, tick, thread);

	if (verdict.refusal)
		take_refusal(sampled, tick, verdict.refusal);
	verdict.wait = fgt_look_wait(&sampled->look, thread, &verdict);
	write_verdict(sampled, tick, thread, &verdict);
	if (verdict.kind == FGT_VERDICT_AS_BEFORE && thread->is_new &&
	    !thread->is_ended && sampled->look.tick > 1)
		wait_for_news(sampled, thread);
}

static void look_at_active(struct fgt_sampled *sampled,
			   const struct fgt_tick *tick)
{
	struct fgt_thread_table *threads = &sampled->look.threads;

	if (!tick->has_cpu_events)
		reread_young_names(sampled);
	for (uint32_t i = 0; i < threads->active_count; i++) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (thread->has_new_name && !thread->is_ended)
			fgt_thread_table_rename(threads, thread);
		thread->has_new_name = false;
		if (!tick->has_cpu_events)
			fgt_look_account(&sampled->look, tick, thread);
		if (!thread->is_sampled && !thread->is_ended &&
		    (thread->has_run || thread->needs_look))
			look_at(sampled, tick, thread);
		fgt_account_age(&thread->active->look->account,
				tick->period_ns);
	}
}

static void write_new_reasons(struct fgt_sampled *sampled)
{
	struct fgt_thread *thread;
	struct fgt_wait wait;

	if (!sampled->look.followed.count)
		return;
	while ((thread = fgt_look_next_reason(&sampled->look, &wait)))
		fgt_ring_set_wait(sampled->ring, thread->slot, &wait);
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

static void reread_names(struct fgt_sampled *sampled)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	uint32_t first = (uint32_t)sampled->look.tick;

	for (uint32_t i = 0; i < threads->active_count && i < RENAMES_MAX; i++)
		fgt_thread_table_rename(
			threads,
			threads->active[(first + i) % threads->active_count]
				.thread);
}

/* Its code has no unwind rules. */
static void describe_refused(struct fgt_sampled *sampled)
{
	const struct fgt_maps *maps = sampled->look.stacks.maps;
	char text[sizeof(sampled->status.limitation)];

	if (!maps || !maps->refused_type[0])
		return;
	snprintf(
		text, sizeof(text),
		"file %.120s is not read: its file system (%s) may not answer: "
		"use a copy on a local one",
		maps->images[maps->refused_image].image.path,
		maps->refused_type);
	fgt_sampled_explain(sampled, text);
}

static void describe(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		     const char *limitation)
{
	struct fgt_target_status *status = &sampled->status;

	status->running = tick->running->name;
	status->who_ran = sampled->look.who_ran->name;
	/* What a process may not read of itself stays in force. */
	if (sampled->look.is_readable &&
	    !(sampled->look.is_embedded && sampled->is_explained))
		snprintf(status->limitation, sizeof(status->limitation), "%.*s",
			 (int)sizeof(status->limitation) - 1, limitation);
	describe_refused(sampled);
	if (sampled->look.threads.is_full)
		fgt_sampled_explain(
			sampled,
			sampled->look.is_embedded
				? "more threads than there is room for: some "
				  "are not sampled (raise ring_bytes)"
				: "more threads than there is room for: some "
				  "are not sampled (raise ring.memory_mb)");
}

/* What may have changed while it ran. */
static void reread(struct fgt_sampled *sampled, const struct fgt_tick *tick)
{
	sampled->look.is_traced =
		fgt_access_tracer(sampled->look.process.proc_fd) != 0;
	if (fgt_stacks_is_due(&sampled->look.stacks, tick->mono_ns,
			      tick->has_cpu_events ? MAPS_QUIET_NS : 0))
		fgt_sampled_reread(sampled, tick, false);
}

/* What need not be done in every tick. */
static void do_chores(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		      const char *limitation)
{
	uint64_t elapsed_ns = tick->mono_ns - sampled->chores_ns;
	bool has_run = sampled->has_run;

	if (sampled->chores_ns && elapsed_ns < SECOND_NS)
		return;
	if (sampled->chores_ns)
		sampled->status.effective_hz =
			(double)(sampled->status.ticks - sampled->rate_ticks) *
			1e9 / (double)elapsed_ns;
	else /* what is aimed at, until a second has been counted */
		sampled->status.effective_hz = 1e9 / (double)tick->period_ns;
	sampled->rate_ticks = sampled->status.ticks;
	sampled->chores_ns = tick->mono_ns;
	sampled->has_new_texts = true;
	/* Also of threads that will not run again. */
	if (has_run && !tick->has_cpu_events)
		reread_names(sampled);
	fgt_thread_table_retire(&sampled->look.threads, tick->mono_ns,
				tick->period_ns);
	fgt_sampled_count_brief(sampled, tick->mono_ns);
	if (sampled->look.is_embedded)
		fgt_sampled_check_fds(sampled, tick);
	describe(sampled, tick, limitation);
	sampled->has_run = false;
	if (has_run)
		reread(sampled, tick);
	fgt_sampled_check_service(sampled, tick, has_run);
	fgt_sampled_find_traces(sampled);
}

static void commit(struct fgt_sampled *sampled)
{
	fgt_ring_tick_commit(sampled->ring);
	sampled->is_in_tick = false;
	sampled->status.threads = sampled->look.threads.sampled_count;
	fgt_sampled_publish(sampled);
}

void fgt_tick_abandon(struct fgt_sampled *sampled)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	const struct fgt_verdict unknown = {
		.kind = FGT_VERDICT_MARKED,
		.state = FGT_STATE_UNKNOWN,
		.leaf = FGT_MARKER_NOT_SAMPLED,
	};

	if (!sampled->is_in_tick)
		return;
	for (uint32_t i = 0; i < threads->active_count; i++) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (!thread->is_sampled && !thread->is_ended &&
		    thread->slot != FGT_THREAD_NO_SLOT)
			write_verdict(sampled, NULL, thread, &unknown);
	}
	end_tick(threads);
	fgt_thread_table_look_at_all(threads, sampled->look.tick_ns);
	commit(sampled);
}

bool fgt_tick_finish(const struct fgt_sampler *sampler,
		     struct fgt_sampled *sampled, const struct fgt_tick *tick)
{
	struct fgt_thread_table *threads = &sampled->look.threads;

	sampled->running = tick->running;
	sampled->running_state = tick->running_state;
	threads->excluded[FGT_EXCLUDED_MAX - 1] = sampler->own_tid;
	if (tick->running->own_tid)
		threads->excluded[FGT_EXCLUDED_MAX - 2] =
			tick->running->own_tid(tick->running_state);
	if (sampler->switches)
		fgt_sampled_take_switches(sampled, sampler->switches,
					  tick->mono_ns);
	if (!sampled->look.is_embedded &&
	    !fgt_process_is_alive(&sampled->look.process)) {
		fgt_sampled_end_program(sampled, tick);
		fgt_thread_table_end_all(threads);
		fgt_thread_table_reap(threads);
		commit(sampled);
		return false;
	}
	threads->last_pid_fd = sampler->last_pid_fd;
	if (!sampled->look.who_ran->has_scan)
		fgt_thread_table_scan(threads, tick->has_cpu_events,
				      tick->last_pid);
	if (sampled->look.who_ran->tick(sampled->look.who_ran_state,
					tick->mono_ns) < 0) {
		/* More threads than can be watched. */
		sampled->has_no_switches = true;
		fgt_sampled_leave_switches(sampled, tick->mono_ns);
	}
	if (take_has_run(threads) || sampled->has_exec) {
		sampled->has_run = true;
		notice_exec(sampled, tick);
	}
	fgt_sampled_check_program(sampled, tick);
	fgt_stacks_refresh_if_stale(&sampled->look.stacks, tick->mono_ns);
	if (fgt_sampled_may_lack_maps(sampled))
		fgt_tick_look_where_maps_lacked(sampled, tick);
	look_at_active(sampled, tick);
	write_new_reasons(sampled);
	end_tick(threads);
	do_chores(sampled, tick, sampler->limitation.text);
	commit(sampled);
	return true;
}
