/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives up threads of the sampler that wait inside a call about one process,
 * and lets another thread go on with all other processes. Runs in the
 * watchdog's thread, and where a process is attached; must not wait for such a
 * thread.
 *
 * A thread that was given up owns what its call may still write to: its target
 * and its buffers, which are freed when it has ended.
 */
#include "agent/capture/sampling.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/thread.h"

/* ---- The books; with the mutex held --------------------------------------- */

static void explain(const struct fgt_sampler *sampler, int32_t pid,
		    const char *text)
{
	if (sampler->options.explain)
		sampler->options.explain(sampler->options.context, pid, text);
}

static struct fgt_lost_thread *find_place(struct fgt_sampler *sampler)
{
	struct fgt_lost_thread *threads = sampler->lost_threads;

	if (!fgt_losses_has_room(&sampler->losses))
		return NULL;
	for (uint32_t i = 0; i < FGT_LOST_MAX; i++)
		if (!threads[i].heartbeat && !threads[i].sampled)
			return &threads[i];
	return NULL;
}

static void note(struct fgt_sampler *sampler, struct fgt_lost_thread *lost,
		 const char *what)
{
	char text[200];

	lost->what = what;
	lost->process.since_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	fgt_losses_add(&sampler->losses, &lost->process);
	snprintf(text, sizeof(text), FGT_GIVEN_UP, what);
	if (lost->sampled && lost->sampled->target)
		fgt_target_give_up(lost->sampled->target,
				   lost->process.since_ns, text);
	explain(sampler, lost->process.pid, text);
	pthread_cond_broadcast(&sampler->changed);
}

/* ---- The sampler's thread ------------------------------------------------- */

static int start_thread(struct fgt_sampler *sampler)
{
	int rc = fgt_thread_start(0, fgt_sampling_run, sampler,
				  &sampler->thread);

	sampler->needs_thread = rc < 0;
	return rc;
}

static void take_out(struct fgt_sampler *sampler, struct fgt_sampled *sampled)
{
	sampled->is_given_up = true;
	sampled->is_stopped = false; /* it is not, if it was about to be */
	for (uint32_t i = 0; i < sampler->target_count; i++)
		if (sampler->targets[i] == sampled) {
			fgt_sampling_remove(sampler, i);
			return;
		}
}

static void name_process(struct fgt_lost_thread *lost,
			 const struct fgt_sampled *sampled)
{
	lost->process.pid = sampled->look.process.pid;
	lost->process.start_time = sampled->look.process.start_time;
	lost->process.uid = sampled->status.uid;
}

static void give_up_sampler(struct fgt_sampler *sampler, uint64_t beat)
{
	struct fgt_lost_thread *lost = find_place(sampler);
	struct fgt_sampling_room room;

	/* Threads that ptrace holds are bound to the thread that holds them. */
	if (!lost || sampler->running == &fgt_running_ptrace ||
	    fgt_sampling_make_room(sampler, &room) < 0)
		return;
	if (!fgt_heartbeat_give_up(sampler->heartbeat, beat)) {
		fgt_sampling_free_room(&room);
		return;
	}
	*lost = (struct fgt_lost_thread){
		.thread = sampler->thread,
		.heartbeat = FGT_TAKE(sampler->heartbeat),
		.sampled = FGT_TAKE(sampler->in_hand),
		.room = sampler->room,
	};
	sampler->room = room;
	if (lost->sampled) {
		name_process(lost, lost->sampled);
		take_out(sampler, lost->sampled);
	}
	note(sampler, lost, fgt_step_name(fgt_beat_step(beat)));
	sampler->has_taken_over = true;
	if (sampler->shall_stop)
		sampler->needs_thread = true;
	else
		(void)start_thread(sampler);
}

/* ---- Attaching ------------------------------------------------------------ */

/* Opens a process where it may be given up. */
struct fgt_attaching {
	struct fgt_sampler *sampler;
	struct fgt_lost process;
	struct fgt_sampled *sampled;
	size_t ring_bytes;
	struct fgt_why why;
	int result;
	/* Guarded by the sampler's mutex. */
	pthread_t thread;
	struct fgt_heartbeat *heartbeat;
	bool is_done, is_lost;
	struct fgt_attaching *next;
};

