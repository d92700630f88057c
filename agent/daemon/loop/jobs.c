/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs jobs one after the other. Runs in the daemon's loop, except work_off(),
 * and fgt_jobs_give_up() and _tend(), which are the watchdog's; must not call
 * done() on another thread than the loop's.
 */
#include "agent/daemon/loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>

#include "agent/daemon/loop/assert.h"
#include "agent/daemon/loop/log.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/thread.h"

/* Threads that were given up and have not returned; and as many in all may have
 * been, since each leaves descriptors open. Then one that hangs is reported
 * only. */
#define LOST_MAX	 8
#define LOST_MAX_ALL	 64
#define LOST_OF_USER_MAX 2 /* of jobs that are asked */

STAILQ_HEAD(job_queue, fgt_job);

struct lost_thread {
	pthread_t thread;
	struct fgt_heartbeat *heartbeat; /* NULL: this place is free */
	int32_t pid;
	bool is_asked;
	uint32_t uid;
};

struct fgt_jobs {
	struct fgt_loop *loop;
	struct fgt_waker waker; /* something has been done */
	const char
		*name; /* of the thread, for the watchdog; NULL: not watched */
	bool is_stopped;
	/* Protects all below; inside it only heartbeats and the log. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool is_started; /* there is a thread, which has not been given up */
	struct job_queue waiting, finished;
	struct fgt_job *running; /* NULL */
	struct fgt_heartbeat *heartbeat; /* the thread's */
	struct lost_thread lost[LOST_MAX];
	uint32_t lost_all;
	bool shall_stop, has_ended;
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

static struct lost_thread *find_place(struct fgt_jobs *jobs)
{
	for (int i = 0; i < LOST_MAX && jobs->lost_all < LOST_MAX_ALL; i++)
		if (!jobs->lost[i].heartbeat)
			return &jobs->lost[i];
	return NULL;
}

/* A job that is asked is only begun if it can be given up. */
static bool may_begin(struct fgt_jobs *jobs, const struct fgt_job *job)
{
	unsigned int of_user = 0;

	for (int i = 0; i < LOST_MAX; i++)
		of_user += jobs->lost[i].heartbeat &&
			   jobs->lost[i].uid == job->uid;
	return !job->is_asked || (jobs->heartbeat && find_place(jobs) &&
				  of_user < LOST_OF_USER_MAX);
}

/* With the lock held: to the caller of fgt_jobs_ask(). */
static void give_back(struct fgt_jobs *jobs, struct fgt_job *job, bool is_lost)
{
	job->is_lost = is_lost;
	job->is_asked = false;
	pthread_cond_broadcast(&jobs->changed);
}

/* With the lock held. */
static void finish(struct fgt_jobs *jobs, bool is_lost)
{
	struct fgt_job *job = FGT_TAKE(jobs->running);

	if (job->is_asked) {
		give_back(jobs, job, is_lost);
		return;
	}
	job->is_lost = is_lost;
	STAILQ_INSERT_TAIL(&jobs->finished, job, link);
	fgt_loop_wake(jobs->loop);
}

/* NULL: there is to be no next one. */
static struct fgt_job *wait_for_next(struct fgt_jobs *jobs)
{
	struct fgt_job *job;

	pthread_mutex_lock(&jobs->lock);
	while (!jobs->running && !jobs->shall_stop) {
		jobs->running = take_first(&jobs->waiting);
		if (!jobs->running)
			pthread_cond_wait(&jobs->changed, &jobs->lock);
		else if (!may_begin(jobs, jobs->running))
			finish(jobs, true);
	}
	job = jobs->running;
	pthread_mutex_unlock(&jobs->lock);
	return job;
}

static void work(struct fgt_jobs *jobs, struct fgt_heartbeat *heartbeat)
{
	struct fgt_job *job;

	while ((job = wait_for_next(jobs))) {
		fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, 0);
		job->run(job->context);
		fgt_heartbeat_set(heartbeat, FGT_STEP_IDLE, 0);
		pthread_mutex_lock(&jobs->lock);
		finish(jobs, false);
		pthread_mutex_unlock(&jobs->lock);
	}
}

