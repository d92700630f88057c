/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the daemon's threads by their heartbeats: one that does not get on is
 * logged, shown by status, and reported to the service manager. A thread inside
 * a call that may never return is given up.
 *
 * Time in which a thread waits for a CPU does not count, nor does time in which
 * the watchdog itself does not run: the process is stopped, the machine is
 * suspended or overloaded.
 *
 * Starts a thread; _describe in any thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_LOOP_WATCHDOG_H
#define FGT_AGENT_DAEMON_LOOP_WATCHDOG_H

#include "agent/daemon/loop/notify.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"

struct fgt_watchdog;

struct fgt_watchdog_options {
	const struct fgt_notify *notify; /* borrowed */
	/*
	 * In the watchdog's thread, at each look: a thread has been inside a
	 * call that may never return for too long, with that beat.
	 */
	void (*give_up)(void *context, struct fgt_heartbeat *heartbeat,
			uint64_t beat);
	/* In the watchdog's thread, at each look: what else is to be done. */
	void (*tend)(void *context);
	void *context;
};

/* Starts the thread. -ENOMEM, -EAGAIN. */
int fgt_watchdog_new(const struct fgt_watchdog_options *options,
		     struct fgt_watchdog **ret_watchdog);
/* Waits for the thread. */
void fgt_watchdog_free(struct fgt_watchdog *watchdog);
FGT_DEFINE_AUTO(struct fgt_watchdog *, fgt_watchdog_free);

/* "the sampler has hung for 12 s in pid 345 (reading its memory)", or "": of
 * the thread that has hung for longest. Returns that time. MT-Safe */
uint64_t fgt_watchdog_describe(struct fgt_watchdog *watchdog, char *text,
			       size_t size);

/* ---- For the thread, and its test ---------------------------------------- */

struct fgt_watched {
	uint64_t beat; /* seen last */
	uint64_t cpu_ns; /* of the thread, then */
	uint64_t hung_ns; /* that it has been so, as far as it counts */
	uint64_t logged_ns; /* hung_ns when it was logged last, 0: not */
	/* Calls about one process that return, but late: how many more looks
	 * found the thread waiting in one than did not, twice. */
	int32_t slow_pid;
	uint32_t slow;
};

/* A look at a thread, elapsed_ns after the last one. state: as in proc(5), and
 * its CPU time; asked for only if the beat is the same. */
struct fgt_thread_look {
	char state;
	uint64_t cpu_ns;
};
/* Is the thread of that name to be given up in the call that the last look has
 * found it in? */
bool fgt_watched_is_stuck(const char *name, struct fgt_watched *watched,
			  uint64_t beat, char state);

/* Has a thread of that name hung for so long that only a restart helps? */
bool fgt_watched_is_lost(const char *name, uint64_t hung_ns);

void fgt_watched_note(struct fgt_watched *watched, uint64_t beat,
		      uint64_t elapsed_ns, const struct fgt_thread_look *look);

#endif