static void *open_apart(void *context)
{
	struct fgt_attaching *attaching = context;
	struct fgt_sampler *sampler = attaching->sampler;
	jmp_buf given_up;

	if (setjmp(given_up))
		return NULL;
	prctl(PR_SET_NAME, "fgt-attach");
	pthread_mutex_lock(&sampler->mutex);
	attaching->heartbeat =
		fgt_heartbeat_begin("thread of an attach", &given_up);
	fgt_heartbeat_set(attaching->heartbeat, FGT_STEP_WORK,
			  attaching->process.pid);
	pthread_mutex_unlock(&sampler->mutex);
	attaching->result =
		fgt_sampled_open(attaching->sampled, attaching->process.pid,
				 attaching->ring_bytes, &sampler->options,
				 sampler->cache, &attaching->why);
	pthread_mutex_lock(&sampler->mutex);
	fgt_heartbeat_end();
	attaching->is_done = true;
	pthread_cond_broadcast(&sampler->changed);
	pthread_mutex_unlock(&sampler->mutex);
	return NULL;
}

static void unlink_attaching(struct fgt_sampler *sampler,
			     const struct fgt_attaching *attaching)
{
	struct fgt_attaching **place = &sampler->attaching;

	while (*place != attaching)
		place = &(*place)->next;
	*place = attaching->next;
}

/* With the mutex held. */
static int run_apart(struct fgt_sampler *sampler,
		     struct fgt_attaching *attaching)
{
	int rc = fgt_losses_check(
		&sampler->losses, attaching->process.pid,
		attaching->process.start_time, attaching->process.uid,
		fgt_clock_ns(CLOCK_MONOTONIC), &attaching->why);

	if (rc < 0)
		return rc;
	rc = fgt_thread_start(0, open_apart, attaching, &attaching->thread);
	if (rc < 0)
		return fgt_why_set(&attaching->why, rc,
				   "cannot start a thread: raise TasksMax= or "
				   "ulimit -u");
	attaching->next = sampler->attaching;
	sampler->attaching = attaching;
	while (!attaching->is_done && !attaching->is_lost)
		pthread_cond_wait(&sampler->changed, &sampler->mutex);
	unlink_attaching(sampler, attaching);
	if (attaching->is_lost)
		return fgt_why_set(&attaching->why, -EAGAIN, FGT_GIVEN_UP,
				   "reading it");
	pthread_mutex_unlock(&sampler->mutex);
	pthread_join(attaching->thread, NULL);
	pthread_mutex_lock(&sampler->mutex);
	return attaching->result;
}

/* Of no effect on the process: what needs its memory is done apart. */
static int identify(int32_t pid, struct fgt_lost *ret_process,
		    struct fgt_why *why)
{
	struct fgt_process process;
	int rc = fgt_process_open(pid, &process, why);

	if (rc < 0)
		return rc;
	ret_process->pid = pid;
	ret_process->start_time = process.start_time;
	rc = fgt_access_uid(process.proc_fd, &ret_process->uid);
	fgt_process_close(&process);
	return rc < 0 ? fgt_why_set(why, -ESRCH, FGT_PROCESS_HAS_ENDED, pid)
		      : 0;
}

int fgt_sampler_open_target(struct fgt_sampler *sampler, int32_t pid,
			    size_t ring_bytes, struct fgt_sampled **ret_sampled,
			    struct fgt_why *why)
{
	struct fgt_attaching *attaching = calloc(1, sizeof(*attaching));
	bool is_lost;
	int rc;

	if (!attaching)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	attaching->sampler = sampler;
	attaching->ring_bytes = ring_bytes;
	rc = identify(pid, &attaching->process, &attaching->why);
	if (rc == 0)
		rc = fgt_sampled_alloc(&sampler->options, &sampler->budget,
				       &attaching->sampled);
	if (rc == 0) {
		pthread_mutex_lock(&sampler->mutex);
		rc = run_apart(sampler, attaching);
		pthread_mutex_unlock(&sampler->mutex);
	}
	is_lost = attaching->is_lost;
	if (why)
		*why = attaching->why;
	if (rc == 0)
		*ret_sampled = FGT_TAKE(attaching->sampled);
	else if (!is_lost)
		fgt_sampled_free(attaching->sampled);
	/* Else both are the lost thread's. */
	if (!is_lost)
		free(attaching);
	return rc;
}

