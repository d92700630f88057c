/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampled process: made in the thread that attaches it, then used by the
 * sampler's thread.
 */
#include "agent/capture/sampled.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/heartbeat.h"

#define SECOND_NS 1000000000u

static bool begin_thread(void *context, struct fgt_thread *thread)
{
	struct fgt_sampled *sampled = context;

	return fgt_look_thread_begin(&sampled->look.threads, thread);
}

static void drop_thread(void *context, struct fgt_thread *thread)
{
	struct fgt_sampled *sampled = context;

	if (sampled->running->drop)
		sampled->running->drop(sampled->running_state, thread);
	fgt_look_thread_end(&sampled->look.threads, thread);
}

static void forget_thread(void *context, struct fgt_thread *thread)
{
	struct fgt_sampled *sampled = context;

	if (sampled->look.who_ran && sampled->look.who_ran->forget)
		sampled->look.who_ran->forget(sampled->look.who_ran_state,
					      thread);
}

/* Bound to the program's memory: after an exec it reads nothing any more. */
static void open_memory(struct fgt_sampled *sampled)
{
	FGT_AUTO(fgt_fd_close) int dir_fd = -1;
	struct fgt_heartbeat *heartbeat;
	const struct fgt_image *image;
	int32_t tid;

	fgt_fd_close(FGT_TAKE_FD(sampled->memory_fd));
	/* An exec of this very process would end the sampler, too. */
	if (sampled->look.is_embedded || !sampled->look.stacks.maps ||
	    !sampled->look.stacks.maps->image_count)
		return;
	if (fgt_process_open_memory(&sampled->look.process, &dir_fd, &tid) < 0)
		return;
	image = &sampled->look.stacks.maps->images[0].image;
	sampled->memory_probe = image->start;
	heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	sampled->memory_fd = openat(dir_fd, "mem", O_RDONLY | O_CLOEXEC);
	fgt_call_leave(heartbeat, sampled->memory_fd);
}

static void take_info(struct fgt_sampled *sampled,
		      const struct fgt_process_info *info)
{
	struct fgt_target_status *status = &sampled->status;
	char title[FGT_TITLE_MAX];

	status->uid = info->uid;
	memcpy(status->name, info->name, sizeof(status->name));
	memcpy(status->exe, info->exe, sizeof(status->exe));
	sampled->has_new_texts = true;
	memcpy(title, sampled->info.title, sizeof(title));
	sampled->info = *info;
	memcpy(sampled->info.title, title, sizeof(title));
	sampled->info.service = status->service;
	fgt_ring_set_process(sampled->ring, &sampled->info);
}

static int open_polling(struct fgt_sampled *sampled)
{
	struct fgt_look *look = &sampled->look;
	int rc = -ENOTSUP;

	look->who_ran = &fgt_who_ran_clock;
	if (look->is_embedded)
		rc = look->who_ran->open(&look->process, &look->threads, NULL,
					 &look->who_ran_state);
	if (rc < 0) {
		look->who_ran = &fgt_who_ran_schedstat;
		rc = look->who_ran->open(&look->process, &look->threads, NULL,
					 &look->who_ran_state);
	}
	sampled->polling = look->who_ran;
	sampled->polling_state = look->who_ran_state;
	return rc;
}

static int open_sampling(struct fgt_sampled *sampled, size_t ring_bytes,
			 const struct fgt_sampler_options *options,
			 struct fgt_image_cache *cache, struct fgt_why *why)
{
	struct fgt_ring_options ring = options->ring;
	int rc;

