/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, stops and describes the library. Runs in the program's threads and,
 * where it says so, on the worker; must not hold the lock while anything waits
 * for a file, a socket or a thread.
 */
#include "agent/lib/library.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "agent/lib/own.h"
#include "agent/lib/report.h"
#include "agent/lib/settings.h"
#include "agent/lib/worker.h"
#include "ringbuf/base/fd.h"

#define SECOND_NS UINT64_C(1000000000)
#define MS_NS	  UINT64_C(1000000)

atomic_int fgt_library_phase = FGT_PHASE_IDLE;

static struct {
	/* Protects the phase (but for glances), users and is_abandoned;
	 * outermost: the parts' own locks may be taken inside. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* with CLOCK_MONOTONIC */
	unsigned int users; /* calls under way, and the worker */
	bool is_abandoned; /* the last user takes it apart */
	uint64_t idle_seen; /* what fgt_worker_want() returned, done */
	/* From here on: set up by fgt_start(), constant while users may be. */
	struct fgt_settings settings;
	const struct fgt_backend *backend; /* NULL: none is open */
	void *state;
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

/* Under the lock. False: the time has come. */
static bool wait_change(uint64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / SECOND_NS),
		.tv_nsec = (long)(until_ns % SECOND_NS),
	};

	return pthread_cond_clockwait(&library.changed, &library.lock,
				      CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

/* ---- Fork -------------------------------------------------------------- */

/* The thread that forked is the only one; it holds the lock. */
static void in_child(void)
{
	enum fgt_phase phase = get_phase();

	pthread_mutex_init(&library.lock, NULL);
	pthread_cond_init(&library.changed, NULL);
	fgt_report_forked();
	fgt_worker_forked();
	/* Also where nothing records: a thread may have held their locks. */
	fgt_parts_forked();
	if (phase == FGT_PHASE_IDLE || phase == FGT_PHASE_FORKED)
		return;
	if (library.backend && library.backend->forked)
		library.backend->forked(library.state);
	/* The parent's memory of the backend stays: freeing it could wait for
	 * a lock that a thread of the parent held. */
	library.backend = NULL;
	library.users = 0;
	library.is_abandoned = false;
	set_phase(FGT_PHASE_FORKED);
}

/* Nobody changes anything while the process is copied. Before any thread, since
 * what needs no start has locks, too, and before other constructors. */
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

/* No user is left, or none has been. */
static void take_apart(void)
{
	const struct fgt_backend *backend;

	lock(); /* a fork must not find what is being freed */
	backend = library.backend;
	library.backend = NULL;
	unlock();
	if (backend)
		backend->close(library.state);
	fgt_parts_stop();
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

static void refresh(void)
{
	library.backend->refresh(library.state);
}

static void rounded(bool is_idle, uint64_t wanted)
{
	if (!is_idle)
		return;
	lock();
	library.idle_seen = wanted;
	pthread_cond_broadcast(&library.changed);
	unlock();
}

static const struct fgt_worker_calls worker_calls = {
	.refresh = refresh,
	.rounded = rounded,
	.ended = fgt_library_leave,
};

/* ---- Start ------------------------------------------------------------- */

/* The agent, or what stands in for it. */
static int open_backend(int32_t worker_tid)
{
	const struct fgt_options *options = &library.settings.options;
	const struct fgt_backend_options backend_options = {
		.options = options,
		.get_spans_fd = fgt_parts_spans_fd,
		.own_tids = { worker_tid, fgt_parts_own_tid() },
		.log = fgt_report_line,
	};
	const struct fgt_backend *backend = &fgt_agent_link;
	void *state = NULL;
	int r = -ENOENT;

	if (options->mode != FGT_EMBEDDED)
		r = fgt_agent_link_open(&backend_options,
					options->mode == FGT_AUTO, &state);
	if (r < 0 && options->mode != FGT_AGENT) {
		backend = &fgt_embedded;
		r = fgt_embedded_open(&backend_options, &state);
	}
	if (r < 0)
		return r;
	lock(); /* a fork looks at both */
	library.state = state;
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
		r = fgt_parts_start(&library.settings.options);
	if (r == 0)
		r = fgt_worker_start(&worker_calls, &worker_tid);
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

/* Takes the right to start; an abandoned stop is waited for a while. */
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
		/* There is no worker that would. */
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

/* True if nobody uses it any more; else the last one takes it apart. */
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

	/* It was not the program that began. */
	if (fgt_preload_holds && fgt_preload_holds())
		return;
	lock();
	is_running = get_phase() == FGT_PHASE_RUNNING;
	if (is_running)
		set_phase(FGT_PHASE_STOPPING);
	pthread_cond_broadcast(&library.changed); /* those that wait */
	unlock();
	if (!is_running)
		return;
	timeout_ns = library.settings.options.timeout_ms * MS_NS;
	if (timeout_ns < 1250 * MS_NS) /* the worker's last round included */
		timeout_ns = 1250 * MS_NS;
	fgt_worker_leave(now_ns + SECOND_NS);
	if (!wait_for_users(now_ns + timeout_ns)) {
		fgt_report_mute(); /* the program takes its context away */
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

/* ---- For slice.c and the parts ----------------------------------------- */

const struct fgt_options *fgt_library_options(void)
{
	return &library.settings.options;
}

void fgt_library_wake(void)
{
	fgt_worker_wake();
}

int fgt_library_deliver(const struct fgt_delivery *delivery, char *ret_why)
{
	return library.backend->deliver(library.state, delivery, ret_why);
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
	int r = library.backend->cut(library.state, from_ns, to_ns,
				     library.settings.options.timeout_ms,
				     ret_slice);

	if (r < 0 && get_phase() != FGT_PHASE_RUNNING)
		return -ESHUTDOWN;
	return r;
}

int fgt_library_cut_transaction(uint64_t from_ns, uint64_t to_ns,
				struct fgt_slice **ret_slice)
{
	return library.backend->cut_transaction(library.state, from_ns, to_ns,
						ret_slice);
}

bool fgt_library_is_embedded(void)
{
	return library.backend->mode == FGT_EMBEDDED;
}

int fgt_library_ring_fd(void)
{
	return library.backend->ring_fd
		       ? library.backend->ring_fd(library.state)
		       : -1;
}

void fgt_library_count_slice(void)
{
	atomic_fetch_add_explicit(&library.slices, 1, memory_order_relaxed);
}

double fgt_library_hz(void)
{
	return library.backend->hz(library.state);
}

/* ---- Status ------------------------------------------------------------ */

static void add_recording(struct fgt_status *status)
{
	if (fgt_library_enter() < 0)
		return;
	status->mode = library.backend->mode;
	status->is_recording = library.backend->is_recording(library.state);
	status->hz = library.backend->hz(library.state);
	library.backend->get_limitation(library.state, status->limitation,
					sizeof(status->limitation));
	fgt_library_leave();
}

int fgt_get_status(struct fgt_status *ret_status)
{
	FGT_UNCANCELLED;
	const size_t size_min = offsetof(struct fgt_status, limitation) +
				sizeof(ret_status->limitation);
	struct fgt_status status = { .size = sizeof(status), .mode = FGT_AUTO };
	size_t size;

	if (!ret_status || ret_status->size < size_min ||
	    ret_status->size > 4096)
		return -EINVAL;
	size = ret_status->size;
	status.slices =
		atomic_load_explicit(&library.slices, memory_order_relaxed);
	for (unsigned int i = 0; i < fgt_part_count; i++)
		if (fgt_parts[i] && fgt_parts[i]->add_status)
			fgt_parts[i]->add_status(&status);
	add_recording(&status);
	memset(ret_status, 0, size);
	memcpy(ret_status, &status,
	       size < sizeof(status) ? size : sizeof(status));
	ret_status->size = size;
	return 0;
}
