/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of this process's threads have an event, and which a timer.
 */
#include "agent/embed/perf/running_own.h"
#include "agent/embed/signal/running_signal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "tests/unit/embed/child_kit.h"

#define PERIOD_NS    9900990u
#define EVENTS_MAX   16
#define SETTLE_NS    100000000u
#define THREADS_MAX  18
#define TRIES	     400
#define FAILED_TICKS 40
#define LONG_NS	     30000000000u

static const struct fgt_running *const source = &fgt_running_own;

struct worker {
	pthread_t pthread;
	_Atomic int32_t tid;
	struct fgt_thread thread;
	struct fgt_active_thread active;
	uint64_t cpu_ns; /* at the last tick that asked for it */
};

struct fixture {
	void *own;
	struct fgt_fd_budget budget;
	struct fgt_why why;
	struct worker workers[THREADS_MAX];
	int count;
	uint64_t now_ns;
};

static atomic_bool may_end, shall_sleep;

static void *compute(void *context)
{
	struct worker *worker = context;

	atomic_store(&worker->tid, gettid());
	while (!atomic_load_explicit(&may_end, memory_order_relaxed))
		if (atomic_load_explicit(&shall_sleep, memory_order_relaxed))
			poll(NULL, 0, 20);
	return NULL;
}

static void *refuse(void *context)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	return compute(context);
}

static struct worker *add_worker(struct fixture *fixture, void *(*run)(void *))
{
	struct worker *worker = &fixture->workers[fixture->count++];
	struct timespec pause = { .tv_nsec = 1000000 };

	if (pthread_create(&worker->pthread, NULL, run, worker))
		abort();
	while (!atomic_load(&worker->tid))
		nanosleep(&pause, NULL);
	worker->thread.tid = atomic_load(&worker->tid);
	worker->thread.active = &worker->active;
	worker->active.thread = &worker->thread;
	worker->active.syscall_fd = -1;
	return worker;
}

static int start(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	fixture->now_ns = 1000000000u;
	fixture->budget.limit = 64;
	atomic_store(&may_end, false);
	atomic_store(&shall_sleep, false);
	return source->open(&fixture->budget, PERIOD_NS, &fixture->own,
			    &fixture->why);
}

static void stop(struct fixture *fixture)
{
	for (int i = 0; i < fixture->count; i++)
		source->drop(fixture->own, &fixture->workers[i].thread);
	source->close(fixture->own);
	atomic_store(&may_end, true);
	for (int i = 0; i < fixture->count; i++)
		pthread_join(fixture->workers[i].pthread, NULL);
}

static bool want_all(void *context, int32_t pid)
{
	(void)context;
	return pid == getpid();
}

static void count_sample(void *context, const struct fgt_running_sample *sample)
{
	unsigned int *count = context;

	*count += sample->has_regs;
}

static enum fgt_running_answer
tick_of(struct fixture *fixture, struct worker *worker, uint64_t runtime_ns)
{
	const struct fgt_running_use use = {
		.now_ns = fixture->now_ns,
		.period_ns = PERIOD_NS,
		.event_ns = PERIOD_NS,
		.runtime_ns = runtime_ns,
		.is_throughout = runtime_ns >= PERIOD_NS,
	};

	source->consider(fixture->own, &worker->thread, &use);
	return source->ask(fixture->own, &worker->thread, fixture->now_ns);
}

/* One tick of a worker that is found running, as if it had run throughout. */
static enum fgt_running_answer tick(struct fixture *fixture,
				    struct worker *worker)
{
	return tick_of(fixture, worker, PERIOD_NS);
}

/* The same with the CPU time that it really had, by which its samples are
 * judged: on a busy machine it is less than a tick. */
static enum fgt_running_answer true_tick(struct fixture *fixture,
					 struct worker *worker)
{
	uint64_t before_ns = worker->cpu_ns;
	clockid_t clock;

	assert_int_equal(pthread_getcpuclockid(worker->pthread, &clock), 0);
	worker->cpu_ns = fgt_clock_ns(clock);
	return tick_of(fixture, worker, worker->cpu_ns - before_ns);
}

/* Lets the workers run for a tick. */
static unsigned int pass(struct fixture *fixture)
{
	struct timespec pause = { .tv_nsec = PERIOD_NS };
	unsigned int count = 0;
	const struct fgt_running_handler handler = { .is_wanted = want_all,
						     .sample = count_sample,
						     .context = &count };

	nanosleep(&pause, NULL);
	fixture->now_ns += PERIOD_NS;
	source->drain(fixture->own, &handler);
	return count;
}

static bool has_event(const struct worker *worker)
{
	return worker->active.has_event && worker->active.source;
}

static bool has_timers(const struct worker *worker)
{
	return !worker->active.has_event;
}

/* ---- The tests ---------------------------------------------------------- */

/* Ticks until it has an event; false: it may have none here. */
static bool wait_for_event(struct fixture *fixture, struct worker *worker)
{
	for (int i = 0; i < FAILED_TICKS && !has_event(worker); i++) {
		(void)pass(fixture);
		(void)true_tick(fixture, worker);
	}
	return has_event(worker);
}