static void give_up_attaching(struct fgt_sampler *sampler,
			      struct fgt_attaching *attaching, uint64_t beat)
{
	struct fgt_lost_thread *lost = find_place(sampler);

	if (!lost || !fgt_heartbeat_give_up(attaching->heartbeat, beat))
		return;
	*lost = (struct fgt_lost_thread){
		.thread = attaching->thread,
		.heartbeat = attaching->heartbeat,
		.sampled = attaching->sampled,
		.attaching = attaching,
		.process = attaching->process,
	};
	lost->sampled->is_given_up = true;
	attaching->is_lost = true;
	note(sampler, lost, fgt_step_name(fgt_beat_step(beat)));
}

/* ---- For the watchdog ----------------------------------------------------- */

void fgt_sampler_give_up(struct fgt_sampler *sampler,
			 struct fgt_heartbeat *heartbeat, uint64_t beat)
{
	struct fgt_attaching *attaching;

	pthread_mutex_lock(&sampler->mutex);
	if (sampler->heartbeat == heartbeat)
		give_up_sampler(sampler, beat);
	for (attaching = sampler->attaching; attaching;
	     attaching = attaching->next)
		if (attaching->heartbeat == heartbeat && !attaching->is_done &&
		    !attaching->is_lost) {
			give_up_attaching(sampler, attaching, beat);
			break;
		}
	pthread_mutex_unlock(&sampler->mutex);
}

/* Its call has returned, and it has ended: the sampler frees its target. */
static void take_back(struct fgt_sampler *sampler, struct fgt_lost_thread *lost)
{
	double seconds = (double)(fgt_clock_ns(CLOCK_MONOTONIC) -
				  lost->process.since_ns) /
			 1e9;
	char text[120];

	pthread_join(lost->thread, NULL);
	fgt_heartbeat_free(FGT_TAKE(lost->heartbeat));
	fgt_losses_remove(&sampler->losses, &lost->process);
	fgt_sampling_free_room(&lost->room);
	free(FGT_TAKE(lost->attaching));
	snprintf(text, sizeof(text), "%s has returned after %.0f s", lost->what,
		 seconds);
	explain(sampler, lost->process.pid, text);
	pthread_cond_broadcast(&sampler->changed);
}

void fgt_sampler_tend(struct fgt_sampler *sampler)
{
	pthread_mutex_lock(&sampler->mutex);
	for (uint32_t i = 0; i < FGT_LOST_MAX; i++) {
		struct fgt_lost_thread *lost = &sampler->lost_threads[i];

		if (lost->heartbeat && fgt_heartbeat_has_ended(lost->heartbeat))
			take_back(sampler, lost);
	}
	if (sampler->needs_thread && !sampler->shall_stop)
		(void)start_thread(sampler);
	pthread_mutex_unlock(&sampler->mutex);
}

void fgt_sampler_get_losses(struct fgt_sampler *sampler, uint32_t *ret_lost,
			    uint64_t *ret_total)
{
	pthread_mutex_lock(&sampler->mutex);
	*ret_lost = sampler->losses.count;
	*ret_total = sampler->losses.total;
	pthread_mutex_unlock(&sampler->mutex);
}

/* ---- For the sampler's thread --------------------------------------------- */

struct fgt_sampled *fgt_sampling_take_returned(struct fgt_sampler *sampler)
{
	for (uint32_t i = 0; i < FGT_LOST_MAX; i++) {
		struct fgt_lost_thread *lost = &sampler->lost_threads[i];

		if (!lost->heartbeat && lost->sampled)
			return FGT_TAKE(lost->sampled);
	}
	return NULL;
}

void fgt_sampling_leave_lost(struct fgt_sampler *sampler, uint64_t now_ns)
{
	pthread_mutex_lock(&sampler->mutex);
	for (uint32_t i = 0; i < FGT_LOST_MAX; i++) {
		struct fgt_sampled *sampled = sampler->lost_threads[i].sampled;

		if (!sampled)
			continue;
		sampled->running = &fgt_running_none;
		fgt_sampled_leave_switches(sampled, now_ns);
	}
	pthread_mutex_unlock(&sampler->mutex);
}
