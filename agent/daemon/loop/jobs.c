/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs jobs one after the other. Runs in the daemon's loop, except
 * work_off(); must not call done() on another thread than the loop's.
 */
#include "agent/daemon/loop/loop.h"

#include <errno.h>
#include <pthread.h>

#include "agent/daemon/loop/assert.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/thread.h"

STAILQ_HEAD(job_queue, fgt_job);

struct fgt_jobs {
	struct fgt_loop *loop;
	struct fgt_waker waker; /* something has been done */
	pthread_t thread;
	bool is_started;
	/* Protects all below; innermost. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job_queue waiting, finished;
	bool shall_stop;
};

/* NULL: the queue is empty. */
static struct fgt_job *take_first(struct job_queue *queue)
{
	struct fgt_job *job = STAILQ_FIRST(queue);

	if (job)
		STAILQ_REMOVE_HEAD(queue, link);
	return job;
}

/* ---- The thread -------------------------------------------------------- */

/* NULL: there is to be no next one. */
static struct fgt_job *wait_for_next(struct fgt_jobs *jobs)
{
	struct fgt_job *job = NULL;

	pthread_mutex_lock(&jobs->lock);
	while (!jobs->shall_stop && STAILQ_EMPTY(&jobs->waiting))
		pthread_cond_wait(&jobs->changed, &jobs->lock);
	if (!jobs->shall_stop)
		job = take_first(&jobs->waiting);
	pthread_mutex_unlock(&jobs->lock);
	return job;
}

static void *work_off(void *argument)
{
	struct fgt_heartbeat *heartbeat =
		fgt_heartbeat_begin("thread of jobs", NULL);
	struct fgt_jobs *jobs = argument;
	struct fgt_job *job;

	while ((job = wait_for_next(jobs))) {
		fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, 0);
		job->run(job->context);
		fgt_heartbeat_set(heartbeat, FGT_STEP_IDLE, 0);
		pthread_mutex_lock(&jobs->lock);
		STAILQ_INSERT_TAIL(&jobs->finished, job, link);
		pthread_mutex_unlock(&jobs->lock);
		fgt_loop_wake(jobs->loop);
	}
	fgt_heartbeat_end();
	return NULL;
}

/* ---- The loop's side --------------------------------------------------- */

static void do_all(struct fgt_jobs *jobs, struct job_queue *queue)
{
	struct fgt_job *job;

	FGT_ASSERT(!jobs->is_started ||
		   !pthread_equal(jobs->thread, pthread_self()));
	do {
		pthread_mutex_lock(&jobs->lock);
		job = take_first(queue);
		pthread_mutex_unlock(&jobs->lock);
		if (job)
			job->done(job->context);
	} while (job);
}

static void something_done(void *context)
{
	struct fgt_jobs *jobs = context;

	do_all(jobs, &jobs->finished);
}

void fgt_jobs_submit(struct fgt_jobs *jobs, struct fgt_job *job)
{
	pthread_mutex_lock(&jobs->lock);
	STAILQ_INSERT_TAIL(&jobs->waiting, job, link);
	pthread_cond_signal(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
}

bool fgt_jobs_withdraw(struct fgt_jobs *jobs, struct fgt_job *job)
{
	struct fgt_job *waiting;

	pthread_mutex_lock(&jobs->lock);
	STAILQ_FOREACH(waiting, &jobs->waiting, link)
		if (waiting == job)
			break;
	if (waiting)
		STAILQ_REMOVE(&jobs->waiting, job, fgt_job, link);
	pthread_mutex_unlock(&jobs->lock);
	return waiting;
}

static int start(struct fgt_jobs *jobs)
{
	int r = fgt_thread_start(0, work_off, jobs, &jobs->thread);

	jobs->is_started = r == 0;
	return r;
}

int fgt_jobs_new(struct fgt_loop *loop, struct fgt_jobs **ret_jobs)
{
	FGT_AUTO(fgt_jobs_free) struct fgt_jobs *jobs = NULL;
	int r;

	jobs = calloc(1, sizeof(*jobs));
	if (!jobs)
		return -ENOMEM;
	jobs->loop = loop;
	STAILQ_INIT(&jobs->waiting);
	STAILQ_INIT(&jobs->finished);
	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->changed, NULL);
	jobs->waker =
		(struct fgt_waker){ .called = something_done, .context = jobs };
	fgt_loop_add_waker(loop, &jobs->waker);
	r = start(jobs);
	if (r < 0)
		return r;
	*ret_jobs = FGT_TAKE(jobs);
	return 0;
}

void fgt_jobs_free(struct fgt_jobs *jobs)
{
	if (!jobs)
		return;
	pthread_mutex_lock(&jobs->lock);
	jobs->shall_stop = true;
	pthread_cond_signal(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
	if (jobs->is_started)
		pthread_join(jobs->thread, NULL);
	do_all(jobs, &jobs->finished);
	do_all(jobs, &jobs->waiting);
	fgt_loop_remove_waker(&jobs->waker);
	pthread_cond_destroy(&jobs->changed);
	pthread_mutex_destroy(&jobs->lock);
	free(jobs);
}
