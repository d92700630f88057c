/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What procfs shows of threads: syscall and schedstat lines, and the instant at
 * which to tick.
 */
#include "agent/capture/look/look_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/capture/sampling.h"
#include "agent/capture/who_ran/who_ran.h"

static void a_blocked_call_has_number_stack_and_code(void **state)
{
	struct fgt_blocked blocked;

	(void)state;
	assert_int_equal(fgt_blocked_parse("202 0x7f01 0x80 0x0 0x0 0x0 0x0 "
					   "0x7ffd12345678 0x7f0123456789\n",
					   &blocked),
			 0);
	assert_false(blocked.is_running);
	assert_int_equal(blocked.call, 202);
	assert_int_equal(blocked.sp, 0x7ffd12345678);
	assert_int_equal(blocked.pc, 0x7f0123456789);
}

static void outside_a_call_there_is_a_stack_too(void **state)
{
	struct fgt_blocked blocked;

	(void)state;
	assert_int_equal(
		fgt_blocked_parse("-1 0x7ffd0000 0x401000\n", &blocked), 0);
	assert_int_equal(blocked.call, -1);
	assert_int_equal(blocked.sp, 0x7ffd0000);
	assert_int_equal(blocked.pc, 0x401000);
}

static void running_thread_is_parsed_as_running(void **state)
{
	struct fgt_blocked blocked;

	(void)state;
	assert_int_equal(fgt_blocked_parse("running\n", &blocked), 0);
	assert_true(blocked.is_running);
}

static void malformed_calls_are_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"\n",
		"x",
		"202",
		"202 0x1 0x2",
		"-2 0x1 0x2",
		"-1 0x1",
		"-1 1 2",
		"-1 0x1 0x2 0x3",
		"99999999999 0x1",
		"0 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd12345678",
		"0 0x0 0x0 0x0 0x0 0x0 0x0 0x11112222333344445 0x1",
	};
	struct fgt_blocked blocked;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(fgt_blocked_parse(lines[i], &blocked),
				 -EBADMSG);
}

static void a_resumed_call_keeps_the_name_of_the_call(void **state)
{
	struct fgt_thread thread = { .tid = 1 };
	struct fgt_blocked blocked = { .call = SYS_restart_syscall };
	uint32_t unknown = fgt_blocked_state(&blocked, &thread);

	(void)state;
	assert_int_equal(unknown,
			 FGT_STATE_SYSCALL_FIRST + SYS_restart_syscall);
	thread.call_state = 0;
	blocked.call = SYS_clock_nanosleep;
	fgt_blocked_state(&blocked, &thread);
	blocked.call = SYS_restart_syscall;
	assert_int_equal(fgt_blocked_state(&blocked, &thread),
			 FGT_STATE_SYSCALL_FIRST + SYS_clock_nanosleep);
	blocked.call = -1;
	assert_int_equal(fgt_blocked_state(&blocked, &thread),
			 FGT_STATE_PAGE_FAULT);
	blocked.call = 5000;
	assert_int_equal(fgt_blocked_state(&blocked, &thread),
			 FGT_STATE_UNKNOWN);
}

static void cpu_use_is_three_numbers(void **state)
{
	struct fgt_cpu_use use;

	(void)state;
	assert_int_equal(fgt_cpu_use_parse("123456789012 42 7\n", &use), 0);
	assert_int_equal(use.runtime_ns, 123456789012);
	assert_int_equal(use.wait_ns, 42);
	assert_int_equal(use.switches, 7);
	assert_int_equal(fgt_cpu_use_parse("1 2", &use), -EBADMSG);
	assert_int_equal(fgt_cpu_use_parse("1 -2 3", &use), -EBADMSG);
	assert_int_equal(fgt_cpu_use_parse("", &use), -EBADMSG);
	assert_int_equal(fgt_cpu_use_parse("99999999999999999999 2 3", &use),
			 -EBADMSG);
}

static void ticks_come_a_little_after_the_samples(void **state)
{
	const uint64_t period = 9900990, delay = 200000;

	(void)state;
	assert_int_equal(fgt_sampling_phase(5000, 100, period, delay),
			 5000 + delay);
	for (uint64_t now = 1; now < 5 * period; now += 77777) {
		uint64_t first = fgt_sampling_phase(1000, now, period, delay);

		assert_true(first >= now);
		assert_true(first < now + period + delay + 1000);
		assert_int_equal((first - 1000) % period, delay);
	}
}

