/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that ticks ask for: one each, and what the kernel hides is counted.
 */
#include "agent/capture/running/running.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOBODY	  65534
#define PERIOD_NS 9900990u
#define SKIPPED	  77

static const struct fgt_running *const source = &fgt_running_perf_thread;

struct fixture {
	struct fgt_fd_budget budget;
	void *perf;
	struct fgt_thread thread;
	struct fgt_active_thread active;
	pthread_t pthread;
	uint64_t now_ns;
};

static atomic_bool may_end;
static _Atomic int32_t busy_tid;

static void *compute(void *context)
{
	(void)context;
	atomic_store(&busy_tid, gettid());
	while (!atomic_load_explicit(&may_end, memory_order_relaxed))
		;
	return NULL;
}

static void *stay_in_kernel(void *context)
{
	static char buffer[4u << 20];

	(void)context;
	atomic_store(&busy_tid, gettid());
	while (!atomic_load_explicit(&may_end, memory_order_relaxed))
		if (getrandom(buffer, sizeof(buffer), 0) < 0)
			abort();
	return NULL;
}

static void sleep_ms(unsigned int ms)
{
	struct timespec pause = { .tv_nsec = ms * 1000000 };

	nanosleep(&pause, NULL);
}

/* False: this user may have no perf events. */
static bool start(struct fixture *fixture, void *(*run)(void *))
{
	memset(fixture, 0, sizeof(*fixture));
	fixture->budget.limit = 64;
	if (source->open(&fixture->budget, PERIOD_NS, &fixture->perf, NULL) < 0)
		return false;
	atomic_store(&may_end, false);
	atomic_store(&busy_tid, 0);
	if (pthread_create(&fixture->pthread, NULL, run, NULL))
		abort();
	while (!atomic_load(&busy_tid))
		sleep_ms(1);
	fixture->thread.tid = atomic_load(&busy_tid);
	fixture->thread.active = &fixture->active;
	fixture->active.thread = &fixture->thread;
	fixture->now_ns = 1000000000u;
	return true;
}

static void stop(struct fixture *fixture)
{
	atomic_store(&may_end, true);
	pthread_join(fixture->pthread, NULL);
	source->drop(fixture->perf, &fixture->thread);
	assert_int_equal(fixture->budget.used, 0);
	source->close(fixture->perf);
}

static enum fgt_running_answer ask(struct fixture *fixture)
{
	return source->ask(fixture->perf, &fixture->thread, fixture->now_ns);
}

struct taken {
	unsigned int samples, in_kernel, after_kernel;
	int32_t tid;
	bool has_stack;
};

static bool want_all(void *context, int32_t pid)
{
	(void)context;
	return pid == getpid();
}

static void take(void *context, const struct fgt_running_sample *sample)
{
	struct taken *taken = context;

	taken->samples++;
	taken->in_kernel += sample->is_kernel;
	taken->after_kernel += sample->is_after_kernel;
	taken->tid = sample->tid;
	taken->has_stack = sample->has_regs && sample->stack_len > 0;
}

static struct fgt_running_handler handler_of(struct taken *taken)
{
	return (struct fgt_running_handler){ .is_wanted = want_all,
					     .sample = take,
					     .context = taken };
}

static struct taken drain(struct fixture *fixture)
{
	struct taken taken = { 0 };
	const struct fgt_running_handler handler = handler_of(&taken);

	source->drain(fixture->perf, &handler);
	return taken;
}

/* Returns whether a sample is awaited still. */
static bool drain_awaited(struct fixture *fixture, struct taken *taken)
{
	const struct fgt_running_handler handler = handler_of(taken);

	return source->drain_awaited(fixture->perf, &handler);
}

/* On a busy machine the thread may have to wait for a CPU. */
static struct taken drain_patiently(struct fixture *fixture)
{
	struct taken taken = { 0 };

	for (int i = 0; i < 200 && !taken.samples; i++) {
		sleep_ms(10);
		taken = drain(fixture);
	}
	return taken;
}

static void each_tick_that_asks_has_one_sample(void **state)
{
	struct fixture fixture;
	struct taken taken;

	(void)state;
	if (!start(&fixture, compute))
		skip();
	for (int i = 0; i < 10; i++) {
		assert_int_equal(ask(&fixture), FGT_RUNNING_SAMPLE_COMES);
		taken = drain_patiently(&fixture);
		assert_int_equal(taken.samples, 1);
		assert_int_equal(taken.tid, fixture.thread.tid);
		assert_true(taken.has_stack);
		assert_int_equal(taken.after_kernel, 0);
		/* It is off until the next tick asks. */
		sleep_ms(20);
		assert_int_equal(drain(&fixture).samples, 0);
	}
	stop(&fixture);
}

