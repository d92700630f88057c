/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker thread. All signals are blocked in it, because signals of the
 * program are for the program's threads.
 */
#include "agent/lib/start/worker.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "agent/lib/own.h"
#include "agent/lib/report.h"
#include "agent/lib/start/program_end.h"
#include "agent/lib/start/start.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/thread.h"

#define SECOND_NS   UINT64_C(1000000000)
#define STACK_BYTES (256 << 10) /* deliveries run on it: TLS, name lookups */

static struct {
	pthread_t thread;
	sem_t started;
	sem_t logged; /* by the thread of fgt_worker_give_up() */
	int32_t tid; /* written before the post of started */
	atomic_bool may_go;
	/* 0: the thread need not leave. Release and acquire: only the wake-up
	 * that follows depends on it. */
	_Atomic uint64_t leave_ns;
	_Atomic uint64_t wanted;
	struct fgt_program_end end; /* the thread's */
	/* Number of forks, counted in the children. Relaxed: one thread. */
	atomic_uint forks;
} worker;

/* Before main(), as fgt_library_init_wake(): see there. */
__attribute__((constructor(101))) static void init_semaphores(void)
{
	sem_init(&worker.started, 0, 0);
	sem_init(&worker.logged, 0, 0);
}

uint64_t fgt_worker_want(void)
{
	/* Release: pairs with the acquire at the start of a round. */
	uint64_t wanted = atomic_fetch_add_explicit(&worker.wanted, 1,
						    memory_order_acq_rel) +
			  1;

	fgt_library_wake();
	return wanted;
}

static uint64_t work_parts(uint64_t now_ns, uint64_t until_ns)
{
	for (unsigned int i = 0; i < FGT_PARTS; i++) {
		const struct fgt_part *part = fgt_parts[i];
		uint64_t next_ns = part->work ? part->work(now_ns) : UINT64_MAX;

		if (next_ns < until_ns)
			until_ns = next_ns;
	}
	return until_ns;
}

static bool are_parts_idle(void)
{
	for (unsigned int i = 0; i < FGT_PARTS; i++)
		if (fgt_parts[i]->is_idle && !fgt_parts[i]->is_idle())
			return false;
	return true;
}

static bool is_backend_idle(void)
{
	const struct fgt_backend *backend = fgt_library.backend;

	return !backend->is_idle || backend->is_idle();
}

static void give_up_parts(void)
{
	for (unsigned int i = 0; i < FGT_PARTS; i++)
		if (fgt_parts[i]->give_up)
			fgt_parts[i]->give_up();
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

/* False: this was the last round. ret_next_ns: when the next one is due, 0 at
 * once. */
static bool do_round(uint64_t *refresh_ns, uint64_t *ret_next_ns)
{
	/* Acquire: pairs with the releases in fgt_worker_want() and
	 * fgt_worker_leave(). */
	uint64_t wanted =
		atomic_load_explicit(&worker.wanted, memory_order_acquire);
	uint64_t leave_ns =
		atomic_load_explicit(&worker.leave_ns, memory_order_acquire);
	uint64_t now_ns = fgt_now();
	bool is_idle, is_last;

	if (now_ns >= *refresh_ns && leave_ns == 0) {
		fgt_library.backend->refresh();
		*refresh_ns = now_ns + SECOND_NS;
	}
	/* No refresh while leaving: refresh_ns may be long past. */
	*ret_next_ns =
		work_parts(now_ns, leave_ns != 0 ? leave_ns : *refresh_ns);
	*ret_next_ns = earlier(*ret_next_ns,
			       fgt_program_end_check(&worker.end, now_ns));
	is_idle = are_parts_idle() && is_backend_idle();
	is_last = leave_ns != 0 && (is_idle || fgt_now() >= leave_ns);
	if (is_last)
		give_up_parts();
	fgt_report_all(&fgt_library.settings.options);
	fgt_library_round_ended(is_idle, wanted);
	return !is_last;
}

/* False: the start has failed. True also if a stop came before this look. */
static bool wait_to_go(void)
{
	while (!atomic_load_explicit(&worker.may_go, memory_order_acquire)) {
		if (atomic_load_explicit(&worker.leave_ns,
					 memory_order_acquire))
			return atomic_load_explicit(&worker.may_go,
						    memory_order_acquire);
		fgt_own_wait(&fgt_library.wake, fgt_now() + SECOND_NS);
	}
	return true;
}

/* The program's log has forked, and this is the child, which has no worker. */
static bool has_forked(unsigned int forks)
{
	return atomic_load_explicit(&worker.forks, memory_order_relaxed) !=
	       forks;
}

static void *run(void *unused)
{
	uint64_t refresh_ns = 0, next_ns; /* 0: at once */
	unsigned int forks =
		atomic_load_explicit(&worker.forks, memory_order_relaxed);

	(void)unused;
	pthread_setname_np(pthread_self(), "fgt-library");
	worker.tid = gettid();
	(void)sem_post(&worker.started);
	if (wait_to_go()) {
		while (do_round(&refresh_ns, &next_ns) && !has_forked(forks))
			fgt_own_wait(&fgt_library.wake, next_ns);
	}
	if (!has_forked(forks))
		fgt_library_leave();
	return NULL;
}

int fgt_worker_start(int32_t *ret_tid)
{
	int r;

	worker.end = (struct fgt_program_end){ .has_begun = false };
	atomic_store_explicit(&worker.may_go, false, memory_order_relaxed);
	atomic_store_explicit(&worker.leave_ns, 0, memory_order_relaxed);
	r = fgt_thread_start(STACK_BYTES, run, NULL, &worker.thread);
	if (r < 0)
		return r;
	while (sem_wait(&worker.started) < 0)
		; /* interrupted by a signal of the program */
	*ret_tid = worker.tid;
	return 0;
}

void fgt_worker_go(void)
{
	/* Release: the worker sees what fgt_start() has set up. */
	atomic_store_explicit(&worker.may_go, true, memory_order_release);
	fgt_library_wake();
}

void fgt_worker_leave(uint64_t until_ns)
{
	atomic_store_explicit(&worker.leave_ns, until_ns, memory_order_release);
	fgt_library_wake();
}

static void *log_rest(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "fgt-library");
	fgt_report_all(&fgt_library.settings.options);
	(void)sem_post(&worker.logged);
	return NULL;
}

void fgt_worker_give_up(void)
{
	uint64_t until_ns = fgt_now() + SECOND_NS;

	give_up_parts();
	/* Not the worker, which is busy, and not a thread of the program, which
	 * may hold a lock that the program's log waits for. Not joined: the log
	 * may never return. */
	if (fgt_thread_start(STACK_BYTES, log_rest, NULL, NULL) < 0)
		return;
	fgt_own_wait(&worker.logged, until_ns);
}

void fgt_worker_join(void)
{
	(void)pthread_join(worker.thread, NULL);
}

void fgt_worker_abandon(void)
{
	(void)pthread_detach(worker.thread);
}

void fgt_worker_forked(void)
{
	atomic_fetch_add_explicit(&worker.forks, 1, memory_order_relaxed);
	init_semaphores();
	fgt_library_init_wake();
}
