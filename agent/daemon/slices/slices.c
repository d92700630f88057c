/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs slice requests in threads. Runs in the daemon's loop, except work_off().
 * A client that reads slowly does not take a place at work from other clients:
 * slices that are sent have a separate limit, since each is in memory.
 */
#include "agent/daemon/slices/slices.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/daemon/loop/log.h"
#include "ringbuf/base/heartbeat.h"

#define GRACE_HZ_MIN 4.0

enum slice_state {
	SLICE_WAITS, /* until its end of time has come */
	SLICE_QUEUED, /* until a thread may start */
	SLICE_WORKS,
	SLICE_SENDS,
	SLICE_DONE,
};

struct slice_job {
	struct fgt_slices *slices;
	TAILQ_ENTRY(slice_job) link;
	struct fgt_control_client *client;
	struct fgt_timer timer;
	struct fgt_slice_work work;
	pthread_t thread;
	/* enum slice_state: written by the loop until the thread starts, then
	 * by the thread. */
	atomic_int state;
	int result; /* written by the thread before SLICE_DONE */
};

struct fgt_slices {
	struct fgt_loop *loop;
	struct fgt_symbolizer *symbolizer;
	struct fgt_waker waker; /* a job has another state */
	TAILQ_HEAD(, slice_job) all; /* oldest first; only the loop's */
	atomic_bool is_cancelled;
	bool is_leaving;
	uint64_t served, failed, busy;
};

static void free_job(struct slice_job *job)
{
	struct fgt_slices *slices = job->slices;

	fgt_loop_disarm(slices->loop, &job->timer);
	TAILQ_REMOVE(&slices->all, job, link);
	fgt_target_put(job->work.target);
	free(job);
}

static enum slice_state state_of(struct slice_job *job)
{
	/* Acquire: pairs with the release store in set_state(). */
	return (enum slice_state)atomic_load_explicit(&job->state,
						      memory_order_acquire);
}

/* The jobs of one ordinary user have a separate limit. */
static bool is_limited(struct slice_job *job)
{
	uint32_t uid = fgt_control_peer(job->client)->uid;

	return uid != 0 && uid != geteuid();
}

/* How many jobs are in a state, or in another; of one user if there is one. */
static size_t count(struct fgt_slices *slices, enum slice_state a,
		    enum slice_state b, const struct fgt_peer *user)
{
	struct slice_job *job;
	size_t total = 0;

	TAILQ_FOREACH(job, &slices->all, link) {
		enum slice_state state = state_of(job);

		total += (state == a || state == b) &&
			 (!user ||
			  fgt_control_peer(job->client)->uid == user->uid);
	}
	return total;
}

/* ---- The thread -------------------------------------------------------- */

static void set_state(struct slice_job *job, enum slice_state state)
{
	/* From the store on, a job that is done may be freed. */
	struct fgt_loop *loop = job->slices->loop;

	/* Release: pairs with the acquire load in state_of(). */
	atomic_store_explicit(&job->state, state, memory_order_release);
	fgt_loop_wake(loop);
}

static void *work_off(void *argument)
{
	struct slice_job *job = argument;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_heartbeat *heartbeat =
		fgt_heartbeat_begin("thread of a slice", NULL);

	fgt_heartbeat_set(heartbeat, FGT_STEP_WORK,
			  fgt_target_pid(job->work.target));
	job->result = fgt_slice_work_prepare(&job->work, &slice);
	if (job->result == 0) {
		set_state(job, SLICE_SENDS);
		job->result = fgt_slice_work_send(&job->work, slice);
	}
	fgt_heartbeat_end();
	set_state(job, SLICE_DONE);
	return NULL;
}

/* ---- The loop's side --------------------------------------------------- */

static void start(struct slice_job *job)
{
	struct fgt_slices *slices = job->slices;
	int r;

	job->work.fd = fgt_control_lend(job->client);
	atomic_store_explicit(&job->state, SLICE_WORKS, memory_order_relaxed);
	r = pthread_create(&job->thread, NULL, work_off, job);
	if (r == 0)
		return;
	slices->failed++;
	fgt_log(FGT_LOG_ERROR, "slice_failed",
		"cannot start a thread: %s: raise TasksMax= or ulimit -u",
		strerror(r));
	fgt_control_fail(job->client, -EAGAIN,
			 "the agent cannot start a thread: raise its "
			 "TasksMax= or ulimit -u");
	free_job(job);
}

