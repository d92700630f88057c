/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and stops the library, reports its status. Runs in the program's
 * threads and, where stated, on the worker. Must not hold the lock while it
 * waits for a file, a socket or a thread.
 */
#include "agent/lib/library.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "agent/lib/own.h"
#include "agent/lib/report.h"
#include "agent/lib/settings.h"
#include "agent/lib/worker.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"

#define SECOND_NS UINT64_C(1000000000)
#define MS_NS	  UINT64_C(1000000)

atomic_int fgt_library_phase = FGT_PHASE_IDLE;

static struct {
	/* Protects writes of the phase, users and is_abandoned. Outermost: locks
	 * of the parts may be taken inside. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* with CLOCK_MONOTONIC */
	unsigned int users; /* calls under way, and the worker */
	bool is_abandoned; /* the last user calls take_apart() */
	uint64_t idle_seen; /* last round of fgt_worker_want() that is done */
	/* Set by fgt_start(), constant while there may be users. */
	struct fgt_settings settings;
	struct fgt_open_backend backend; /* calls NULL: none is open */
	unsigned int started_parts;
	_Atomic uint64_t slices;
} library = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

static enum fgt_phase get_phase(void)
{
	return (enum fgt_phase)atomic_load_explicit(&fgt_library_phase,
						    memory_order_acquire);
}