static uint64_t instant_after(struct fgt_sampler *sampler, uint64_t taken_ns)
{
	for (uint64_t i = 0; i < 400; i++)
		fgt_sampling_note_delay(sampler, taken_ns + i % 20 * 1000);
	return fgt_sampling_instant(sampler);
}

static void instants_follow_the_samples(void **state)
{
	const uint64_t fires = 9000000;
	struct fgt_sampler sampler = { .due_ns = 9100000, .lead_ns = 100000 };
	uint64_t instant;

	(void)state;
	assert_int_equal(fgt_sampling_instant(&sampler), fires);
	instant = instant_after(&sampler, fires + 40000);
	assert_in_range(instant, fires + 45000, fires + 55000);
	/* Of a tick that was missed. */
	assert_int_equal(instant_after(&sampler, 1000000), instant);
	assert_int_equal(instant_after(&sampler, fires - 50000), fires);
	/* The sampler looks then. */
	assert_int_equal(instant_after(&sampler, fires + 900000), 9100000);
}

/* Work that takes turns of about a period each, 42 % of it one thing. */
static void ticks_keep_no_step_with_work(void **state)
{
	const double turns[] = { 1, 0.5, 2, 1.0625, 0.97, 1.19, 0.25 };
	const uint64_t period_ns = 9900990;

	(void)state;
	for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		const uint64_t turn_ns =
			(uint64_t)(turns[i] * (double)period_ns);
		struct fgt_sampling_pace pace;
		uint64_t at_ns = 0, count = 0, seen = 0;

		fgt_sampling_pace_init(&pace, (uint32_t)i + 1, 2);
		while (count < 10 * 1010) {
			uint64_t distance_ns =
				fgt_sampling_pace_next(&pace, period_ns);

			assert_in_range(distance_ns, period_ns * 3 / 4,
					period_ns * 5 / 4);
			while (pace.ticks_left--) {
				at_ns += distance_ns;
				seen += at_ns % turn_ns * 100 < turn_ns * 42;
				count++;
			}
		}
		/* 101 a second, and each place of a turn as often. */
		assert_in_range(at_ns / count, period_ns * 997 / 1000,
				period_ns * 1003 / 1000);
		assert_in_range(seen * 1000 / count, 390, 450);
	}
}

#define ROUND_TICKS 800
#define ROUND_RUNS  100

/* How far half of each turn is from 50 % of some ticks: mean of the squares, in
 * squares of points. */
static double variance_of_half(uint64_t turn_ns)
{
	struct fgt_sampling_pace pace;
	uint64_t at_ns = 0;
	double sum = 0;

	fgt_sampling_pace_init(&pace, 1, 2);
	for (int run = 0; run < ROUND_RUNS; run++) {
		int seen = 0;
		double points;

		for (int count = 0; count < ROUND_TICKS;) {
			uint64_t distance_ns =
				fgt_sampling_pace_next(&pace, 9900990);

			for (; pace.ticks_left; pace.ticks_left--, count++) {
				at_ns += distance_ns;
				seen += at_ns % turn_ns < turn_ns / 2;
			}
		}
		points = seen * 100.0 / ROUND_TICKS - 50;
		sum += points * points;
	}
	return sum / ROUND_RUNS;
}

/* Work in step with a clock of ms is counted better than by ticks at random
 * places, which are off by 1.8 points of 800 ticks. */
static void ticks_keep_no_step_with_milliseconds(void **state)
{
	const uint64_t turns_ms[] = { 1, 2, 4, 5, 8, 10, 20, 50 };

	(void)state;
	for (size_t i = 0; i < sizeof(turns_ms) / sizeof(turns_ms[0]); i++)
		assert_true(variance_of_half(turns_ms[i] * 1000000) <
			    1.5 * 1.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_blocked_call_has_number_stack_and_code),
		cmocka_unit_test(outside_a_call_there_is_a_stack_too),
		cmocka_unit_test(running_thread_is_parsed_as_running),
		cmocka_unit_test(malformed_calls_are_refused),
		cmocka_unit_test(a_resumed_call_keeps_the_name_of_the_call),
		cmocka_unit_test(cpu_use_is_three_numbers),
		cmocka_unit_test(ticks_come_a_little_after_the_samples),
		cmocka_unit_test(instants_follow_the_samples),
		cmocka_unit_test(ticks_keep_no_step_with_work),
		cmocka_unit_test(ticks_keep_no_step_with_milliseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
