/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll, timerfd, signalfd and eventfd in one loop. Runs in the daemon's main
 * thread, only fgt_loop_wake() elsewhere; must not block but in epoll_wait().
 */
#include "agent/daemon/loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>

#include "agent/daemon/loop/assert.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/heartbeat.h"

struct fgt_loop {
	int epoll_fd;
	bool is_stopping;
	/* While it runs: the only thread that may change it. */
	bool is_running;
	pthread_t thread;

	struct fgt_watch timer_watch;
	LIST_HEAD(, fgt_timer) timers; /* a few per client: a list will do */

	struct fgt_watch signal_watch;
	void (*signalled)(void *context, int number);
	void *signal_context;
	bool has_signals;
	sigset_t old_mask;
	struct sigaction old_pipe;

	struct fgt_watch wake_watch;
	LIST_HEAD(, fgt_waker) wakers;
};

uint64_t fgt_loop_now(void)
{
	return fgt_clock_ns(CLOCK_MONOTONIC);
}

static bool may_change(const struct fgt_loop *loop)
{
	return !loop->is_running || pthread_equal(loop->thread, pthread_self());
}

int fgt_loop_watch(struct fgt_loop *loop, struct fgt_watch *watch,
		   uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	FGT_ASSERT(may_change(loop));
	if (epoll_ctl(loop->epoll_fd,
		      watch->is_added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
		      watch->fd, &event) < 0)
		return -errno;
	watch->is_added = true;
	return 0;
}

void fgt_loop_unwatch(struct fgt_loop *loop, struct fgt_watch *watch)
{
	FGT_ASSERT(may_change(loop));
	if (!watch->is_added)
		return;
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->is_added = false;
}

/* The timerfd is set to the earliest timer; a time in the past expires at
 * once, zero would disarm it. */
static void set_timerfd(struct fgt_loop *loop)
{
	struct itimerspec when = { 0 };
	const struct fgt_timer *timer;
	uint64_t due_ns = 0;

	LIST_FOREACH(timer, &loop->timers, link)
		if (due_ns == 0 || timer->due_ns < due_ns)
			due_ns = timer->due_ns;
	when.it_value.tv_sec = (time_t)(due_ns / 1000000000u);
	when.it_value.tv_nsec = (long)(due_ns % 1000000000u);
	(void)timerfd_settime(loop->timer_watch.fd, TFD_TIMER_ABSTIME, &when,
			      NULL);
}

void fgt_loop_disarm(struct fgt_loop *loop, struct fgt_timer *timer)
{
	FGT_ASSERT(may_change(loop));
	if (!timer->is_armed)
		return;
	LIST_REMOVE(timer, link);
	timer->is_armed = false;
	set_timerfd(loop);
}

void fgt_loop_arm(struct fgt_loop *loop, struct fgt_timer *timer,
		  uint64_t due_ns)
{
	fgt_loop_disarm(loop, timer);
	timer->due_ns = due_ns > 0 ? due_ns : 1;
	LIST_INSERT_HEAD(&loop->timers, timer, link);
	timer->is_armed = true;
	set_timerfd(loop);
}

/* Runs those that were due when it began: a timer that arms itself again in
 * its callback waits for the next round. */
static void run_timers(void *context, uint32_t events)
{
	struct fgt_loop *loop = context;
	uint64_t now_ns = fgt_loop_now();
	struct fgt_timer *timer;
	uint64_t expirations;

	(void)events;
	(void)!read(loop->timer_watch.fd, &expirations, sizeof(expirations));
	do {
		LIST_FOREACH(timer, &loop->timers, link)
			if (timer->due_ns <= now_ns)
				break;
		if (timer) {
			fgt_loop_disarm(loop, timer);
			timer->expired(timer->context);
		}
	} while (timer);
	set_timerfd(loop);
}

static void read_signal(void *context, uint32_t events)
{
	struct fgt_loop *loop = context;
	struct signalfd_siginfo info;

	(void)events;
	if (read(loop->signal_watch.fd, &info, sizeof(info)) == sizeof(info))
		loop->signalled(loop->signal_context, (int)info.ssi_signo);
}

