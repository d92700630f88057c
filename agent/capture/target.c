/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target as all threads see it. Runs in any thread.
 */
#include "agent/capture/target.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/waits/pressures.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/spans/span_cut.h"

/* A sample may be shown by a tick that comes so much later. */
#define SETTLE_NS  300000000u
#define BRIEF_KEPT 128u /* seconds: more than a ring holds by default */

struct fgt_target {
	atomic_uint references;
	struct fgt_ring *ring;
	int32_t pid;
	uint64_t start_time;

	/* Protects all that follows; innermost. */
	pthread_mutex_t mutex;
	struct fgt_target_status status;
	/* Of the last seconds; entry n is at [n % BRIEF_KEPT]. */
	struct brief_count {
		uint64_t ns, threads, cpu_ns;
	} briefs[BRIEF_KEPT];
	uint64_t brief_count;
	struct fgt_program program;
	int spans_fd; /* memfd of its span log, -1 */
	int pidfd; /* of the process that has ended, -1 */
	struct fgt_span_log *traces; /* the sampler's; NULL: none */
};

int fgt_target_new(struct fgt_ring *ring,
		   const struct fgt_target_status *status,
		   const struct fgt_owner *owner,
		   struct fgt_target **ret_target)
{
	struct fgt_target *target = calloc(1, sizeof(*target));

	if (!target)
		return -ENOMEM;
	atomic_init(&target->references, 1);
	pthread_mutex_init(&target->mutex, NULL);
	target->ring = ring;
	target->pid = status->pid;
	target->start_time = status->start_time;
	target->status = *status;
	target->program = (struct fgt_program){
		.number = 1,
		.begun_ns = fgt_clock_ns(CLOCK_MONOTONIC),
		.owner = *owner,
	};
	target->spans_fd = target->pidfd = -1;
	*ret_target = target;
	return 0;
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
	/* Release, acquire: what other threads wrote comes before the end. */
	if (atomic_fetch_sub_explicit(&target->references, 1,
				      memory_order_acq_rel) != 1)
		return;
	fgt_ring_free(target->ring);
	fgt_fd_close(target->spans_fd);
	fgt_fd_close(target->pidfd);
	fgt_span_log_free(target->traces);
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

void fgt_target_set_traces(struct fgt_target *target, struct fgt_span_log *log)
{
	pthread_mutex_lock(&target->mutex);
	target->traces = log;
	pthread_mutex_unlock(&target->mutex);
}

int fgt_target_cut_spans(struct fgt_target *target,
			 struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	const struct fgt_span_log *traces;
	int r;

	/* A copy: cutting takes longer than a caller should wait. */
	pthread_mutex_lock(&target->mutex);
	if (fgt_fd_apart_is_kept(target->spans_fd))
		fd = dup_fd(target->spans_fd);
	traces = target->traces;
	pthread_mutex_unlock(&target->mutex);
	r = fgt_pressures_cut(slice);
	if (r < 0 || (fd < 0 && !traces))
		return r;
	r = fgt_span_memfd_cut(fd, traces, slice);
	return r == -ENOMEM ? r : 0;
}

void fgt_target_get_program(const struct fgt_target *target,
			    struct fgt_program *ret_program)
{
	struct fgt_target *locked = (struct fgt_target *)target;

	pthread_mutex_lock(&locked->mutex);
	*ret_program = locked->program;
	pthread_mutex_unlock(&locked->mutex);
}

void fgt_target_note_owner(struct fgt_target *target, uint64_t number,
			   const struct fgt_owner *owner, uint64_t now_ns)
{
	struct fgt_program *program = &target->program;

	pthread_mutex_lock(&target->mutex);
	if (program->number == number &&
	    !fgt_owner_is_same(&program->owner, owner)) {
		program->plain_ns = now_ns + SETTLE_NS;
		program->owner = *owner;
	}
	pthread_mutex_unlock(&target->mutex);
}

void fgt_target_note_exec(struct fgt_target *target,
			  const struct fgt_owner *owner, bool is_continuous,
			  uint64_t tick_ns)
{
	struct fgt_program *program = &target->program;

	pthread_mutex_lock(&target->mutex);
	/* Not this tick: a sample of the program before may be its. */
	if (!is_continuous || !fgt_owner_is_same(&program->owner, owner))
		program->plain_ns = tick_ns + 1;
	program->number++;
	program->begun_ns = tick_ns + 1;
	if (!program->first_exec_ns)
		program->first_exec_ns = program->begun_ns;
	program->owner = *owner;
	pthread_mutex_unlock(&target->mutex);
}

void fgt_target_note_brief(struct fgt_target *target, uint64_t now_ns,
			   uint64_t threads, uint64_t cpu_ns)
{
	const struct brief_count now = {
		.ns = now_ns,
		.threads = threads,
		.cpu_ns = cpu_ns,
	};
	uint64_t count;

	pthread_mutex_lock(&target->mutex);
	count = target->brief_count;
	/* A target that is freed has no last instant. */
	if (!count || now_ns > target->briefs[(count - 1) % BRIEF_KEPT].ns)
		target->briefs[target->brief_count++ % BRIEF_KEPT] = now;
	pthread_mutex_unlock(&target->mutex);
}

static uint64_t part_of(uint64_t before, uint64_t after, double part)
{
	return after > before
		       ? before + (uint64_t)((double)(after - before) * part)
		       : before;
}

/* At an instant, between the two counts around it; all are kept in order. */
static struct brief_count brief_at(const struct fgt_target *target, uint64_t ns)
{
	const struct brief_count *before = NULL, *after = NULL;
	uint64_t at = target->brief_count;
	uint64_t oldest = at > BRIEF_KEPT ? at - BRIEF_KEPT : 0;
	double part;