	ring.hz = options->hz;
	if (ring_bytes)
		ring.size_bytes = ring_bytes;
	rc = fgt_ring_new(&ring, &sampled->ring);
	if (rc < 0)
		return fgt_why_set(why, rc,
				   "cannot make the ring: %s: make it "
				   "smaller (%s)",
				   strerror(-rc),
				   options->is_embedded ? "ring_bytes"
							: "ring.memory_mb");
	rc = fgt_thread_table_init(
		&sampled->look.threads, sampled->look.process.task_fd,
		sampled->status.name, sampled->look.budget, sampled->ring);
	sampled->look.threads.on_active = begin_thread;
	sampled->look.threads.on_idle = drop_thread;
	sampled->look.threads.on_free = forget_thread;
	sampled->look.threads.context = sampled;
	memcpy(sampled->look.threads.excluded, options->excluded_tids,
	       sizeof(options->excluded_tids));
	if (rc == 0)
		rc = fgt_stacks_init(&sampled->look.stacks,
				     &sampled->look.process, cache,
				     sampled->ring, options->max_depth);
	if (rc < 0)
		return fgt_why_set(why, rc, FGT_NO_MEMORY);
	rc = fgt_stacks_refresh(&sampled->look.stacks,
				sampled->status.attached_ns, false, why);
	if (rc < 0)
		return rc;
	open_memory(sampled);
	rc = open_polling(sampled);
	return rc < 0 ? fgt_why_set(why, rc, FGT_NO_MEMORY) : 0;
}

static void begin_look(struct fgt_sampled *sampled,
		       const struct fgt_sampler_options *options,
		       struct fgt_fd_budget *budget)
{
	struct fgt_look *look = &sampled->look;

	look->process = (struct fgt_process){ .pidfd = -1,
					      .proc_fd = -1,
					      .task_fd = -1 };
	look->leader_stat_fd = -1;
	look->budget = budget;
	look->is_embedded = options->is_embedded;
	look->is_readable = true;
}

static int make_target(struct fgt_sampled *sampled, int32_t pid,
		       struct fgt_why *why)
{
	struct fgt_target_status *status = &sampled->status;
	struct fgt_process_info info;
	int rc;

	rc = fgt_process_get_info(&sampled->look.process, &info);
	if (rc < 0)
		return fgt_why_set(why, rc, FGT_PROCESS_HAS_ENDED, pid);
	fgt_sampled_begin_service(sampled);
	take_info(sampled, &info);
	status->pid = pid;
	status->start_time = sampled->look.process.start_time;
	status->is_alive = true;
	status->who_ran = sampled->look.who_ran->name;
	status->running = "none";
	/* Its memory is open: an exec from now on is noticed. */
	if (!sampled->look.is_embedded)
		(void)fgt_owner_read_at(sampled->look.process.proc_fd,
					&sampled->owner);
	sampled->program = 1;
	rc = fgt_target_new(sampled->ring, status, &sampled->owner,
			    &sampled->target);
	if (rc < 0)
		return fgt_why_set(why, rc, FGT_NO_MEMORY);
	return 0;
}

int fgt_sampled_alloc(const struct fgt_sampler_options *options,
		      struct fgt_fd_budget *budget,
		      struct fgt_sampled **ret_sampled)
{
	struct fgt_sampled *sampled = calloc(1, sizeof(*sampled));

	if (!sampled)
		return -ENOMEM;
	sampled->memory_fd = -1;
	sampled->running = &fgt_running_none;
	sampled->explain = options->explain;
	sampled->context = options->context;
	sampled->status.attached_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	begin_look(sampled, options, budget);
	fgt_rate_init(&sampled->rate, SECOND_NS / options->hz);
	sampled->turn.periods = sampled->status.rate_periods = 1;
	sampled->status.rate_hz = options->hz;
	*ret_sampled = sampled;
	return 0;
}

int fgt_sampled_open(struct fgt_sampled *sampled, int32_t pid,
		     size_t ring_bytes,
		     const struct fgt_sampler_options *options,
		     struct fgt_image_cache *cache, struct fgt_why *why)
{
	int rc = fgt_process_open(pid, &sampled->look.process, why);

	if (rc == 0)
		rc = fgt_process_check_access(&sampled->look.process, why);
	if (rc == 0)
		rc = open_sampling(sampled, ring_bytes, options, cache, why);
	if (rc == 0)
		rc = make_target(sampled, pid, why);
	return rc;
}

int fgt_sampled_new(int32_t pid, size_t ring_bytes,
		    const struct fgt_sampler_options *options,
		    struct fgt_image_cache *cache, struct fgt_fd_budget *budget,
		    struct fgt_sampled **ret_sampled, struct fgt_why *why)
{
	FGT_AUTO(fgt_sampled_free) struct fgt_sampled *sampled = NULL;
	int rc = fgt_sampled_alloc(options, budget, &sampled);