int fgt_loop_take_signals(struct fgt_loop *loop,
			  void (*signalled)(void *context, int number),
			  void *context)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGUSR1);
	sigaddset(&mask, SIGUSR2);
	loop->signalled = signalled;
	loop->signal_context = context;
	loop->signal_watch = (struct fgt_watch){
		.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK),
		.ready = read_signal,
		.context = loop,
	};
	if (loop->signal_watch.fd < 0)
		return -errno;
	r = pthread_sigmask(SIG_BLOCK, &mask, &loop->old_mask);
	if (r != 0)
		return -r;
	(void)sigaction(SIGPIPE, &ignore, &loop->old_pipe);
	loop->has_signals = true;
	return fgt_loop_watch(loop, &loop->signal_watch, EPOLLIN);
}

static void read_wake(void *context, uint32_t events)
{
	struct fgt_loop *loop = context;
	struct fgt_waker *waker;
	uint64_t count;

	(void)events;
	(void)!read(loop->wake_watch.fd, &count, sizeof(count));
	LIST_FOREACH(waker, &loop->wakers, link)
		waker->called(waker->context);
}

void fgt_loop_add_waker(struct fgt_loop *loop, struct fgt_waker *waker)
{
	LIST_INSERT_HEAD(&loop->wakers, waker, link);
}

void fgt_loop_remove_waker(struct fgt_waker *waker)
{
	LIST_REMOVE(waker, link);
}

void fgt_loop_wake(struct fgt_loop *loop)
{
	const uint64_t one = 1;

	(void)!write(loop->wake_watch.fd, &one, sizeof(one));
}

static int open_descriptors(struct fgt_loop *loop)
{
	int r;

	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	loop->timer_watch.fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer_watch.fd < 0)
		return -errno;
	loop->wake_watch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_watch.fd < 0)
		return -errno;
	r = fgt_loop_watch(loop, &loop->timer_watch, EPOLLIN);
	return r < 0 ? r : fgt_loop_watch(loop, &loop->wake_watch, EPOLLIN);
}

int fgt_loop_new(struct fgt_loop **ret_loop)
{
	FGT_AUTO(fgt_loop_free) struct fgt_loop *loop = NULL;
	int r;

	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return -ENOMEM;
	*loop = (struct fgt_loop){
		.epoll_fd = -1,
		.signal_watch = { .fd = -1 },
		.timer_watch = { .fd = -1,
				 .ready = run_timers,
				 .context = loop },
		.wake_watch = { .fd = -1, .ready = read_wake, .context = loop },
	};
	r = open_descriptors(loop);
	if (r < 0)
		return r;
	*ret_loop = FGT_TAKE(loop);
	return 0;
}

void fgt_loop_free(struct fgt_loop *loop)
{
	if (!loop)
		return;
	if (loop->has_signals) {
		(void)sigaction(SIGPIPE, &loop->old_pipe, NULL);
		(void)pthread_sigmask(SIG_SETMASK, &loop->old_mask, NULL);
	}
	fgt_fd_close(loop->signal_watch.fd);
	fgt_fd_close(loop->timer_watch.fd);
	fgt_fd_close(loop->wake_watch.fd);
	fgt_fd_close(loop->epoll_fd);
	free(loop);
}

/*
 * One event at a time: a callback may free what a second event of the same
 * batch would point to. epoll returns ready descriptors in turn, so that none
 * starves.
 */
static int run_events(struct fgt_loop *loop, struct fgt_heartbeat *heartbeat)
{
	while (!loop->is_stopping) {
		struct epoll_event event;
		struct fgt_watch *watch;
		int n;

		/* The daemon has a timer that expires once a second. */
		fgt_heartbeat_set(heartbeat, FGT_STEP_TIMER, 0);
		n = epoll_wait(loop->epoll_fd, &event, 1, -1);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n != 1)
			continue;
		fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, 0);
		watch = event.data.ptr;
		watch->ready(watch->context, event.events);
	}
	return 0;
}

int fgt_loop_run(struct fgt_loop *loop)
{
	int r;

	FGT_ASSERT(!loop->is_running);
	loop->thread = pthread_self();
	loop->is_running = true;
	loop->is_stopping = false;
	r = run_events(loop, fgt_heartbeat_begin("loop", NULL));
	fgt_heartbeat_end();
	loop->is_running = false;
	return r;
}

void fgt_loop_stop(struct fgt_loop *loop)
{
	loop->is_stopping = true;
}