static void send_away(struct slice_job *job, int error, const char *why)
{
	fgt_control_fail(job->client, error, why);
	free_job(job);
}

static void send_away_busy(struct slice_job *job, const char *why)
{
	job->slices->busy++;
	send_away(job, -EBUSY, why);
}

static bool is_users_turn(struct slice_job *job)
{
	return !is_limited(job) ||
	       count(job->slices, SLICE_WORKS, SLICE_SENDS,
		     fgt_control_peer(job->client)) < FGT_SLICES_PER_USER;
}

static void start_queued(struct fgt_slices *slices)
{
	struct slice_job *job = TAILQ_FIRST(&slices->all);
	size_t active = count(slices, SLICE_WORKS, SLICE_WORKS, NULL);
	size_t started = count(slices, SLICE_WORKS, SLICE_SENDS, NULL);

	while (job && active < FGT_SLICES_AT_WORK &&
	       started < FGT_SLICES_STARTED) {
		struct slice_job *next = TAILQ_NEXT(job, link);

		if (state_of(job) == SLICE_QUEUED && is_users_turn(job)) {
			fgt_loop_disarm(slices->loop, &job->timer);
			start(job);
			active++;
			started++;
		}
		job = next;
	}
}

static void finish(struct slice_job *job)
{
	(void)pthread_join(job->thread, NULL);
	if (job->result == 0) {
		job->slices->served++;
	} else {
		job->slices->failed++;
		fgt_log(FGT_LOG_DEBUG, "slice_failed", "pid %d: %s",
			fgt_target_pid(job->work.target),
			strerror(-job->result));
	}
	fgt_control_close(job->client);
	free_job(job);
}

static void woken(void *context)
{
	struct fgt_slices *slices = context;
	struct slice_job *job = TAILQ_FIRST(&slices->all);

	while (job) {
		struct slice_job *next = TAILQ_NEXT(job, link);

		if (state_of(job) == SLICE_DONE)
			finish(job);
		job = next;
	}
	start_queued(slices);
}

static void client_gone(void *context)
{
	struct slice_job *job = context;

	job->slices->failed++;
	free_job(job);
}

/* Ordinary users have a separate queue: root and the daemon's user always find
 * a place. */
static bool is_queue_full(struct slice_job *job)
{
	size_t queued = 0;
	struct slice_job *other;

	TAILQ_FOREACH(other, &job->slices->all, link)
		queued += state_of(other) == SLICE_QUEUED &&
			  is_limited(other) == is_limited(job);
	return queued >= FGT_SLICES_QUEUED ||
	       (is_limited(job) &&
		count(job->slices, SLICE_QUEUED, SLICE_QUEUED,
		      fgt_control_peer(job->client)) >=
			FGT_SLICES_QUEUED_PER_USER);
}

/* No place became free within the time that slices take which are read at once:
 * other slices are read slowly. */
static void has_waited(void *context)
{
	struct slice_job *job = context;

	if (!is_users_turn(job))
		send_away_busy(job, "busy: two slices of this user are made "
				    "or read already: try again when one is "
				    "done");
	else if (count(job->slices, SLICE_SENDS, SLICE_SENDS, NULL) >=
		 FGT_SLICES_STARTED)
		send_away_busy(job, "busy: too many slices are being read "
				    "slowly: try again");
	else /* they are made: that has an end */
		fgt_loop_arm(job->slices->loop, &job->timer,
			     fgt_loop_now() + FGT_SLICES_WAIT_NS);
}

/* The time of its end has come. context: struct slice_job. */
static void enqueue(void *context)
{
	struct slice_job *job = context;
	struct fgt_slices *slices = job->slices;

	if (is_queue_full(job)) {
		send_away_busy(job, "busy: too many slices at once: try again");
		return;
	}
	atomic_store_explicit(&job->state, SLICE_QUEUED, memory_order_relaxed);
	job->timer.expired = has_waited;
	fgt_loop_arm(slices->loop, &job->timer,
		     fgt_loop_now() + FGT_SLICES_WAIT_NS);
	start_queued(slices);
}

