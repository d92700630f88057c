/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampled process: made by whoever attaches, ticked by the sampler's thread,
 * looked at by all. Reference counted.
 */
#include "agent/capture/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "agent/capture/budget/pacing.h"
#include "agent/capture/look/look_thread.h"
#include "agent/capture/target_fds.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/spans/span_cut.h"

static bool begin_thread(void *context, struct fgt_thread *thread)
{
	struct fgt_target *target = context;

	return fgt_look_thread_begin(&target->threads, thread);
}

static void drop_thread(void *context, struct fgt_thread *thread)
{
	struct fgt_target *target = context;

	if (target->running->drop)
		target->running->drop(target->running_state, thread);
	fgt_look_thread_end(&target->threads, thread);
}

static void forget_thread(void *context, struct fgt_thread *thread)
{
	struct fgt_target *target = context;

	if (target->who_ran && target->who_ran->forget)
		target->who_ran->forget(target->who_ran_state, thread);
}

/* Bound to the program's memory: after an exec it reads nothing any more. */
static void open_memory(struct fgt_target *target)
{
	FGT_AUTO(fgt_fd_close) int dir_fd = -1;
	const struct fgt_image *image;
	int32_t tid;

	fgt_fd_close(FGT_TAKE_FD(target->memory_fd));
	/* An exec of our own process would end us, too. */
	if (target->is_embedded || !target->stacks.maps ||
	    !fgt_maps_image_count(target->stacks.maps))
		return;
	if (fgt_process_open_memory(&target->process, &dir_fd, &tid) < 0)
		return;
	image = fgt_maps_image(target->stacks.maps, 0);
	target->memory_probe = image->start;
	target->memory_fd = openat(dir_fd, "mem", O_RDONLY | O_CLOEXEC);
}

static void take_info(struct fgt_target *target,
		      const struct fgt_process_info *info)
{
	struct fgt_target_status *work = &target->work;

	work->uid = info->uid;
	memcpy(work->name, info->name, sizeof(work->name));
	memcpy(work->exe, info->exe, sizeof(work->exe));
	target->has_new_texts = true;
	fgt_ring_set_process(target->ring, info);
}

static int open_process(struct fgt_target *target, int32_t pid,
			struct fgt_why *why)
{
	int rc = fgt_process_open(pid, &target->process, why);

	if (rc < 0)
		return rc;
	return fgt_process_check_access(&target->process, why);
}

static int open_polling(struct fgt_target *target)
{
	int rc = -ENOTSUP;

	target->polling = &fgt_who_ran_clock;
	if (target->is_embedded)
		rc = target->polling->open(&target->process, &target->threads,
					   NULL, &target->polling_state);
	if (rc < 0) {
		target->polling = &fgt_who_ran_schedstat;
		rc = target->polling->open(&target->process, &target->threads,
					   NULL, &target->polling_state);
	}
	target->who_ran = target->polling;
	target->who_ran_state = target->polling_state;
	return rc;
}

static int open_sampling(struct fgt_target *target, uint64_t now_ns,
			 const struct fgt_sampler_options *options,
			 struct fgt_image_cache *cache, struct fgt_why *why)
{
	struct fgt_ring_options ring = options->ring;
	int rc;

	ring.hz = options->hz;
	rc = fgt_ring_new(&ring, &target->ring);
	if (rc < 0)
		return fgt_why_set(why, rc, "the ring: %s", strerror(-rc));
	rc = fgt_thread_table_init(&target->threads, target->process.task_fd,
				   target->work.name, target->budget,
				   target->ring);
	if (rc < 0)
		return fgt_why_set(why, rc, "out of memory");
	target->threads.on_active = begin_thread;
	target->threads.on_idle = drop_thread;
	target->threads.on_free = forget_thread;
	target->threads.context = target;
	rc = fgt_stacks_init(&target->stacks, &target->process, cache,
			     target->ring, options->max_depth);
	if (rc < 0)
		return fgt_why_set(why, rc, "out of memory");
	rc = fgt_stacks_refresh(&target->stacks, now_ns, false, why);
	if (rc < 0)
		return rc;
	open_memory(target);
	rc = open_polling(target);
	if (rc < 0)
		return fgt_why_set(why, rc, "out of memory");
	memcpy(target->threads.excluded, options->excluded_tids,
	       sizeof(options->excluded_tids));
	return 0;
}

int fgt_target_new(int32_t pid, const struct fgt_sampler_options *options,
		   struct fgt_image_cache *cache, struct fgt_fd_budget *budget,
		   struct fgt_target **ret_target, struct fgt_why *why)
{
	FGT_AUTO(fgt_target_put) struct fgt_target *target = NULL;
	struct fgt_process_info info;
	int rc;