static void sample_without_the_whole_stack_is_awaited(void **state)
{
	struct taken taken = { 0 };
	struct fixture fixture;

	(void)state;
	if (!start(&fixture, compute))
		skip();
	/* Others can wait until the next tick. */
	ask(&fixture);
	assert_false(drain_awaited(&fixture, &taken));
	assert_int_equal(drain_patiently(&fixture).samples, 1);
	fixture.active.lacks_stack = 1;
	ask(&fixture);
	for (int i = 0; i < 2000 && drain_awaited(&fixture, &taken); i++)
		sleep_ms(1);
	assert_int_equal(taken.samples, 1);
	assert_false(drain_awaited(&fixture, &taken));
	assert_int_equal(drain(&fixture).samples, 0);
	/* What the next tick takes over, or its thread leaves, is not. */
	ask(&fixture);
	assert_int_equal(drain_patiently(&fixture).samples, 1);
	assert_false(drain_awaited(&fixture, &taken));
	ask(&fixture);
	source->drop(fixture.perf, &fixture.thread);
	assert_false(drain_awaited(&fixture, &taken));
	assert_int_equal(taken.samples, 1);
	stop(&fixture);
}

static void consider(struct fixture *fixture, uint64_t switches)
{
	const struct fgt_running_use use = { .now_ns = fixture->now_ns,
					     .period_ns = PERIOD_NS,
					     .event_ns = PERIOD_NS,
					     .switches = switches };

	source->consider(fixture->perf, &fixture->thread, &use);
	fixture->now_ns += PERIOD_NS;
}

static void thread_that_switches_all_the_time_has_no_event(void **state)
{
	struct fixture fixture;

	(void)state;
	if (!start(&fixture, compute))
		skip();
	/* 5000 a second are no reason, nor is one tick of many. */
	for (int i = 0; i < 100; i++) {
		consider(&fixture, i == 50 ? 300 : 50);
		assert_int_not_equal(ask(&fixture), FGT_RUNNING_NO_SAMPLE);
	}
	for (int i = 0; i < 40; i++)
		consider(&fixture, 1000);
	ask(&fixture);
	consider(&fixture, 1000);
	assert_null(fixture.active.source);
	assert_int_equal(ask(&fixture), FGT_RUNNING_NO_SAMPLE);
	/* At 100,000 a second it has one at every tenth tick. */
	fixture.now_ns += 8 * PERIOD_NS;
	assert_int_equal(ask(&fixture), FGT_RUNNING_NO_SAMPLE);
	fixture.now_ns += 2 * PERIOD_NS;
	assert_int_equal(ask(&fixture), FGT_RUNNING_SAMPLE_COMES);
	assert_int_equal(drain_patiently(&fixture).samples, 1);
	consider(&fixture, 1000);
	assert_int_equal(ask(&fixture), FGT_RUNNING_NO_SAMPLE);
	stop(&fixture);
}

/* In a process without privileges; its status, or SKIPPED. */
static int find_kernel_time(void)
{
	struct fixture fixture;
	struct taken taken = { 0 };
	unsigned int hidden = 0;

	if (!start(&fixture, stay_in_kernel))
		return SKIPPED;
	for (int i = 0; i < 40; i++) {
		hidden += ask(&fixture) == FGT_RUNNING_IN_KERNEL;
		sleep_ms(10);
		taken = drain(&fixture);
		/* The former where it may look there. */
		hidden += taken.in_kernel + taken.after_kernel;
	}
	return hidden >= 20 ? 0 : 1;
}

static void time_in_the_kernel_is_known_without_looking_there(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		if (setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
		    setresuid(NOBODY, NOBODY, NOBODY) < 0)
			_exit(SKIPPED);
		_exit(find_kernel_time());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_tick_that_asks_has_one_sample),
		cmocka_unit_test(sample_without_the_whole_stack_is_awaited),
		cmocka_unit_test(
			thread_that_switches_all_the_time_has_no_event),
		cmocka_unit_test(
			time_in_the_kernel_is_known_without_looking_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
