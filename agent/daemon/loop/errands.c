/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs errands one after the other. Runs in the daemon's loop, but for
 * work_off(); must not call done() on another thread than the loop's.
 */
#include "agent/daemon/loop/errands.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
	struct fgt_errand *first, *last;
};

struct fgt_errands {
	struct fgt_loop *loop;
	struct fgt_watch watch; /* of an eventfd: something has been done */
	pthread_t thread;
	bool is_started;
	/* Protects all below; innermost. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct queue waiting, finished;
	bool shall_stop;
};

static void append(struct queue *queue, struct fgt_errand *errand)
{
	errand->next = NULL;
	if (queue->last)
		queue->last->next = errand;
	else
		queue->first = errand;
	queue->last = errand;
}

static struct fgt_errand *take_first(struct queue *queue)
{
	struct fgt_errand *errand = queue->first;

	if (!errand)
		return NULL;
	queue->first = errand->next;
	if (!queue->first)
		queue->last = NULL;
	return errand;
}

/* ---- The thread -------------------------------------------------------- */

/* NULL: there is to be no next one. */
static struct fgt_errand *wait_for_next(struct fgt_errands *errands)
{
	struct fgt_errand *errand = NULL;

	pthread_mutex_lock(&errands->lock);
	while (!errands->shall_stop && !errands->waiting.first)
		pthread_cond_wait(&errands->changed, &errands->lock);
	if (!errands->shall_stop)
		errand = take_first(&errands->waiting);
	pthread_mutex_unlock(&errands->lock);
	return errand;
}

static void *work_off(void *argument)
{
	struct fgt_errands *errands = argument;
	struct fgt_errand *errand;
	const uint64_t one = 1;

	while ((errand = wait_for_next(errands))) {
		errand->run(errand->context);
		pthread_mutex_lock(&errands->lock);
		append(&errands->finished, errand);
		pthread_mutex_unlock(&errands->lock);
		(void)!write(errands->watch.fd, &one, sizeof(one));
	}
	return NULL;
}

/* ---- The loop's side --------------------------------------------------- */

static void do_all(struct fgt_errands *errands, struct queue *queue)
{
	struct fgt_errand *errand;

	do {
		pthread_mutex_lock(&errands->lock);
		errand = take_first(queue);
		pthread_mutex_unlock(&errands->lock);
		if (errand)
			errand->done(errand->context);
	} while (errand);
}

static void something_done(void *context, uint32_t events)
{
	struct fgt_errands *errands = context;
	uint64_t count;

	(void)events;
	(void)!read(errands->watch.fd, &count, sizeof(count));
	do_all(errands, &errands->finished);
}

void fgt_errands_submit(struct fgt_errands *errands, struct fgt_errand *errand)
{
	pthread_mutex_lock(&errands->lock);
	append(&errands->waiting, errand);
	pthread_cond_signal(&errands->changed);
	pthread_mutex_unlock(&errands->lock);
}

bool fgt_errands_withdraw(struct fgt_errands *errands,
			  struct fgt_errand *errand)
{
	struct queue kept = { NULL, NULL };
	struct fgt_errand *next;
	bool is_found = false;

	pthread_mutex_lock(&errands->lock);
	while ((next = take_first(&errands->waiting))) {
		if (next == errand)
			is_found = true;
		else
			append(&kept, next);
	}
	errands->waiting = kept;
	pthread_mutex_unlock(&errands->lock);
	return is_found;
}

static int start(struct fgt_errands *errands)
{
	sigset_t all, before;
	int rc;

	/* Signals are for the loop. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&errands->thread, NULL, work_off, errands);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errands->is_started = rc == 0;
	return -rc;
}

int fgt_errands_new(struct fgt_loop *loop, struct fgt_errands **ret_errands)
{
	FGT_AUTO(fgt_errands_free) struct fgt_errands *errands = NULL;
	int r;

	errands = calloc(1, sizeof(*errands));
	if (!errands)
		return -ENOMEM;
	errands->loop = loop;
	pthread_mutex_init(&errands->lock, NULL);
	pthread_cond_init(&errands->changed, NULL);
	errands->watch = (struct fgt_watch){
		.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.ready = something_done,
		.context = errands,
	};
	if (errands->watch.fd < 0)
		return -errno;
	r = fgt_loop_watch(loop, &errands->watch, EPOLLIN);
	if (r == 0)
		r = start(errands);
	if (r < 0)
		return r;
	*ret_errands = FGT_TAKE(errands);
	return 0;
}

void fgt_errands_free(struct fgt_errands *errands)
{
	if (!errands)
		return;
	pthread_mutex_lock(&errands->lock);
	errands->shall_stop = true;
	pthread_cond_signal(&errands->changed);
	pthread_mutex_unlock(&errands->lock);
	if (errands->is_started)
		pthread_join(errands->thread, NULL);
	do_all(errands, &errands->finished);
	do_all(errands, &errands->waiting);
	if (errands->watch.fd >= 0)
		fgt_loop_unwatch(errands->loop, &errands->watch);
	fgt_fd_close(errands->watch.fd);
	pthread_cond_destroy(&errands->changed);
	pthread_mutex_destroy(&errands->lock);
	free(errands);
}