static void *work_off(void *argument)
{
	struct fgt_jobs *jobs = argument;
	struct fgt_heartbeat *heartbeat;
	jmp_buf given_up;

	if (setjmp(given_up))
		return NULL;
	pthread_mutex_lock(&jobs->lock);
	heartbeat = fgt_heartbeat_begin(jobs->name ?: "thread of jobs",
					jobs->name ? &given_up : NULL);
	jobs->heartbeat = heartbeat;
	pthread_mutex_unlock(&jobs->lock);
	work(jobs, heartbeat);
	pthread_mutex_lock(&jobs->lock);
	fgt_heartbeat_end();
	jobs->heartbeat = NULL;
	jobs->has_ended = true;
	pthread_cond_broadcast(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
	return NULL;
}

/* With the lock held, or before there is a thread. */
static int start(struct fgt_jobs *jobs)
{
	int r = fgt_thread_start(0, work_off, jobs, &jobs->thread);

	jobs->is_started = r == 0;
	return r;
}

/* ---- The watchdog's side ----------------------------------------------- */

void fgt_jobs_give_up(struct fgt_jobs *jobs, struct fgt_heartbeat *heartbeat,
		      uint64_t beat)
{
	struct lost_thread *lost;

	pthread_mutex_lock(&jobs->lock);
	lost = jobs->heartbeat == heartbeat ? find_place(jobs) : NULL;
	if (lost && fgt_heartbeat_give_up(heartbeat, beat)) {
		*lost = (struct lost_thread){
			.thread = jobs->thread,
			.heartbeat = FGT_TAKE(jobs->heartbeat),
			.pid = fgt_beat_pid(beat),
			.is_asked = jobs->running->is_asked,
			.uid = jobs->running->uid,
		};
		jobs->lost_all += !lost->is_asked;
		jobs->is_started = false;
		fgt_log(FGT_LOG_WARNING, "jobs",
			"pid %d is left out: %s does not return: end what "
			"holds that",
			lost->pid, fgt_step_name(fgt_beat_step(beat)));
		finish(jobs, true);
		if (!jobs->shall_stop)
			(void)start(jobs);
		pthread_cond_broadcast(&jobs->changed);
	}
	pthread_mutex_unlock(&jobs->lock);
}

void fgt_jobs_tend(struct fgt_jobs *jobs)
{
	pthread_mutex_lock(&jobs->lock);
	for (int i = 0; i < LOST_MAX; i++) {
		struct lost_thread *lost = &jobs->lost[i];

		if (!lost->heartbeat ||
		    !fgt_heartbeat_has_ended(lost->heartbeat))
			continue;
		pthread_join(lost->thread, NULL);
		fgt_heartbeat_free(FGT_TAKE(lost->heartbeat));
		fgt_log(FGT_LOG_INFO, "jobs", "pid %d can be read again",
			lost->pid);
	}
	if (!jobs->is_started && !jobs->shall_stop)
		(void)start(jobs);
	pthread_mutex_unlock(&jobs->lock);
}

/* ---- The loop's side --------------------------------------------------- */

static void do_all(struct fgt_jobs *jobs, struct job_queue *queue)
{
	struct fgt_job *job;
	bool is_asked;

	do {
		pthread_mutex_lock(&jobs->lock);
		FGT_ASSERT(!jobs->is_started ||
			   !pthread_equal(jobs->thread, pthread_self()));
		job = take_first(queue);
		is_asked = job && job->is_asked;
		if (is_asked)
			give_back(jobs, job, true);
		pthread_mutex_unlock(&jobs->lock);
		if (job && !is_asked)
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
	job->is_lost = false;
	STAILQ_INSERT_TAIL(&jobs->waiting, job, link);
	pthread_cond_broadcast(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
}

int fgt_jobs_ask(struct fgt_jobs *jobs, struct fgt_job *job, uint32_t uid)
{
	bool is_lost = true;

	pthread_mutex_lock(&jobs->lock);
	if (jobs->is_started && !jobs->shall_stop) {
		job->is_asked = true;
		job->uid = uid;
		STAILQ_INSERT_TAIL(&jobs->waiting, job, link);
		pthread_cond_broadcast(&jobs->changed);
		while (job->is_asked)
			pthread_cond_wait(&jobs->changed, &jobs->lock);
		is_lost = job->is_lost;
	}
	pthread_mutex_unlock(&jobs->lock);
	return is_lost ? -EAGAIN : 0;
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

static int make(struct fgt_loop *loop, const char *name,
		struct fgt_jobs **ret_jobs)
{
	FGT_AUTO(fgt_jobs_free) struct fgt_jobs *jobs = NULL;
	int r;

	jobs = calloc(1, sizeof(*jobs));
	if (!jobs)
		return -ENOMEM;
	jobs->loop = loop;
	jobs->name = name;
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

int fgt_jobs_new(struct fgt_loop *loop, struct fgt_jobs **ret_jobs)
{
	return make(loop, NULL, ret_jobs);
}

int fgt_jobs_new_watched(struct fgt_loop *loop, const char *name,
			 struct fgt_jobs **ret_jobs)
{
	return make(loop, name, ret_jobs);
}

void fgt_jobs_stop(struct fgt_jobs *jobs)
{
	bool has_thread;

	if (!jobs || jobs->is_stopped)
		return;
	jobs->is_stopped = true;
	pthread_mutex_lock(&jobs->lock);
	jobs->shall_stop = true;
	pthread_cond_broadcast(&jobs->changed);
	/* It may be given up meanwhile. */
	while (jobs->is_started && !jobs->has_ended)
		pthread_cond_wait(&jobs->changed, &jobs->lock);
	has_thread = jobs->is_started;
	jobs->is_started = false;
	pthread_mutex_unlock(&jobs->lock);
	if (has_thread)
		pthread_join(jobs->thread, NULL);
	do_all(jobs, &jobs->finished);
	do_all(jobs, &jobs->waiting);
}

void fgt_jobs_free(struct fgt_jobs *jobs)
{
	if (!jobs)
		return;
	fgt_jobs_stop(jobs);
	fgt_jobs_tend(jobs); /* those that have ended since */
	fgt_loop_remove_waker(&jobs->waker);
	pthread_cond_destroy(&jobs->changed);
	pthread_mutex_destroy(&jobs->lock);
	free(jobs);
}