	target = calloc(1, sizeof(*target));
	if (!target)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	atomic_init(&target->references, 1);
	pthread_mutex_init(&target->mutex, NULL);
	target->process = (struct fgt_process){ .pidfd = -1,
						.proc_fd = -1,
						.task_fd = -1 };
	target->memory_fd = target->leader_stat_fd = target->spans_fd = -1;
	target->budget = budget;
	target->running = &fgt_running_none;
	target->is_embedded = options->is_embedded;
	target->is_readable = true;
	target->work.attached_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	rc = open_process(target, pid, why);
	if (rc < 0)
		return rc;
	rc = open_sampling(target, target->work.attached_ns, options, cache,
			   why);
	if (rc < 0)
		return rc;
	fgt_pacing_init(target, options->hz);
	rc = fgt_process_get_info(&target->process, &info);
	if (rc < 0)
		return fgt_why_set(why, rc, "process %d has ended", pid);
	take_info(target, &info);
	target->work.pid = pid;
	target->work.start_time = target->process.start_time;
	target->work.is_alive = true;
	target->work.exit_signal_or_minus_one = -1;
	target->work.who_ran = target->who_ran->name;
	target->work.running = "none";
	fgt_target_publish(target);
	*ret_target = FGT_TAKE(target);
	return 0;
}

void fgt_target_stop(struct fgt_target *target, uint64_t now_ns, bool is_alive)
{
	if (!target->budget)
		return;
	fgt_thread_table_done(&target->threads);
	fgt_target_leave_switches(target, now_ns);
	if (target->polling_state)
		target->polling->close(FGT_TAKE(target->polling_state));
	target->who_ran_state = NULL;
	if (target->stacks.unwinder)
		fgt_unwinder_get_stats(target->stacks.unwinder,
				       &target->work.unwind);
	fgt_stacks_done(&target->stacks);
	fgt_fd_close(FGT_TAKE_FD(target->memory_fd));
	fgt_fd_budget_close(target->budget, &target->leader_stat_fd);
	fgt_process_close(&target->process);
	target->budget = NULL;
	target->work.is_alive = is_alive;
	target->work.threads = 0;
	target->work.ended_ns = is_alive ? 0 : now_ns;
	pthread_mutex_lock(&target->mutex);
	target->status = target->work;
	pthread_mutex_unlock(&target->mutex);
}

struct fgt_target *fgt_target_get(struct fgt_target *target)
{
	atomic_fetch_add_explicit(&target->references, 1, memory_order_relaxed);
	return target;
}

void fgt_target_put(struct fgt_target *target)
{
	if (!target)
		return;
	/* Release, acquire: what others wrote comes before the end. */
	if (atomic_fetch_sub_explicit(&target->references, 1,
				      memory_order_acq_rel) != 1)
		return;
	fgt_target_stop(target, 0, target->work.is_alive);
	fgt_ring_free(target->ring);
	fgt_fd_close(target->spans_fd);
	pthread_mutex_destroy(&target->mutex);
	free(target);
}

/* The same descriptor once more; -1 stays -1. */
static int dup_fd(int fd)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return fd >= 0 && copy < 0 ? -errno : copy;
}

int fgt_target_set_spans(struct fgt_target *target, int memfd)
{
	FGT_AUTO(fgt_fd_close) int fd = dup_fd(memfd);

	if (fd < -1)
		return FGT_TAKE_FD(fd);
	pthread_mutex_lock(&target->mutex);
	fgt_fd_close(target->spans_fd);
	target->spans_fd = fgt_fd_apart(FGT_TAKE_FD(fd));
	pthread_mutex_unlock(&target->mutex);
	return 0;
}

bool fgt_target_has_spans(struct fgt_target *target, int memfd)
{
	struct fgt_file_id given;
	bool is_same;

	pthread_mutex_lock(&target->mutex);
	is_same = fgt_file_id_get(memfd, &given) == 0 &&
		  fgt_file_id_is(&given, target->spans_fd);
	pthread_mutex_unlock(&target->mutex);
	return is_same;
}

int fgt_target_cut_spans(struct fgt_target *target,
			 struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int r;

	/* A copy: cutting takes longer than anybody should wait. */
	pthread_mutex_lock(&target->mutex);
	if (fgt_fd_apart_is_ours(target->spans_fd))
		fd = dup_fd(target->spans_fd);
	pthread_mutex_unlock(&target->mutex);
	if (fd < 0)
		return 0;
	r = fgt_span_memfd_cut(fd, slice);
	return r == -ENOMEM ? r : 0;
}

void fgt_target_publish(struct fgt_target *target)
{
	const char *passing = fgt_target_fds_limit(target);
	size_t len = target->has_new_texts
			     ? sizeof(target->work)
			     : offsetof(struct fgt_target_status, name);

	if (target->stacks.unwinder)
		fgt_unwinder_get_stats(target->stacks.unwinder,
				       &target->work.unwind);
	pthread_mutex_lock(&target->mutex);
	memcpy(&target->status, &target->work, len);
	/* Over what else is to be told, which stays to be. */
	if (passing && target->has_new_texts)
		snprintf(target->status.limitation,
			 sizeof(target->status.limitation), "%s", passing);
	pthread_mutex_unlock(&target->mutex);
	target->has_new_texts = false;
}

