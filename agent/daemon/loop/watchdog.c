/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at all heartbeats four times a second. Runs in the watchdog's thread;
 * must not wait for a thread that it watches, nor take a lock that one of them
 * holds while it waits.
 */
#include "agent/daemon/loop/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/loop/log.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/thread.h"

#define SECOND_NS 1000000000u
#define LOOK_NS	  250000000u
/* The watchdog was late by more: it did not run, nor perhaps did they. */
#define COUNTED_NS (2 * (uint64_t)LOOK_NS)
/* At two looks in a row, and none of the CPU used: a call of one thread. */
#define GIVE_UP_NS COUNTED_NS
/* No tick waits for these. On a busy machine a process that is not
 * given a CPU holds a lock of its /proc files for a second. */
#define GIVE_UP_JOB_NS ((uint64_t)SECOND_NS * 3 / 2)
/* Waiting in calls about one process at each look for 8 s. */
#define SLOW_MAX 64u
/*
 * A restart loses all rings. So the service manager gets no WATCHDOG=1 only if
 * no request has been answered for half a minute, or nothing has been recorded
 * for five: by then the rings hold little that is of use.
 */
#define LOOP_LOST_NS	((uint64_t)30 * SECOND_NS)
#define SAMPLER_LOST_NS ((uint64_t)300 * SECOND_NS)
/* Looks, 4 s: then a signal ends the process although the loop hangs. */
#define UNHEARD_MAX 16u

static const struct role {
	const char *name;
	uint64_t long_ns; /* from then on it is reported */
	uint64_t lost_ns; /* 0: never */
	uint64_t give_up_ns; /* in one call */
} roles[] = {
	{ "sampler", (uint64_t)2 * SECOND_NS, SAMPLER_LOST_NS, GIVE_UP_NS },
	{ "loop", (uint64_t)2 * SECOND_NS, LOOP_LOST_NS, GIVE_UP_NS },
	{ "thread of jobs", (uint64_t)10 * SECOND_NS, 0, GIVE_UP_JOB_NS },
	/* The loop waits for it. */
	{ "thread of reads", (uint64_t)10 * SECOND_NS, 0, GIVE_UP_NS },
	{ "thread of an attach", (uint64_t)10 * SECOND_NS, 0, GIVE_UP_JOB_NS },
	{ "thread of a slice", (uint64_t)60 * SECOND_NS, 0, GIVE_UP_NS },
};

struct fgt_watchdog {
	struct fgt_watchdog_options options;
	pthread_t thread;
	bool is_started;
	/* The thread's. */
	struct fgt_watched watched[FGT_HEARTBEATS_MAX];
	uint64_t looked_ns, sent_ns;
	unsigned int
		unheard; /* looks with a signal that the loop does not take */
	bool is_lost;
	/* Protects all below; innermost. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool shall_stop;
	char text[160];
	uint64_t hung_ns;
};

/* ---- One thread ---------------------------------------------------------- */

static const struct role *role_of(const char *name)
{
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (!strcmp(roles[i].name, name))
			return &roles[i];
	return &roles[0];
}

bool fgt_watched_is_lost(const char *name, uint64_t hung_ns)
{
	const struct role *role = role_of(name);

	return role->lost_ns && hung_ns >= role->lost_ns;
}

static bool is_long(const struct fgt_heartbeat *heartbeat,
		    const struct fgt_watched *watched)
{
	return watched->hung_ns >= role_of(heartbeat->name)->long_ns;
}

/* False: it has ended. */
static bool look_at(int32_t tid, struct fgt_thread_look *ret_look)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	unsigned long user, system;
	char path[48], text[512];
	const char *end;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return false;
	text[len] = '\0';
	end = strrchr(text, ')');
	if (!end || sscanf(end + 1,
			   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu "
			   "%lu",
			   &ret_look->state, &user, &system) != 3)
		return false;
	ret_look->cpu_ns = (uint64_t)(user + system) * SECOND_NS /
			   (uint64_t)sysconf(_SC_CLK_TCK);
	return true;
}

void fgt_watched_note(struct fgt_watched *watched, uint64_t beat,
		      uint64_t elapsed_ns, const struct fgt_thread_look *look)
{
	uint64_t used_ns = look->cpu_ns - watched->cpu_ns;

	watched->cpu_ns = look->cpu_ns;
	if (beat != watched->beat || fgt_beat_step(beat) == FGT_STEP_IDLE) {
		watched->beat = beat;
		watched->hung_ns = 0;
		return;
	}
	if (elapsed_ns > COUNTED_NS)
		elapsed_ns = COUNTED_NS;
	/* Runnable: only what it ran, it may have waited for a CPU. */
	if (look->state == 'R' && elapsed_ns > used_ns)
		elapsed_ns = used_ns;
	watched->hung_ns += elapsed_ns;
}