	if (rc < 0)
		return fgt_why_set(why, rc, FGT_NO_MEMORY);
	rc = fgt_sampled_open(sampled, pid, ring_bytes, options, cache, why);
	if (rc == 0)
		*ret_sampled = FGT_TAKE(sampled);
	return rc;
}

void fgt_sampled_count_brief(struct fgt_sampled *sampled, uint64_t now_ns)
{
	const struct fgt_look *look = &sampled->look;
	struct fgt_switch_brief *begin = &sampled->brief_begin, now;
	struct fgt_target_status *status = &sampled->status;
	int64_t threads, cpu_ns;

	if (!look->who_ran_state ||
	    !look->who_ran->read_brief(look->who_ran_state, &now))
		return;
	if (sampled->brief_source != look->who_ran) {
		sampled->brief_source = look->who_ran;
		begin->threads = now.threads - status->brief_threads;
		begin->cpu_ns = now.cpu_ns - status->brief_cpu_ns;
	}
	/* Threads that run were looked at a little later than the process. */
	threads = (int64_t)(now.threads - begin->threads);
	cpu_ns = (int64_t)(now.cpu_ns - begin->cpu_ns);
	status->brief_threads = threads > 0 ? (uint64_t)threads : 0;
	status->brief_cpu_ns = cpu_ns > 0 ? (uint64_t)cpu_ns : 0;
	fgt_target_note_brief(sampled->target, now_ns, status->brief_threads,
			      status->brief_cpu_ns);
}

static void take_counts(struct fgt_sampled *sampled)
{
	const struct fgt_look *look = &sampled->look;
	struct fgt_target_status *status = &sampled->status;

	status->samples_running = look->samples_running;
	status->samples_blocked = look->samples_blocked;
	status->torn = look->torn;
	status->lost_waker_stacks = look->lost_waker_stacks;
	status->credited_ticks = look->credited_ticks;
}

/* Of what is shown at most once a second. */
static void take_unwind_counts(struct fgt_sampled *sampled)
{
	if (sampled->look.stacks.unwinder)
		fgt_unwinder_get_stats(sampled->look.stacks.unwinder,
				       &sampled->status.unwind);
}

void fgt_sampled_publish(struct fgt_sampled *sampled)
{
	take_counts(sampled);
	if (sampled->has_new_texts)
		take_unwind_counts(sampled);
	/* The limit is over what else is to be shown, which stays to be. */
	fgt_target_show(sampled->target, &sampled->status,
			sampled->has_new_texts,
			sampled->has_new_texts ? sampled->fds_limit : NULL);
	sampled->has_new_texts = false;
}

void fgt_sampled_stop(struct fgt_sampled *sampled, uint64_t now_ns,
		      bool is_alive)
{
	struct fgt_look *look = &sampled->look;

	if (sampled->is_stopped)
		return;
	sampled->is_stopped = true;
	if (sampled->target && !sampled->is_given_up)
		fgt_sampled_count_brief(sampled, now_ns);
	take_counts(sampled);
	take_unwind_counts(sampled);
	fgt_thread_table_done(&look->threads);
	fgt_sampled_leave_switches(sampled, now_ns);
	if (sampled->polling_state)
		sampled->polling->close(FGT_TAKE(sampled->polling_state));
	look->who_ran_state = NULL;
	fgt_look_follow_end(look);
	fgt_sampled_end_service(sampled);
	fgt_sampled_end_traces(sampled);
	fgt_stacks_done(&look->stacks);
	fgt_fd_close(FGT_TAKE_FD(sampled->memory_fd));
	fgt_fd_budget_close(look->budget, &look->leader_stat_fd);
	if (!is_alive && sampled->target)
		fgt_target_keep_pidfd(sampled->target,
				      FGT_TAKE_FD(look->process.pidfd));
	fgt_process_close(&look->process);
	sampled->status.is_alive = is_alive;
	sampled->status.is_stopped = true;
	sampled->status.threads = 0;
	sampled->status.ended_ns = is_alive ? 0 : now_ns;
	if (sampled->target && !sampled->is_given_up)
		fgt_target_show(sampled->target, &sampled->status, true, NULL);
}

void fgt_sampled_free(struct fgt_sampled *sampled)
{
	if (!sampled)
		return;
	fgt_sampled_stop(sampled, 0, sampled->status.is_alive);
	if (sampled->target)
		fgt_target_put(sampled->target);
	else
		fgt_ring_free(sampled->ring);
	free(sampled);
}

