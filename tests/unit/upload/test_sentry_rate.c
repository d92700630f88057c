/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a large Sentry profile that have a sample a tick.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/upload/sentry_kit.h"

/* Two stacks in turn, and a tick of the second one in the middle. */
static void add_changing_thread(struct fgt_ring_slice *slice, uint32_t thread,
				uint32_t state)
{
	uint32_t a = fixture_stack(slice, "main;a");
	uint32_t b = fixture_stack(slice, "main;b");

	fixture_thread(slice, (int32_t)(4242 + thread), "worker");
	fixture_run(slice, thread, 0, 1000, a, state);
	fixture_run(slice, thread, 1000, 1, b, state);
	fixture_run(slice, thread, 1001, 1999, a, state);
}

/* 100 idle threads for 30 s are 22 MB of samples: too many for old Relays. */
static void large_profiles_have_idle_threads_at_changes_only(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3000);
	uint32_t a = fixture_stack(slice, "main;a");
	struct fixture_buffer buffer;
	char samples[2048];

	(void)state;
	add_changing_thread(slice, 0, FGT_STATE_RUNNING);
	for (uint32_t t = 1; t < 99; t++) {
		fixture_thread(slice, (int32_t)(4242 + t), "idle");
		fixture_run(slice, t, 0, 3000, a, FIXTURE_EPOLL);
	}
	add_changing_thread(slice, 99, FIXTURE_EPOLL);
	buffer = sentry_write(slice, NULL);
	assert_true(buffer.len < 1u << 20);
	assert_non_null(strstr(buffer.bytes, "\"thinned_threads\":98,"));
	assert_non_null(strstr(buffer.bytes, "\"thinned\":"));
	assert_int_equal(sentry_count_samples(buffer.bytes, 4242), 3000);
	assert_int_equal(sentry_count_samples(buffer.bytes, 4341), 3000);
	sentry_samples(buffer.bytes, 4300, samples, sizeof(samples));
	assert_string_equal(samples, "2@0 2@29990");
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void profile_of_busy_threads_has_the_busiest_at_each_tick(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3000);
	struct fixture_buffer buffer;
	unsigned int whole = 0;
	char samples[2048];

	(void)state;
	/* The main thread blocks, of the other threads the later half runs. */
	for (uint32_t t = 0; t < 100; t++)
		add_changing_thread(slice, t,
				    t < 50 ? FIXTURE_EPOLL : FGT_STATE_RUNNING);
	buffer = sentry_write(slice, NULL);
	assert_true(buffer.len < 10u << 20);
	assert_int_equal(sentry_count_samples(buffer.bytes, 4242), 3000);
	for (int t = 50; t < 100; t++) {
		unsigned int count =
			sentry_count_samples(buffer.bytes, 4242 + t);

		assert_true(count == 3000 || count == 4);
		whole += count == 3000;
	}
	assert_in_range(whole, 40, 49);
	sentry_samples(buffer.bytes, 4243, samples, sizeof(samples));
	assert_string_equal(samples, "0@0 1@10000 0@10010 0@29990");
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* A gap ends the sample before it, also where a thread has few samples. */
static void thinned_threads_keep_their_gaps(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3000);
	uint32_t a = fixture_stack(slice, "main;a");
	struct fixture_buffer buffer;
	char samples[2048];

	(void)state;
	for (uint32_t i = 2000; i < 3000; i++) /* the sampler stood still */
		slice->tick_ns[i] += 7 * FIXTURE_PERIOD_NS;
	for (uint32_t t = 0; t < 100; t++) {
		fixture_thread(slice, (int32_t)(4242 + t), "idle");
		fixture_run(slice, t, t, 2990 - t, a, FIXTURE_EPOLL);
	}
	buffer = sentry_write(slice, NULL);
	sentry_samples(buffer.bytes, 4300, samples, sizeof(samples));
	assert_string_equal(samples, "0@580 1@20000 0@20070 0@29960");
	fixture_buffer_done(&buffer);
	/* Time without samples: one run ends, the next begins later. */
	slice->run_count = 0;
	for (uint32_t t = 0; t < 100; t++) {
		uint32_t stay = t == 58 ? 500 : 2990;

		fixture_run(slice, t, 0, stay, a, FIXTURE_EPOLL);
		if (t == 58)
			fixture_run(slice, t, 600, 2390, a, FIXTURE_EPOLL);
	}
	buffer = sentry_write(slice, NULL);
	assert_int_equal(sentry_count_samples(buffer.bytes, 4300), 2890 + 2);
	sentry_samples(buffer.bytes, 4299, samples, sizeof(samples));
	assert_string_equal(samples, "0@0 1@20000 0@20070 0@29960");
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			large_profiles_have_idle_threads_at_changes_only),
		cmocka_unit_test(
			profile_of_busy_threads_has_the_busiest_at_each_tick),
		cmocka_unit_test(thinned_threads_keep_their_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