bool fgt_watched_is_stuck(const char *name, struct fgt_watched *watched,
			  uint64_t beat, char state)
{
	int32_t pid = fgt_beat_pid(beat);

	if (!fgt_beat_is_call(beat) || state == 'R') {
		watched->slow -= watched->slow > 0;
		return false;
	}
	if (pid != watched->slow_pid)
		watched->slow = 0;
	watched->slow_pid = pid;
	if (watched->slow < SLOW_MAX)
		watched->slow += 2;
	return watched->hung_ns >= role_of(name)->give_up_ns ||
	       watched->slow >= SLOW_MAX;
}

static void describe(const struct fgt_heartbeat *heartbeat,
		     const struct fgt_watched *watched, char *text, size_t size)
{
	int32_t pid = fgt_beat_pid(watched->beat);
	char place[32] = "";

	if (pid)
		snprintf(place, sizeof(place), " in pid %d", pid);
	snprintf(text, size, "the %s has hung for %.0f s%s (%s)",
		 heartbeat->name, (double)watched->hung_ns / SECOND_NS, place,
		 fgt_step_name(fgt_beat_step(watched->beat)));
}

/* Again each time that it is ten times as long. */
static void log_hang(const struct fgt_heartbeat *heartbeat,
		     struct fgt_watched *watched)
{
	uint64_t due_ns = watched->logged_ns
				  ? 10 * watched->logged_ns
				  : role_of(heartbeat->name)->long_ns;
	char text[sizeof(((struct fgt_watchdog *)0)->text)];

	if (watched->hung_ns < due_ns)
		return;
	watched->logged_ns = watched->hung_ns;
	describe(heartbeat, watched, text, sizeof(text));
	fgt_log(FGT_LOG_WARNING, "hung", "%s", text);
}

static void log_end(const struct fgt_heartbeat *heartbeat,
		    struct fgt_watched *watched, uint64_t hung_ns)
{
	if (!watched->logged_ns)
		return;
	watched->logged_ns = 0;
	fgt_log(FGT_LOG_WARNING, "hung", "the %s goes on after %.1f s",
		heartbeat->name, (double)hung_ns / SECOND_NS);
}

static void watch(struct fgt_watchdog *watchdog, uint32_t number,
		  struct fgt_heartbeat *heartbeat, uint64_t elapsed_ns)
{
	struct fgt_watched *watched = &watchdog->watched[number];
	uint64_t beat =
		atomic_load_explicit(&heartbeat->beat, memory_order_acquire);
	int32_t tid =
		atomic_load_explicit(&heartbeat->tid, memory_order_relaxed);
	struct fgt_thread_look look = { 'S', watched->cpu_ns };
	uint64_t before_ns = watched->hung_ns;

	if ((fgt_beat_is_call(beat) ||
	     (beat == watched->beat && fgt_beat_step(beat) != FGT_STEP_IDLE)) &&
	    !look_at(tid, &look))
		return;
	fgt_watched_note(watched, beat, elapsed_ns, &look);
	if (!watched->hung_ns)
		log_end(heartbeat, watched, before_ns);
	else
		log_hang(heartbeat, watched);
	if (fgt_watched_is_stuck(heartbeat->name, watched, beat, look.state) &&
	    watchdog->options.give_up)
		watchdog->options.give_up(watchdog->options.context, heartbeat,
					  beat);
}

/* ---- All threads ---------------------------------------------------------- */

static void show(struct fgt_watchdog *watchdog,
		 const struct fgt_heartbeat *longest,
		 const struct fgt_watched *watched)
{
	char status[sizeof(watchdog->text) + 8], text[sizeof(watchdog->text)];
	bool is_new;

	text[0] = '\0';
	if (longest)
		describe(longest, watched, text, sizeof(text));
	pthread_mutex_lock(&watchdog->lock);
	is_new = strcmp(watchdog->text, text) != 0;
	memcpy(watchdog->text, text, sizeof(text));
	watchdog->hung_ns = longest ? watched->hung_ns : 0;
	pthread_mutex_unlock(&watchdog->lock);
	if (!is_new)
		return;
	snprintf(status, sizeof(status), "STATUS=%s",
		 longest ? text : "sampling");
	fgt_notify_send(watchdog->options.notify, status);
}

static void look_at_signals(struct fgt_watchdog *watchdog)
{
	sigset_t pending;

	if (sigpending(&pending) < 0 || (!sigismember(&pending, SIGTERM) &&
					 !sigismember(&pending, SIGINT))) {
		watchdog->unheard = 0;
		return;
	}
	if (++watchdog->unheard < UNHEARD_MAX)
		return;
	fgt_log(FGT_LOG_WARNING, "left",
		"a signal came, and the loop does not take it");
	_exit(1); /* threads are still at work: nothing can be freed */
}