static void set_phase(enum fgt_phase phase)
{
	/* Release: pairs with the acquire of fgt_library_is_started(). */
	atomic_store_explicit(&fgt_library_phase, phase, memory_order_release);
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

uint64_t fgt_now(void)
{
	return fgt_clock_ns(CLOCK_MONOTONIC);
}

/* ---- Parts ------------------------------------------------------------- */

const struct fgt_part *const fgt_parts[] = {
	&fgt_span_part,	   &fgt_activity_part,	 &fgt_transaction_part,
	&fgt_preload_part, &fgt_crash_link_part,
};

const unsigned int fgt_part_count = sizeof(fgt_parts) / sizeof(fgt_parts[0]);

/* After an error stop_parts() stops those that were started. */
static int start_parts(const struct fgt_options *options)
{
	for (unsigned int i = 0; i < fgt_part_count; i++) {
		const struct fgt_part *part = fgt_parts[i];
		int r = part && part->start ? part->start(options) : 0;

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

		if (part && part->stop)
			part->stop();
	}
}

int fgt_library_spans_fd(void)
{
	int fd = -1;

	for (unsigned int i = 0; i < fgt_part_count; i++)
		if (fgt_parts[i] && fgt_parts[i]->get_spans_fd)
			fd = fgt_parts[i]->get_spans_fd();
	return fd;
}

/* Of the one part that has a thread, 0. */
static int32_t get_own_tid(void)
{
	int32_t tid = 0;

	for (unsigned int i = 0; i < fgt_part_count && !tid; i++)
		if (fgt_parts[i] && fgt_parts[i]->own_tid)
			tid = fgt_parts[i]->own_tid();
	return tid;
}

static void forget_parts(void)
{
	for (unsigned int i = 0; i < fgt_part_count; i++)
		if (fgt_parts[i] && fgt_parts[i]->forked)
			fgt_parts[i]->forked();
	library.started_parts = 0;
}

/* ---- Fork -------------------------------------------------------------- */

/* Runs in the thread that forked, the only one, which holds the lock. */
static void in_child(void)
{
	const struct fgt_backend *calls = library.backend.calls;
	enum fgt_phase phase = get_phase();

	pthread_mutex_init(&library.lock, NULL);
	pthread_cond_init(&library.changed, NULL);
	fgt_report_forked();
	fgt_worker_forked();
	/* Also where nothing records: a thread may have held locks of parts. */
	forget_parts();
	if (phase == FGT_PHASE_IDLE || phase == FGT_PHASE_FORKED)
		return;
	if (calls && calls->forked)
		calls->forked(library.backend.state);
	/* The parent's memory of the backend stays: freeing it could wait for
	 * a lock that a thread of the parent held. */
	library.backend.calls = NULL;
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

int fgt_library_check(void)
{
	switch (get_phase()) {
	case FGT_PHASE_RUNNING:
		return 0;
	case FGT_PHASE_STOPPING:
		return -ESHUTDOWN;
	case FGT_PHASE_FORKED:
		return -ECHILD;
	default:
		return -ENOTCONN;
	}
}

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

/* There is no user. */
static void take_apart(void)
{
	const struct fgt_backend *calls;

	lock(); /* a fork must not find what is being freed */
	calls = library.backend.calls;
	library.backend.calls = NULL;
	unlock();
	if (calls)
		calls->close(library.backend.state);
	stop_parts();
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
	const struct fgt_options *options = &library.settings.options;
	const struct fgt_backend_options backend_options = {
		.options = options,
		.get_spans_fd = fgt_library_spans_fd,
		.own_tids = { worker_tid, get_own_tid() },
		.log = fgt_report_line,
	};
	struct fgt_open_backend backend = { .calls = &fgt_agent_link };
	int r = -ENOENT;

	if (options->mode != FGT_EMBEDDED)
		r = fgt_agent_link_open(&backend_options,
					options->mode == FGT_AUTO,
					&backend.state);
	if (r < 0 && options->mode != FGT_AGENT) {
		backend.calls = &fgt_embedded;
		r = fgt_embedded_open(&backend_options, &backend.state);
	}
	if (r < 0)
		return r;
	lock(); /* a fork looks at both */
	library.backend = backend;
	unlock();
	return 0;
}

static int start_all(const struct fgt_options *options)
{
	struct fgt_why why = { "" };
	int32_t worker_tid;
	int r = fgt_settings_init(&library.settings, options, &why);

	fgt_fd_apart_begin();
	if (r < 0)
		fgt_report("%s", why.text);
	if (r == 0)
		r = start_parts(&library.settings.options);
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
	while (get_phase() == FGT_PHASE_STOPPING && wait_change(until_ns))
		;
	if (get_phase() == FGT_PHASE_STOPPING)
		r = -EAGAIN;
	else if (get_phase() != FGT_PHASE_IDLE &&
		 get_phase() != FGT_PHASE_FORKED)
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
	fgt_report_reset();
	r = start_all(options);
	if (r < 0) {
		/* No worker logs it. */
		fgt_report_all(&library.settings.options);
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

	if (fgt_preload_holds && fgt_preload_holds())
		return;
	lock();
	is_running = get_phase() == FGT_PHASE_RUNNING;
	if (is_running)
		set_phase(FGT_PHASE_STOPPING);
	pthread_cond_broadcast(&library.changed); /* waiting calls return */
	unlock();
	if (!is_running)
		return;
	timeout_ns = library.settings.options.timeout_ms * MS_NS;
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
		if (get_phase() != FGT_PHASE_RUNNING)
			r = -ESHUTDOWN;
		else if (!wait_change(until_ns))
			r = library.idle_seen < wanted ? -ETIMEDOUT : 0;
	}
	unlock();
	fgt_library_leave();
	return r;
}

/* ---- For slices and parts ----------------------------------------- */

const struct fgt_options *fgt_library_options(void)
{
	return &library.settings.options;
}

const struct fgt_open_backend *fgt_library_backend(void)
{
	return &library.backend;
}

int fgt_library_wait_until(uint64_t when_ns)
{
	int r = 0;

	lock();
	while (fgt_now() < when_ns && r == 0) {
		if (get_phase() == FGT_PHASE_RUNNING)
			(void)wait_change(when_ns);
		else
			r = -ESHUTDOWN;
	}
	unlock();
	return r;
}

int fgt_library_cut(uint64_t from_ns, uint64_t to_ns,
		    struct fgt_slice **ret_slice)
{
	int r = library.backend.calls->cut(
		library.backend.state, from_ns, to_ns,
		library.settings.options.timeout_ms, ret_slice);

	if (r == 0)
		atomic_fetch_add_explicit(&library.slices, 1,
					  memory_order_relaxed);
	if (r < 0 && get_phase() != FGT_PHASE_RUNNING)
		return -ESHUTDOWN;
	return r;
}

/* ---- Status ------------------------------------------------------------ */

static void add_recording(struct fgt_status *status)
{
	const struct fgt_backend *calls;

	if (fgt_library_enter() < 0)
		return;
	calls = library.backend.calls;
	status->mode = calls->mode;
	status->is_recording = calls->is_recording(library.backend.state);
	status->hz = calls->hz(library.backend.state);
	calls->get_limitation(library.backend.state, status->limitation,
			      sizeof(status->limitation));
	fgt_library_leave();
}

int fgt_get_status(struct fgt_status *ret_status)
{
	FGT_UNCANCELLED;
	const size_t size_min = offsetof(struct fgt_status, limitation) +
				sizeof(ret_status->limitation);
	struct fgt_status status = { .size = sizeof(status), .mode = FGT_AUTO };

	status.slices =
		atomic_load_explicit(&library.slices, memory_order_relaxed);
	for (unsigned int i = 0; i < fgt_part_count; i++)
		if (fgt_parts[i] && fgt_parts[i]->add_status)
			fgt_parts[i]->add_status(&status);
	add_recording(&status);
	return fgt_settings_copy_struct(ret_status, size_min, &status,
					sizeof(status));
}