	while (at > oldest && !before) {
		const struct brief_count *count =
			&target->briefs[--at % BRIEF_KEPT];

		if (count->ns <= ns)
			before = count;
		else
			after = count;
	}
	if (!before || !after)
		return before ? *before : *after;
	part = (double)(ns - before->ns) / (double)(after->ns - before->ns);
	return (struct brief_count){
		.threads = part_of(before->threads, after->threads, part),
		.cpu_ns = part_of(before->cpu_ns, after->cpu_ns, part),
	};
}

void fgt_target_cut_brief(struct fgt_target *target,
			  struct fgt_ring_slice *slice)
{
	struct brief_count from, to;

	pthread_mutex_lock(&target->mutex);
	if (target->brief_count) {
		from = brief_at(target, slice->tick_ns[0]);
		to = brief_at(target, slice->tick_ns[slice->tick_count - 1]);
		if (to.threads > from.threads)
			slice->brief_threads = to.threads - from.threads;
		if (to.cpu_ns > from.cpu_ns)
			slice->brief_cpu_ns = to.cpu_ns - from.cpu_ns;
	}
	pthread_mutex_unlock(&target->mutex);
}

void fgt_target_show(struct fgt_target *target,
		     const struct fgt_target_status *status, bool has_texts,
		     const char *limitation)
{
	size_t len = has_texts ? sizeof(*status)
			       : offsetof(struct fgt_target_status, unwind);

	pthread_mutex_lock(&target->mutex);
	memcpy(&target->status, status, len);
	if (limitation)
		snprintf(target->status.limitation,
			 sizeof(target->status.limitation), "%s", limitation);
	pthread_mutex_unlock(&target->mutex);
}

void fgt_target_give_up(struct fgt_target *target, uint64_t now_ns,
			const char *reason)
{
	pthread_mutex_lock(&target->mutex);
	target->status.is_alive = false;
	target->status.is_given_up = true;
	target->status.ended_ns = now_ns;
	target->status.threads = 0;
	snprintf(target->status.limitation, sizeof(target->status.limitation),
		 "%s", reason);
	pthread_mutex_unlock(&target->mutex);
}

void fgt_target_forked(const struct fgt_target *target)
{
	fgt_fd_close(fgt_ring_fd(target->ring));
	fgt_fd_close(target->spans_fd);
	fgt_fd_close(target->pidfd);
}

void fgt_target_keep_pidfd(struct fgt_target *target, int pidfd)
{
	pthread_mutex_lock(&target->mutex);
	fgt_fd_close(target->pidfd);
	target->pidfd = pidfd;
	pthread_mutex_unlock(&target->mutex);
}

int fgt_target_take_pidfd(struct fgt_target *target)
{
	int pidfd;

	pthread_mutex_lock(&target->mutex);
	pidfd = FGT_TAKE_FD(target->pidfd);
	pthread_mutex_unlock(&target->mutex);
	return pidfd;
}

void fgt_target_note_signal(struct fgt_target *target, const char *name)
{
	pthread_mutex_lock(&target->mutex);
	snprintf(target->status.ended_by, sizeof(target->status.ended_by), "%s",
		 name);
	pthread_mutex_unlock(&target->mutex);
}

void fgt_target_cut_end(struct fgt_target *target, uint64_t to_ns,
			struct fgt_ring_slice *slice)
{
	pthread_mutex_lock(&target->mutex);
	if (to_ns >= target->status.ended_ns)
		memcpy(slice->ended_by, target->status.ended_by,
		       sizeof(slice->ended_by));
	pthread_mutex_unlock(&target->mutex);
}

const struct fgt_ring *fgt_target_ring(const struct fgt_target *target)
{
	return target->ring;
}

int32_t fgt_target_pid(const struct fgt_target *target)
{
	return target->pid;
}

uint64_t fgt_target_start_time(const struct fgt_target *target)
{
	return target->start_time;
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

bool fgt_target_is_given_up(const struct fgt_target *target)
{
	struct fgt_target *locked = (struct fgt_target *)target;
	bool is_given_up;

	pthread_mutex_lock(&locked->mutex);
	is_given_up = locked->status.is_given_up;
	pthread_mutex_unlock(&locked->mutex);
	return is_given_up;
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