/* At twice the rate that the manager waits for. */
static void send_sign(struct fgt_watchdog *watchdog, uint64_t now_ns)
{
	const struct fgt_notify *notify = watchdog->options.notify;

	if (watchdog->is_lost || !notify->watchdog_ns ||
	    now_ns - watchdog->sent_ns < notify->watchdog_ns / 2)
		return;
	watchdog->sent_ns = now_ns;
	fgt_notify_send(notify, "WATCHDOG=1");
}

static void look_at_all(struct fgt_watchdog *watchdog)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	uint64_t elapsed_ns = now_ns - watchdog->looked_ns;
	const struct fgt_heartbeat *longest = NULL;
	uint32_t longest_number = 0;

	watchdog->looked_ns = now_ns;
	watchdog->is_lost = false;
	for (uint32_t i = 0; i < FGT_HEARTBEATS_MAX; i++) {
		struct fgt_heartbeat *heartbeat = fgt_heartbeat_at(i);
		const struct fgt_watched *watched = &watchdog->watched[i];

		/* 0: it was given up. */
		if (!heartbeat || !atomic_load_explicit(&heartbeat->beat,
							memory_order_relaxed)) {
			watchdog->watched[i] = (struct fgt_watched){ 0 };
			continue;
		}
		watch(watchdog, i, heartbeat, elapsed_ns);
		watchdog->is_lost |=
			fgt_watched_is_lost(heartbeat->name, watched->hung_ns);
		if (!is_long(heartbeat, watched))
			continue;
		if (longest &&
		    watched->hung_ns <=
			    watchdog->watched[longest_number].hung_ns)
			continue;
		longest = heartbeat;
		longest_number = i;
	}
	show(watchdog, longest, &watchdog->watched[longest_number]);
	look_at_signals(watchdog);
	send_sign(watchdog, now_ns);
	if (watchdog->options.tend)
		watchdog->options.tend(watchdog->options.context);
}

/* False: the end. */
static bool wait_for_next(struct fgt_watchdog *watchdog)
{
	struct timespec until =
		fgt_timespec_of(fgt_clock_ns(CLOCK_MONOTONIC) + LOOK_NS);
	bool shall_stop;
	int rc = 0;

	pthread_mutex_lock(&watchdog->lock);
	while (!watchdog->shall_stop && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&watchdog->changed, &watchdog->lock,
					    &until);
	shall_stop = watchdog->shall_stop;
	pthread_mutex_unlock(&watchdog->lock);
	return !shall_stop;
}

static void *run(void *context)
{
	struct fgt_watchdog *watchdog = context;

	prctl(PR_SET_NAME, "fgt-watchdog");
	watchdog->looked_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	while (wait_for_next(watchdog))
		look_at_all(watchdog);
	return NULL;
}

static int start(struct fgt_watchdog *watchdog)
{
	int r = fgt_thread_start(0, run, watchdog, &watchdog->thread);

	watchdog->is_started = r == 0;
	return r;
}

int fgt_watchdog_new(const struct fgt_watchdog_options *options,
		     struct fgt_watchdog **ret_watchdog)
{
	FGT_AUTO(fgt_watchdog_free)
	struct fgt_watchdog *watchdog = calloc(1, sizeof(*watchdog));
	pthread_condattr_t attributes;
	int r;

	if (!watchdog)
		return -ENOMEM;
	watchdog->options = *options;
	pthread_mutex_init(&watchdog->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&watchdog->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	r = start(watchdog);
	if (r < 0)
		return r;
	*ret_watchdog = FGT_TAKE(watchdog);
	return 0;
}

void fgt_watchdog_free(struct fgt_watchdog *watchdog)
{
	if (!watchdog)
		return;
	pthread_mutex_lock(&watchdog->lock);
	watchdog->shall_stop = true;
	pthread_cond_signal(&watchdog->changed);
	pthread_mutex_unlock(&watchdog->lock);
	if (watchdog->is_started)
		pthread_join(watchdog->thread, NULL);
	pthread_cond_destroy(&watchdog->changed);
	pthread_mutex_destroy(&watchdog->lock);
	free(watchdog);
}

uint64_t fgt_watchdog_describe(struct fgt_watchdog *watchdog, char *text,
			       size_t size)
{
	uint64_t hung_ns;

	pthread_mutex_lock(&watchdog->lock);
	snprintf(text, size, "%s", watchdog->text);
	hung_ns = watchdog->hung_ns;
	pthread_mutex_unlock(&watchdog->lock);
	return hung_ns;
}
