/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often threads of this process are signalled while they run.
 */
#include "tests/unit/embed/signal_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/embed/signal/running_signal_slot.h"
#include "agent/embed/signal/thread_timer.h"
#include "ringbuf/base/clock.h"

#define PERIOD_NS  9900990u
#define MS	   1000000u
#define TIMERS_MAX 16
#define TICKS	   100

/* Between two signals, of the only timer of this process; 0: it has none. */
static uint64_t timer_period(void)
{
	struct itimerspec each;

	for (int timer = 0; timer < TIMERS_MAX; timer++)
		if (syscall(SYS_timer_gettime, timer, &each) == 0)
			return fgt_timespec_ns(&each.it_interval);
	return 0;
}

static void consider(void *signal, struct fgt_thread *thread,
		     bool is_throughout, int times)
{
	const struct fgt_running_use use = {
		.now_ns = fgt_clock_ns(CLOCK_MONOTONIC),
		.period_ns = PERIOD_NS,
		.event_ns = PERIOD_NS,
		.runtime_ns = PERIOD_NS,
		.is_throughout = is_throughout,
	};

	for (int i = 0; i < times; i++)
		fgt_running_signal.consider(signal, thread, &use);
}

static void a_thread_that_always_runs_is_signalled_less_often(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_active_thread active = { .syscall_fd = -1 };
	struct fgt_thread thread = { .tid = gettid(), .active = &active };
	uint64_t tick_ns = fgt_thread_timer_kernel_tick();
	uint64_t often_ns = fgt_thread_timer_period(tick_ns);
	uint64_t rare_ns = fgt_thread_timer_rare(tick_ns, PERIOD_NS);

	(void)state;
	if (rare_ns == often_ns)
		skip(); /* the kernel ticks no more often than the sampler */
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider(signal, &thread, false, 2);
	assert_non_null(active.source);
	assert_int_equal(timer_period(), often_ns);
	consider(signal, &thread, true, TICKS);
	assert_int_equal(timer_period(), rare_ns);
	consider(signal, &thread, false, 1);
	assert_int_equal(timer_period(), often_ns);
	/* A moment without a wait shows nothing. */
	consider(signal, &thread, true, 2);
	assert_int_equal(timer_period(), often_ns);
	fgt_running_signal.drop(signal, &thread);
}

static uint64_t timer_due(void)
{
	struct itimerspec each = { .it_value = { 0, 0 } };

	for (int timer = 0; timer < TIMERS_MAX; timer++)
		if (syscall(SYS_timer_gettime, timer, &each) == 0)
			break;
	return fgt_timespec_ns(&each.it_value);
}

static struct fgt_signal_slot *find_slot(int32_t tid)
{
	for (uint32_t i = 0; i < fgt_signal_table.count; i++)
		if (fgt_signal_table.slots[i].tid == tid)
			return &fgt_signal_table.slots[i];
	return NULL;
}

/* The handler stops a timer: see running_signal_sig.c. */
static void what_the_handler_has_stopped_stays_so(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_active_thread active = { .syscall_fd = -1 };
	struct fgt_thread thread = { .tid = gettid(), .active = &active };
	struct fgt_signal_slot *slot;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider(signal, &thread, false, 2);
	assert_true(timer_due() > 0);
	slot = find_slot(gettid());
	assert_non_null(slot);
	slot->is_foreign = true;
	consider(signal, &thread, true, TICKS);
	assert_int_equal(
		timer_period(),
		fgt_thread_timer_period(fgt_thread_timer_kernel_tick()));
	/* Its last sample was not read yet. */
	fgt_running_signal.drop(signal, &thread);
	assert_true(thread.is_fragile);
	assert_non_null(fgt_running_signal.limit(signal, 1, 1));
	active.source_retry_ns = 0;
	consider(signal, &thread, false, TICKS);
	assert_null(active.source);
}

/* A signal comes with the first tick of the kernel after it is due. */
static void signal_comes_once_within_each_tick_of_the_sampler(void **state)
{
	static const uint64_t ticks_ns[] = { 1 * MS, 3333333, 4 * MS, 10 * MS };
	static const uint64_t periods_ns[] = { 1 * MS, PERIOD_NS, 40 * MS };

	(void)state;
	for (size_t i = 0; i < sizeof(ticks_ns) / sizeof(*ticks_ns); i++)
		for (size_t j = 0; j < 3; j++) {
			uint64_t often_ns =
				fgt_thread_timer_period(ticks_ns[i]);
			uint64_t ns = fgt_thread_timer_rare(ticks_ns[i],
							    periods_ns[j]);

			assert_true(ns >= often_ns);
			assert_true(ns == often_ns ||
				    ns + ticks_ns[i] < periods_ns[j]);
		}
	/* Where the kernel ticks 1000 times a second, 115 times, and 185 times
	 * where it does 250 times. */
	assert_in_range(fgt_thread_timer_rare(1 * MS, PERIOD_NS), 8500000,
			8900000);
	assert_in_range(fgt_thread_timer_rare(4 * MS, PERIOD_NS), 5000000,
			5900000);
}

static bool take(struct fgt_signal_slot *slot, int overrun)
{
	const siginfo_t info = { .si_overrun = overrun, .si_timerid = -1 };
	ucontext_t context;

	memset(&context, 0, sizeof(context));
	getcontext(&context);
	return fgt_signal_take(slot, slot->lending, &info, &context);
}

/* It comes when the call ends: the samples before it, and after it, are of
 * other functions. */
static void sample_of_a_long_call_is_kept(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_signal_slot *slot;
	uint32_t next = 0;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slot = fgt_signal_slot_get(&next, gettid(), 0, 0, false);
	fgt_signal_slot_set_period(slot, MS, true);
	for (int i = 0; i < 20; i++) {
		assert_true(take(slot, 3));
		assert_false(slot->is_of_long_call);
	}
	assert_true(take(slot, 25));
	assert_true(slot->is_of_long_call);
	for (int i = 0; i < 20; i++)
		assert_true(take(slot, 3));
	assert_int_equal(slot->overrun, 25);
	slot->state = FGT_SIGNAL_EMPTY; /* read by a tick */
	assert_true(take(slot, 3));
	assert_int_equal(slot->overrun, 3);
	assert_false(slot->is_of_long_call);
	/* Between two of its runs, a thread that sleeps is not in a call. */
	fgt_signal_slot_set_period(slot, MS, false);
	assert_true(take(slot, 25));
	assert_false(slot->is_of_long_call);
	fgt_signal_slot_put(slot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_thread_that_always_runs_is_signalled_less_often),
		cmocka_unit_test(what_the_handler_has_stopped_stays_so),
		cmocka_unit_test(sample_of_a_long_call_is_kept),
		cmocka_unit_test(
			signal_comes_once_within_each_tick_of_the_sampler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