static void running_thread_has_an_event(void **state)
{
	struct fixture fixture;
	unsigned int samples = 0;

	(void)state;
	assert_int_equal(start(&fixture), 0);
	assert_int_equal(source->own_tid(fixture.own), 0);
	if (!wait_for_event(&fixture, add_worker(&fixture, compute))) {
		stop(&fixture);
		skip();
	}
	assert_int_not_equal(source->own_tid(fixture.own), 0);
	for (int i = 0; i < TRIES && samples < 40; i++) {
		samples += pass(&fixture);
		assert_int_equal(true_tick(&fixture, &fixture.workers[0]),
				 FGT_RUNNING_SAMPLE_COMES);
		assert_true(has_event(&fixture.workers[0]));
	}
	assert_int_equal(samples, 40);
	stop(&fixture);
}

static void thread_that_refuses_signals_has_an_event(void **state)
{
	struct fixture fixture;
	struct worker *worker;

	(void)state;
	assert_int_equal(start(&fixture), 0);
	worker = add_worker(&fixture, refuse);
	if (!wait_for_event(&fixture, worker)) {
		stop(&fixture);
		skip();
	}
	stop(&fixture);
}

static void program_that_is_over_soon_has_no_keeper(void **state)
{
	struct fixture fixture;
	struct worker *worker;

	(void)state;
	assert_int_equal(start(&fixture), 0);
	worker = add_worker(&fixture, compute);
	(void)tick(&fixture, worker);
	fixture.now_ns += SETTLE_NS - 1;
	(void)tick(&fixture, worker);
	assert_true(has_timers(worker));
	assert_int_equal(source->own_tid(fixture.own), 0);
	stop(&fixture);
}

/* For which an event that may not look into the kernel has no records. */
static void thread_without_records_has_a_timer_for_some_time(void **state)
{
	struct fixture fixture;
	struct worker *worker;

	(void)state;
	assert_int_equal(start(&fixture), 0);
	worker = add_worker(&fixture, compute);
	if (!wait_for_event(&fixture, worker)) {
		stop(&fixture);
		skip();
	}
	/* Nothing is drained between. First it gets a denser event. */
	for (int i = 0; i < 3; i++)
		(void)tick(&fixture, worker);
	assert_true(has_event(worker));
	for (int i = 0; i < 3; i++)
		(void)tick(&fixture, worker);
	assert_true(has_timers(worker));
	(void)tick(&fixture, worker);
	assert_true(has_timers(worker));
	fixture.now_ns += LONG_NS;
	(void)tick(&fixture, worker);
	assert_true(has_event(worker));
	stop(&fixture);
}

static void note_past(void *context, const struct fgt_running_sample *sample)
{
	bool *is_past = context;

	*is_past = sample->is_past;
}

/* No tick that finds it in its next run shall show that sample as its own. */
static void sample_is_past_when_its_thread_has_slept_since(void **state)
{
	struct fixture fixture;
	bool is_past = false;
	const struct fgt_running_handler handler = { .is_wanted = want_all,
						     .sample = note_past,
						     .context = &is_past };

	(void)state;
	assert_int_equal(start(&fixture), 0);
	if (!wait_for_event(&fixture, add_worker(&fixture, compute))) {
		stop(&fixture);
		skip();
	}
	for (int i = 0; i < TRIES && !is_past; i++) {
		poll(NULL, 0, 10);
		atomic_store(&shall_sleep, true);
		poll(NULL, 0, 10);
		source->drain(fixture.own, &handler);
		atomic_store(&shall_sleep, false);
	}
	assert_true(is_past);
	stop(&fixture);
}

/* There are no more than EVENTS_MAX. */
static void busier_thread_takes_the_event_of_another(void **state)
{
	struct fixture fixture;
	struct worker *idle, *last;

	(void)state;
	assert_int_equal(start(&fixture), 0);
	for (int i = 0; i < EVENTS_MAX + 1; i++)
		add_worker(&fixture, compute);
	(void)tick(&fixture, &fixture.workers[0]);
	fixture.now_ns += SETTLE_NS;
	for (int i = 0; i < EVENTS_MAX; i++)
		(void)tick(&fixture, &fixture.workers[i]);
	idle = &fixture.workers[3];
	last = &fixture.workers[EVENTS_MAX];
	if (!has_event(&fixture.workers[EVENTS_MAX - 1])) {
		stop(&fixture);
		skip();
	}
	(void)tick(&fixture, last);
	assert_true(has_timers(last));
	idle->active.ran_ns = PERIOD_NS / 20;
	(void)tick(&fixture, last);
	assert_true(has_event(last));
	assert_true(has_timers(idle));
	stop(&fixture);
}

static int lock_nothing(void)
{
	const struct rlimit none = { .rlim_cur = 64 << 10,
				     .rlim_max = 64 << 10 };
	struct fixture fixture;

	if (setrlimit(RLIMIT_MEMLOCK, &none) < 0)
		return SKIPPED;
	if (start(&fixture) < 0)
		return 1;
	if (wait_for_event(&fixture, add_worker(&fixture, refuse)) ||
	    !has_timers(&fixture.workers[0]) ||
	    source->own_tid(fixture.own) != 0)
		return 2;
	stop(&fixture);
	return 0;
}

static void program_that_may_lock_little_has_timers(void **state)
{
	(void)state;
	check_child(lock_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(running_thread_has_an_event),
		cmocka_unit_test(thread_that_refuses_signals_has_an_event),
		cmocka_unit_test(program_that_is_over_soon_has_no_keeper),
		cmocka_unit_test(
			thread_without_records_has_a_timer_for_some_time),
		cmocka_unit_test(
			sample_is_past_when_its_thread_has_slept_since),
		cmocka_unit_test(busier_thread_takes_the_event_of_another),
		cmocka_unit_test(program_that_may_lock_little_has_timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
