/* SPDX-License-Identifier: Apache-2.0 */
/* Of which instants samples are. The kernel ticks every 4 ms here. */
#include "agent/embed/signal/signal_date.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "tests/unit/embed/signal_kit.h"

#define MS	UINT64_C(1000000)
#define APART	(4 * MS)
#define ONE_NS	(1000 * MS) /* a tick */
#define OVERRUN 30

/* Of a timer of 1 ms. */
static struct fgt_running_sample date(struct fgt_kernel_ticks *ticks,
				      uint64_t taken_ns, int overrun,
				      bool is_after_call)
{
	static struct fgt_signal_slot slot;
	struct fgt_running_sample sample = { .time_ns = taken_ns };

	slot.taken_period_ns = MS;
	slot.overrun = overrun;
	slot.is_after_call = is_after_call;
	slot.is_of_long_call = overrun == OVERRUN;
	fgt_signal_date(ticks, &slot, &sample);
	return sample;
}

static void signal_that_waited_is_of_the_tick_that_it_fell_due_at(void **state)
{
	struct fgt_kernel_ticks ticks = { APART, 0 };
	uint64_t taken_ns = ONE_NS + 50 * MS;
	struct fgt_running_sample sample;

	(void)state;
	assert_int_equal(date(&ticks, ONE_NS, 3, false).time_ns, ONE_NS);
	assert_int_equal(ticks.one_ns, ONE_NS);
	/* With the call's mark, or from its length alone. */
	for (int i = 0; i < 2; i++) {
		sample = date(&ticks, taken_ns, OVERRUN, i == 0);
		assert_int_equal(sample.time_ns, ONE_NS + 20 * MS);
		assert_int_equal(sample.call_ns, 28 * MS);
	}
	sample = date(&ticks, taken_ns, 3, true);
	assert_int_equal(sample.time_ns, ONE_NS + 48 * MS);
	assert_int_equal(sample.call_ns, 0);
	/* Another thread's, before the last tick that was seen. */
	sample = date(&ticks, ONE_NS - 5 * MS, 3, true);
	assert_int_equal(sample.time_ns, ONE_NS - 8 * MS);
}

static void ticks_are_as_early_as_signals_show(void **state)
{
	struct fgt_kernel_ticks ticks = { APART, ONE_NS };

	(void)state;
	(void)date(&ticks, ONE_NS + 2 * APART + 80000, 0, false);
	assert_int_equal(ticks.one_ns, ONE_NS + 2 * APART + 10000);
	(void)date(&ticks, ONE_NS + APART, 0, false);
	assert_int_equal(ticks.one_ns, ONE_NS + APART);
}

static void unknown_ticks_change_nothing(void **state)
{
	struct fgt_kernel_ticks ticks = { 0, 0 };
	struct fgt_running_sample sample = date(&ticks, ONE_NS, OVERRUN, true);

	(void)state;
	assert_int_equal(sample.time_ns, ONE_NS);
	assert_int_equal(sample.call_ns, 0);
}

static bool take(struct fgt_signal_slot *slot, int overrun, bool is_after_call)
{
	const siginfo_t info = { .si_overrun = overrun, .si_timerid = -1 };
	ucontext_t context;

	memset(&context, 0, sizeof(context));
	getcontext(&context);
#ifdef __x86_64__
	context.uc_mcontext.gregs[REG_RCX] =
		is_after_call ? context.uc_mcontext.gregs[REG_RIP] : 0;
#else
	(void)is_after_call;
#endif
	return fgt_signal_take(slot, slot->lending, &info, &context);
}

/* Those between two samples are dropped; when they came is known. */
static void handler_notes_when_signals_come(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_running_sample sample;
	struct fgt_signal_slot *slot;
	uint64_t first_ns;
	uint32_t next = 0;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	slot = fgt_signal_slot_get(&next, gettid(), 0, 0, false);
	fgt_signal_slot_set_period(slot, MS, true);
	assert_true(take(slot, 0, false));
	assert_false(slot->is_after_call);
	sample = fgt_signal_slot_sample(slot);
	assert_int_equal(sample.before_ns, 0);
	first_ns = sample.time_ns;
	assert_true(take(slot, OVERRUN, true));
	assert_true(take(slot, 0, false));
	sample = fgt_signal_slot_sample(slot);
	assert_int_equal(slot->taken_period_ns, MS);
	assert_int_equal(sample.before_ns, first_ns);
	assert_true(sample.time_ns > first_ns);
	assert_true(sample.next_ns > sample.time_ns);
#ifdef __x86_64__
	assert_true(slot->is_after_call);
#endif
	fgt_signal_slot_put(slot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			signal_that_waited_is_of_the_tick_that_it_fell_due_at),
		cmocka_unit_test(ticks_are_as_early_as_signals_show),
		cmocka_unit_test(unknown_ticks_change_nothing),
		cmocka_unit_test(handler_notes_when_signals_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
