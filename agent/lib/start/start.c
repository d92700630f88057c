/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and stops the library, reports its status: above all its other rooms.
 * Runs in the program's threads and, where stated, on the worker. Must not hold
 * the lock while it waits for a file, a socket or a thread.
 */
#include "agent/lib/start/start.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "agent/lib/own.h"
#include "agent/lib/report.h"
#include "agent/lib/spans/activity.h"
#include "agent/lib/start/worker.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"

#define SECOND_NS UINT64_C(1000000000)
#define MS_NS	  UINT64_C(1000000)

static struct {
	/* Protects writes of the phase, users and is_abandoned. Outermost:
	 * locks of the parts may be taken inside. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* with CLOCK_MONOTONIC */
	unsigned int users; /* calls under way, and the worker */
	bool is_abandoned; /* the last user calls take_apart() */
	uint64_t idle_seen; /* last round of fgt_worker_want() that is done */
	unsigned int started_parts;
} library = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

static void set_phase(enum fgt_phase phase)
{
	/* Release: pairs with the acquire of fgt_library_phase(). */
	atomic_store_explicit(&fgt_library.phase, phase, memory_order_release);
}

static void lock(void)
{
	pthread_mutex_lock(&library.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&library.lock);
}

/* Under the lock. False: until_ns has passed. */
static bool wait_change(uint64_t until_ns)
{
	const struct timespec until = fgt_timespec_of(until_ns);

	return pthread_cond_clockwait(&library.changed, &library.lock,
				      CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

/* ---- Parts ------------------------------------------------------------- */

const struct fgt_part *const fgt_parts[FGT_PARTS] = {
	&fgt_context_part,     &fgt_span_part,	  &fgt_activity_part,
	&fgt_transaction_part, &fgt_preload_part, &fgt_crash_link_part,
};

/* After an error stop_parts() stops those that were started. */
static int start_parts(const struct fgt_options *options)
{
	for (unsigned int i = 0; i < FGT_PARTS; i++) {
		const struct fgt_part *part = fgt_parts[i];
		int r = part->start ? part->start(options) : 0;

		if (r < 0)
			return r;
		library.started_parts = i + 1;
	}
	return 0;
}

/* In the opposite order. */
static void stop_parts(void)
{
	while (library.started_parts > 0) {
		const struct fgt_part *part =
			fgt_parts[--library.started_parts];

		if (part->stop)
			part->stop();
	}
}

static void forget_parts(void)
{
	for (unsigned int i = 0; i < FGT_PARTS; i++)
		if (fgt_parts[i]->forked)
			fgt_parts[i]->forked();
	library.started_parts = 0;
}

/* ---- Fork -------------------------------------------------------------- */

/* Runs in the thread that forked, the only one, which holds the lock. */
static void in_child(void)
{
	const struct fgt_backend *backend = fgt_library.backend;
	enum fgt_phase phase = fgt_library_phase();

	pthread_mutex_init(&library.lock, NULL);
	pthread_cond_init(&library.changed, NULL);
	fgt_report_forked();
	fgt_worker_forked();
	/* Parts are reset even where nothing records: a thread may have held
	 * their locks. */
	forget_parts();
	if (phase == FGT_PHASE_IDLE || phase == FGT_PHASE_FORKED)
		return;
	if (backend && backend->forked)
		backend->forked();
	/* The parent's memory of the backend stays: freeing it could wait for
	 * a lock that a thread of the parent held. */
	fgt_library.backend = NULL;
	library.users = 0;
	library.is_abandoned = false;
	set_phase(FGT_PHASE_FORKED);
}

/* The lock is held while the process is copied. Before any thread and other
 * constructors, because functions that need no start take locks, too. */
__attribute__((constructor(102))) static void watch_forks(void)
{
	(void)pthread_atfork(lock, unlock, in_child);
}

/* ---- Users ------------------------------------------------------------- */

int fgt_library_enter(void)
{
	int r;

	lock();
	r = fgt_library_check();
	if (r == 0)
		library.users++;
	unlock();
	return r;
}

void fgt_library_hold(void)
{
	lock();
	library.users++;
	unlock();
}

/* There is no user. */
static void take_apart(void)
{
	const struct fgt_backend *backend;

	lock(); /* a fork must not find what is being freed */
	backend = fgt_library.backend;
	fgt_library.backend = NULL;
	unlock();
	/* The agent must not take the end of the recording for a crash. */
	fgt_crash_link_part.stop();
	if (backend)
		backend->close();
	stop_parts();
	fgt_report_reset();
	lock();
	library.is_abandoned = false;
	set_phase(FGT_PHASE_IDLE);
	pthread_cond_broadcast(&library.changed);
	unlock();
}

void fgt_library_leave(void)
{
	bool is_last;

	lock();
	library.users--;
	is_last = library.users == 0 && library.is_abandoned;
	if (library.users == 0)
		pthread_cond_broadcast(&library.changed);
	unlock();
	if (is_last)
		take_apart();
}

/* ---- For the worker ---------------------------------------------------- */

void fgt_library_round_ended(bool is_idle, uint64_t wanted)
{
	if (!is_idle)
		return;
	lock();
	library.idle_seen = wanted;
	pthread_cond_broadcast(&library.changed);
	unlock();
}

/* ---- Start ------------------------------------------------------------- */

/* The agent, or the embedded recorder. */
static int open_backend(int32_t worker_tid)
{
	const struct fgt_own_threads own = {
		.worker_tid = worker_tid,
		.activity_tid = fgt_activity_tid(),
		.hold = fgt_library_hold,
		.leave = fgt_library_leave,
	};
	enum fgt_mode mode = fgt_library.settings.options.mode;
	const struct fgt_backend *backend = &fgt_agent_link;
	int r = -ENOENT;

	if (mode != FGT_EMBEDDED)
		r = fgt_agent_link_open(mode == FGT_AUTO);
	if (r < 0 && mode != FGT_AGENT) {
		backend = &fgt_embedded;
		r = fgt_embedded_open(&own);
	}
	if (r < 0)
		return r;
	lock(); /* a fork looks at it */
	fgt_library.backend = backend;
	unlock();
	return 0;
}

static int start_all(const struct fgt_options *options)
{
	struct fgt_why why = { "" };
	int32_t worker_tid;
	int r = fgt_settings_init(&fgt_library.settings, options, &why);

	/* Of an agent of before. */
	atomic_store_explicit(&fgt_library.has_default_destination, false,
			      memory_order_relaxed);
	fgt_fd_apart_begin();
	if (r < 0)
		fgt_report("%s", why.text);
	if (r == 0)
		r = start_parts(&fgt_library.settings.options);
	if (r == 0)
		r = fgt_worker_start(&worker_tid);
	if (r < 0) {
		if (!why.text[0])
			fgt_report("recording cannot start: %s", strerror(-r));
		return r;
	}
	lock();
	library.users = 1; /* the worker */
	unlock();
	r = open_backend(worker_tid);
	if (r < 0) {
		fgt_worker_leave(1);
		fgt_worker_join();
	}
	return r;
}

/* Enters the phase of starting. Waits a second for an abandoned stop. */
static int begin_start(void)
{
	uint64_t until_ns = fgt_now() + SECOND_NS;
	int r = 0;

	lock();
	while (fgt_library_phase() == FGT_PHASE_STOPPING &&
	       wait_change(until_ns))
		;
	if (fgt_library_phase() == FGT_PHASE_STOPPING)
		r = -EAGAIN;
	else if (fgt_library_phase() != FGT_PHASE_IDLE &&
		 fgt_library_phase() != FGT_PHASE_FORKED)
		r = -EALREADY;
	else
		set_phase(FGT_PHASE_STARTING);
	unlock();
	return r;
}

int fgt_start(const struct fgt_options *options)
{
	FGT_UNCANCELLED;
	int r = begin_start();

	if (r < 0)
		return r;
	fgt_report_unmute();
	r = start_all(options);
	if (r < 0) {
		/* No worker logs it. */
		fgt_report_all(&fgt_library.settings.options);
		take_apart();
		return r;
	}
	lock();
	set_phase(FGT_PHASE_RUNNING);
	unlock();
	fgt_worker_go();
	return 0;
}

/* ---- Stop -------------------------------------------------------------- */

/* True: there is no user left. Else the last user calls take_apart(). */
static bool wait_for_users(uint64_t until_ns)
{
	bool is_free;

	lock();
	while (library.users > 0 && wait_change(until_ns))
		;
	if (library.users > 0) {
		unlock();
		fgt_worker_give_up();
		lock();
	}
	is_free = library.users == 0;
	library.is_abandoned = !is_free;
	if (!is_free)
		fgt_worker_abandon();
	unlock();
	return is_free;
}

void fgt_stop(void)
{
	FGT_UNCANCELLED;
	uint64_t timeout_ns, now_ns = fgt_now();
	bool is_running;

	if (fgt_preload_holds())
		return;
	lock();
	is_running = fgt_library_is_started();
	if (is_running)
		set_phase(FGT_PHASE_STOPPING);
	pthread_cond_broadcast(&library.changed); /* waiting calls return */
	unlock();
	if (!is_running)
		return;
	timeout_ns = fgt_library.settings.options.timeout_ms * MS_NS;
	if (timeout_ns < 1250 * MS_NS) /* the worker's last round included */
		timeout_ns = 1250 * MS_NS;
	fgt_worker_leave(now_ns + SECOND_NS);
	if (!wait_for_users(now_ns + timeout_ns)) {
		fgt_report_mute(); /* the program may free its context */
		return;
	}
	fgt_worker_join();
	take_apart();
}

int fgt_flush(unsigned int timeout_ms)
{
	FGT_UNCANCELLED;
	uint64_t until_ns = fgt_now() + timeout_ms * MS_NS;
	uint64_t wanted;
	int r = fgt_library_enter();

	if (r < 0)
		return r;
	wanted = fgt_worker_want();
	lock();
	while (r == 0 && library.idle_seen < wanted) {
		if (!fgt_library_is_started())
			r = -ESHUTDOWN;
		else if (!wait_change(until_ns))
			r = library.idle_seen < wanted ? -ETIMEDOUT : 0;
	}
	unlock();
	fgt_library_leave();
	return r;
}

int fgt_library_wait_until(uint64_t when_ns)
{
	int r = 0;

	lock();
	while (fgt_now() < when_ns && r == 0) {
		if (fgt_library_is_started())
			(void)wait_change(when_ns);
		else
			r = -ESHUTDOWN;
	}
	unlock();
	return r;
}

/* ---- Status ------------------------------------------------------------ */

static void add_recording(struct fgt_status *status)
{
	const struct fgt_backend *backend;

	if (fgt_library_enter() < 0)
		return;
	backend = fgt_library.backend;
	status->mode = backend->mode;
	status->is_recording = backend->is_recording();
	status->hz = backend->hz();
	backend->get_limitation(status->limitation, sizeof(status->limitation));
	fgt_library_leave();
}

int fgt_get_status(struct fgt_status *ret_status)
{
	FGT_UNCANCELLED;
	const size_t size_min = offsetof(struct fgt_status, limitation) +
				sizeof(ret_status->limitation);
	struct fgt_status status = { .size = sizeof(status), .mode = FGT_AUTO };

	status.slices =
		atomic_load_explicit(&fgt_library.slices, memory_order_relaxed);
	for (unsigned int i = 0; i < FGT_PARTS; i++)
		if (fgt_parts[i]->add_status)
			fgt_parts[i]->add_status(&status);
	add_recording(&status);
	return fgt_settings_copy_struct(ret_status, size_min, &status,
					sizeof(status));
}