static void set_provider(struct fgt_sampled *sampled,
			 const struct fgt_who_ran *who_ran, void *state,
			 struct fgt_switches *switches, uint64_t now_ns)
{
	sampled->look.who_ran = who_ran;
	sampled->look.who_ran_state = state;
	sampled->look.switches = switches;
	fgt_thread_table_look_at_all(&sampled->look.threads, now_ns);
}

void fgt_sampled_take_switches(struct fgt_sampled *sampled,
			       struct fgt_switches *switches, uint64_t now_ns)
{
	void *state;

	if (sampled->look.switches || sampled->has_no_switches ||
	    fgt_who_ran_switches.open(&sampled->look.process,
				      &sampled->look.threads, switches,
				      &state) < 0)
		return;
	set_provider(sampled, &fgt_who_ran_switches, state, switches, now_ns);
}

/* Cannot fail: the switches may be about to be closed. */
void fgt_sampled_leave_switches(struct fgt_sampled *sampled, uint64_t now_ns)
{
	if (!sampled->look.switches)
		return;
	sampled->look.who_ran->close(sampled->look.who_ran_state);
	set_provider(sampled, sampled->polling, sampled->polling_state, NULL,
		     now_ns);
}

void fgt_sampled_log(const struct fgt_sampled *sampled, const char *text)
{
	if (sampled->explain)
		sampled->explain(sampled->context, sampled->status.pid, text);
}

void fgt_sampled_explain(struct fgt_sampled *sampled, const char *text)
{
	sampled->has_new_texts = true;
	snprintf(sampled->status.limitation, sizeof(sampled->status.limitation),
		 "%s", text);
	if (sampled->is_explained || !sampled->explain)
		return;
	sampled->is_explained = true;
	fgt_sampled_log(sampled, text);
}

/*
 * Code that is mapped is faulted in before it runs, which this process counts;
 * faults of the sampler are left out. A stack that leads to an unknown mapping
 * has the maps read in any case.
 */
static bool may_have_new_maps(struct fgt_sampled *sampled)
{
	struct rusage all, own;
	uint64_t faults;

	if (!sampled->look.is_embedded || getrusage(RUSAGE_SELF, &all) < 0 ||
	    getrusage(RUSAGE_THREAD, &own) < 0)
		return true;
	faults = (uint64_t)(all.ru_minflt + all.ru_majflt) -
		 (uint64_t)(own.ru_minflt + own.ru_majflt);
	if (faults == sampled->faults)
		return false;
	sampled->faults = faults;
	return true;
}

/*
 * A process that is ending loses its memory first, which looks like an exec,
 * and then its program cannot be read: what was known before stays.
 */
static bool is_without_memory(const struct fgt_sampled *sampled)
{
	char byte;
	int r = fgt_procfs_link(sampled->look.process.proc_fd, "exe", &byte, 1);

	return r == -ENOENT || r == -ESRCH;
}

static void reread_info(struct fgt_sampled *sampled)
{
	struct fgt_process_info info;

	if (fgt_process_get_info(&sampled->look.process, &info) < 0)
		return;
	if (!info.exe[0] && is_without_memory(sampled))
		memcpy(info.exe, sampled->status.exe, sizeof(info.exe));
	take_info(sampled, &info);
}

void fgt_sampled_reread(struct fgt_sampled *sampled,
			const struct fgt_tick *tick, bool is_exec)
{
	struct fgt_why why = { "" };
	int rc;

	if (is_exec)
		fgt_sampled_begin_service(sampled);
	reread_info(sampled);
	rc = fgt_process_check_access(&sampled->look.process, &why);
	if (rc == 0 && (is_exec || may_have_new_maps(sampled)))
		rc = fgt_stacks_refresh(&sampled->look.stacks, tick->mono_ns,
					is_exec, &why);
	if (rc >= 0) {
		sampled->look.is_readable = true;
		if (is_exec || sampled->memory_fd < 0)
			open_memory(sampled);
	} else if (rc == -EPERM || rc == -EACCES || rc == -EINVAL) {
		sampled->look.is_readable = false;
		fgt_sampled_explain(sampled, why.text);
	}
}