static void set_provider(struct fgt_target *target,
			 const struct fgt_who_ran *who_ran, void *state,
			 struct fgt_switches *switches, uint64_t now_ns)
{
	target->who_ran = who_ran;
	target->who_ran_state = state;
	target->switches = switches;
	fgt_thread_table_look_at_all(&target->threads, now_ns);
}

void fgt_target_take_switches(struct fgt_target *target,
			      struct fgt_switches *switches, uint64_t now_ns)
{
	void *state;

	if (target->switches || target->has_no_switches ||
	    fgt_who_ran_switches.open(&target->process, &target->threads,
				      switches, &state) < 0)
		return;
	set_provider(target, &fgt_who_ran_switches, state, switches, now_ns);
}

/* Cannot fail: the switches may be about to be closed. */
void fgt_target_leave_switches(struct fgt_target *target, uint64_t now_ns)
{
	if (!target->switches)
		return;
	target->who_ran->close(target->who_ran_state);
	set_provider(target, target->polling, target->polling_state, NULL,
		     now_ns);
}

void fgt_target_explain(struct fgt_target *target, const struct fgt_tick *tick,
			const char *text)
{
	target->has_new_texts = true;
	snprintf(target->work.limitation, sizeof(target->work.limitation), "%s",
		 text);
	if (target->is_explained || !tick->explain)
		return;
	target->is_explained = true;
	tick->explain(tick->context, target->work.pid, text);
}

/*
 * Code that is mapped is faulted in before it runs, which this process counts;
 * our own faults are no news. Where a stack leads elsewhere all the same, the
 * maps are read again in any case.
 */
static bool may_have_new_maps(struct fgt_target *target)
{
	struct rusage all, own;
	uint64_t faults;

	if (!target->is_embedded || getrusage(RUSAGE_SELF, &all) < 0 ||
	    getrusage(RUSAGE_THREAD, &own) < 0)
		return true;
	faults = (uint64_t)(all.ru_minflt + all.ru_majflt) -
		 (uint64_t)(own.ru_minflt + own.ru_majflt);
	if (faults == target->faults)
		return false;
	target->faults = faults;
	return true;
}

/*
 * A process that is ending loses its memory first, which looks like an exec,
 * and then nobody can tell what it ran: that is what was known before.
 */
static bool is_without_memory(const struct fgt_target *target)
{
	char byte;

	return readlinkat(target->process.proc_fd, "exe", &byte, 1) < 0 &&
	       (errno == ENOENT || errno == ESRCH);
}

static void reread_info(struct fgt_target *target)
{
	struct fgt_process_info info;

	if (fgt_process_get_info(&target->process, &info) < 0)
		return;
	if (!info.exe[0] && is_without_memory(target))
		memcpy(info.exe, target->work.exe, sizeof(info.exe));
	take_info(target, &info);
}

void fgt_target_reread(struct fgt_target *target, const struct fgt_tick *tick,
		       bool is_exec)
{
	struct fgt_why why = { "" };
	int rc;

	reread_info(target);
	rc = fgt_process_check_access(&target->process, &why);
	if (rc == 0 && (is_exec || may_have_new_maps(target)))
		rc = fgt_stacks_refresh(&target->stacks, tick->mono_ns, is_exec,
					&why);
	if (rc >= 0) {
		target->is_readable = true;
		if (is_exec || target->memory_fd < 0)
			open_memory(target);
	} else if (rc == -EPERM || rc == -EACCES) {
		target->is_readable = false;
		fgt_target_explain(target, tick, why.text);
	}
}

const struct fgt_ring *fgt_target_ring(const struct fgt_target *target)
{
	return target->ring;
}

int32_t fgt_target_pid(const struct fgt_target *target)
{
	return target->work.pid; /* set once, before it was handed over */
}

uint64_t fgt_target_start_time(const struct fgt_target *target)
{
	return target->work.start_time;
}

bool fgt_target_is_alive(const struct fgt_target *target)
{
	struct fgt_target *locked = (struct fgt_target *)target;
	bool is_alive;

	pthread_mutex_lock(&locked->mutex);
	is_alive = locked->status.is_alive;
	pthread_mutex_unlock(&locked->mutex);
	return is_alive;
}

void fgt_target_get_status(const struct fgt_target *target,
			   struct fgt_target_status *ret_status)
{
	struct fgt_target *locked = (struct fgt_target *)target;

	pthread_mutex_lock(&locked->mutex);
	*ret_status = locked->status;
	pthread_mutex_unlock(&locked->mutex);
	fgt_ring_get_stats(target->ring, &ret_status->ring);
}
