/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's event loop: descriptors, timers, signals, wake-ups from other
 * threads. All callbacks run on the thread that runs the loop. And the jobs
 * that must not run on it.
 *
 * Runs in the loop's thread; _wake and _now in any thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_LOOP_LOOP_H
#define FGT_AGENT_DAEMON_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ringbuf/base/owner.h"

/* Why something is refused, or not done, with -ESHUTDOWN. */
#define FGT_AGENT_IS_LEAVING                                                   \
	"the agent is leaving: try again when it has restarted"

struct fgt_heartbeat;
struct fgt_loop;

/* Embedded by its owner; may be removed in any callback, its own included. */
struct fgt_watch {
	int fd;
	void (*ready)(void *context, uint32_t events); /* EPOLL… */
	void *context;
	bool is_added;
};

/* One shot. */
struct fgt_timer {
	void (*expired)(void *context);
	void *context;
	uint64_t due_ns;
	bool is_armed;
	LIST_ENTRY(fgt_timer) link; /* while it is armed */
};

int fgt_loop_new(struct fgt_loop **ret_loop);
void fgt_loop_free(struct fgt_loop *loop);
FGT_DEFINE_AUTO(struct fgt_loop *, fgt_loop_free);

/* CLOCK_MONOTONIC. */
uint64_t fgt_loop_now(void);

/* Level-triggered; events 0 still reports EPOLLHUP and EPOLLERR. Adding again
 * changes the events. errno of epoll_ctl. */
int fgt_loop_watch(struct fgt_loop *loop, struct fgt_watch *watch,
		   uint32_t events);
void fgt_loop_unwatch(struct fgt_loop *loop, struct fgt_watch *watch);

/* Arming again moves it. A timer that is late runs at once. */
void fgt_loop_arm(struct fgt_loop *loop, struct fgt_timer *timer,
		  uint64_t due_ns);
void fgt_loop_disarm(struct fgt_loop *loop, struct fgt_timer *timer);

/*
 * Takes SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 as events. They are
 * blocked in this thread and in those started later; SIGPIPE is ignored. Undone
 * by _free.
 */
int fgt_loop_take_signals(struct fgt_loop *loop,
			  void (*signalled)(void *context, int number),
			  void *context);

/* What runs on the loop after fgt_loop_wake(), which any thread may call. */
struct fgt_waker {
	void (*called)(void *context);
	void *context;
	LIST_ENTRY(fgt_waker) link;
};
void fgt_loop_add_waker(struct fgt_loop *loop, struct fgt_waker *waker);
void fgt_loop_remove_waker(struct fgt_waker *waker);
/* Calls every waker once or more. */
void fgt_loop_wake(struct fgt_loop *loop);

/* Until fgt_loop_stop(). 0, or errno of epoll_wait. */
int fgt_loop_run(struct fgt_loop *loop);
void fgt_loop_stop(struct fgt_loop *loop);

/* ---- Jobs ----------------------------------------------------------------
 *
 * Work that may take a second (attaching, detaching, looking through the
 * process table) runs on one thread, in order. Jobs that are watched read files
 * of processes, which may never return (see heartbeat.h): then the thread is
 * given up, its job is done as it is, and another thread goes on.
 */

/* Why a job that was given up has come to nothing, with -EAGAIN. */
#define FGT_JOB_IS_LOST                                                        \
	"files of a process in /proc could not be read in time: it is left "   \
	"out from now on: try again"

struct fgt_jobs;

/* Embedded by its owner, which must not touch it until done or a withdrawal. */
struct fgt_job {
	void (*run)(void *context); /* on the thread of jobs */
	void (*done)(void *context); /* on the loop; may free the job */
	void *context;
	/* For done: it was given up, anywhere between two calls of run. What
	 * run had allocated is lost, what it was writing is done's. */
	bool is_lost;
	/* The jobs' own. */
	bool is_asked;
	uint32_t uid;
	STAILQ_ENTRY(fgt_job) link;
};

/* Starts the thread. name: of it, in watchdog.c. -ENOMEM, -EAGAIN. */
int fgt_jobs_new(struct fgt_loop *loop, struct fgt_jobs **ret_jobs);
int fgt_jobs_new_watched(struct fgt_loop *loop, const char *name,
			 struct fgt_jobs **ret_jobs);
/* Waits for the one that runs, unless it is given up; those that have not begun
 * are done unrun. No job may come after it. */
void fgt_jobs_stop(struct fgt_jobs *jobs);
/* Stops them, unless that has been done. */
void fgt_jobs_free(struct fgt_jobs *jobs);
FGT_DEFINE_AUTO(struct fgt_jobs *, fgt_jobs_free);

/* The loop's thread only. The owner bounds how many there are. */
void fgt_jobs_submit(struct fgt_jobs *jobs, struct fgt_job *job);
/*
 * In any thread: runs the job before it returns; done is not called. uid: whose
 * process it is about. -EAGAIN: it was given up, or others of that user, or too
 * many, have been and have not returned; it leaves nothing open.
 */
int fgt_jobs_ask(struct fgt_jobs *jobs, struct fgt_job *job, uint32_t uid);
/* True: it had not begun, and will neither run nor be done. */
bool fgt_jobs_withdraw(struct fgt_jobs *jobs, struct fgt_job *job);

/*
 * Of those that are watched, in the watchdog's thread: gives up their thread if
 * the heartbeat is its own and still has that beat; and looks after threads that
 * were given up.
 */
void fgt_jobs_give_up(struct fgt_jobs *jobs, struct fgt_heartbeat *heartbeat,
		      uint64_t beat);
void fgt_jobs_tend(struct fgt_jobs *jobs);

#endif