static struct slice_job *add_job(struct fgt_slices *slices,
				 struct fgt_control_client *client,
				 struct fgt_target *target,
				 const struct fgt_slice_request *request,
				 const struct fgt_gate *gate)
{
	struct slice_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->slices = slices;
	job->client = client;
	job->timer = (struct fgt_timer){ .expired = enqueue, .context = job };
	job->work = (struct fgt_slice_work){
		.target = fgt_target_get(target),
		.symbolizer = slices->symbolizer,
		.request = *request,
		.gate = *gate,
		.fd = -1,
		.is_cancelled = &slices->is_cancelled,
	};
	atomic_init(&job->state, SLICE_WAITS);
	TAILQ_INSERT_TAIL(&slices->all, job, link);
	return job;
}

void fgt_slices_submit(struct fgt_slices *slices,
		       struct fgt_control_client *client,
		       struct fgt_target *target,
		       const struct fgt_slice_request *request,
		       const struct fgt_gate *gate)
{
	struct slice_job *job;

	if (slices->is_leaving) {
		fgt_control_fail(client, -ESHUTDOWN, FGT_AGENT_IS_LEAVING);
		return;
	}
	job = add_job(slices, client, target, request, gate);
	if (!job) {
		fgt_control_fail(client, -ENOMEM,
				 "the agent is " FGT_NO_MEMORY);
		return;
	}
	fgt_control_park(client, client_gone, job);
	if (request->to_ns > fgt_loop_now() && fgt_target_is_alive(target))
		fgt_loop_arm(slices->loop, &job->timer,
			     request->to_ns + fgt_slices_grace_ns(target));
	else
		enqueue(job);
}

void fgt_slices_refresh(struct fgt_slices *slices)
{
	struct slice_job *job;

	TAILQ_FOREACH(job, &slices->all, link)
		if (state_of(job) == SLICE_WAITS &&
		    !fgt_target_is_alive(job->work.target))
			fgt_loop_arm(slices->loop, &job->timer, 1);
}

void fgt_slices_leave(struct fgt_slices *slices)
{
	struct slice_job *job = TAILQ_FIRST(&slices->all);

	slices->is_leaving = true;
	while (job) {
		struct slice_job *next = TAILQ_NEXT(job, link);
		enum slice_state state = state_of(job);

		if (state == SLICE_WAITS || state == SLICE_QUEUED) {
			slices->failed++;
			send_away(job, -ESHUTDOWN, FGT_AGENT_IS_LEAVING);
		}
		job = next;
	}
}

void fgt_slices_cancel(struct fgt_slices *slices)
{
	atomic_store_explicit(&slices->is_cancelled, true,
			      memory_order_relaxed);
}

void fgt_slices_get_counters(struct fgt_slices *slices,
			     struct fgt_slices_counters *ret_counters)
{
	*ret_counters = (struct fgt_slices_counters){
		.served = slices->served,
		.failed = slices->failed,
		.busy = slices->busy,
		.active = count(slices, SLICE_WORKS, SLICE_SENDS, NULL),
		.waiting = count(slices, SLICE_WAITS, SLICE_QUEUED, NULL),
	};
}

uint64_t fgt_slices_grace_ns(const struct fgt_target *target)
{
	struct fgt_target_status status;
	double hz;

	fgt_target_get_status(target, &status);
	hz = status.rate_hz > GRACE_HZ_MIN ? status.rate_hz : GRACE_HZ_MIN;
	return (uint64_t)(3e9 / hz) + 5000000;
}

int fgt_slices_new(struct fgt_loop *loop, struct fgt_symbolizer *symbolizer,
		   struct fgt_slices **ret_slices)
{
	struct fgt_slices *slices = calloc(1, sizeof(*slices));

	if (!slices)
		return -ENOMEM;
	TAILQ_INIT(&slices->all);
	slices->loop = loop;
	slices->symbolizer = symbolizer;
	atomic_init(&slices->is_cancelled, false);
	slices->waker =
		(struct fgt_waker){ .called = woken, .context = slices };
	fgt_loop_add_waker(loop, &slices->waker);
	*ret_slices = slices;
	return 0;
}

void fgt_slices_free(struct fgt_slices *slices)
{
	if (!slices)
		return;
	fgt_slices_leave(slices);
	fgt_slices_cancel(slices);
	while (!TAILQ_EMPTY(&slices->all)) /* each of them has a thread */
		finish(TAILQ_FIRST(&slices->all));
	fgt_loop_remove_waker(&slices->waker);
	free(slices);
}
