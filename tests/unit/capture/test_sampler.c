/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler on the threads of real processes: busy, blocked, short-lived.
 * Run by root, everything runs a second time as an ordinary user.
 */
#include "tests/unit/capture/live_target.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void busy_and_blocked_threads_have_different_states(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_ring_slice *slice;
	unsigned int truncated = 0;
	uint64_t from_ns;

	start_child(fixture, "mixed", -1);
	attach(fixture);
	sleep_ms(100);
	wait_for_stacks(fixture);
	from_ns = now_ns();
	sleep_ms(900);
	cut(fixture, from_ns);
	slice = fixture->slice;
	assert_int_equal(slice->thread_count, 5);
	/* Where other programs are busy, threads wait for a CPU besides. */
	assert_true(share(slice, "busy", "running") +
			    share(slice, "busy", "runnable") >
		    90);
	assert_true(share(slice, "asleep", "clock_nanosleep") +
			    share(slice, "asleep", "running") +
			    share(slice, "asleep", "runnable") >
		    99);
	assert_true(share(slice, "asleep", "clock_nanosleep") > 60);
	assert_true(share(slice, "waiting", "epoll_wait") == 100);
	assert_true(share(slice, "locked", "futex") == 100);
	assert_true(share(slice, "scenes", "pause") == 100);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		assert_int_not_equal(slice->runs[i].stack, FGT_NODE_NONE);
		truncated += is_truncated(slice, slice->runs[i].stack);
	}
	assert_true(truncated * 100 <= slice->run_count);
}

static unsigned int depth(const struct fgt_ring_slice *slice, uint32_t node)
{
	unsigned int frames = 0;

	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent)
		frames++;
	return frames;
}

static void what_a_handler_on_another_stack_interrupted_is_seen(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_ring_slice *slice;

	start_child(fixture, "handler", -1);
	attach(fixture);
	sleep_ms(300);
	cut(fixture, 0);
	slice = fixture->slice;
	assert_true(share(slice, "handler", "clock_nanosleep") > 90);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		assert_false(is_truncated(slice, slice->runs[i].stack));
		/* Thirteen frames from before the signal, and the handler's. */
		if (strcmp(fgt_slice_string(
				   slice,
				   slice->threads[slice->runs[i].thread].name),
			   "handler") == 0)
			assert_in_range(depth(slice, slice->runs[i].stack), 18,
					30);
	}
}

/* Fault U2. */
static void deep_stacks_younger_than_the_maps_are_whole(void **state)
{
	struct fixture *fixture = *state;
	unsigned int spun = 0, spun_cut = 0;
	struct fgt_ring_slice *slice;

	start_child(fixture, "deep", -1);
	attach(fixture);
	sleep_ms(1200);
	cut(fixture, now_ns() - 400000000u);
	slice = fixture->slice;
	assert_int_equal(slice->thread_count, 4);
	assert_true(share(slice, "handler", "clock_nanosleep") > 90);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		const char *name = fgt_slice_string(
			slice, slice->threads[run->thread].name);
		unsigned int least = strcmp(name, "handler") ? 120 : 18;

		/* Read while it runs: a sample that comes late is not. */
		if (!strcmp(name, "spin")) {
			spun += run->tick_count;
			if (is_truncated(slice, run->stack))
				spun_cut += run->tick_count;
			continue;
		}
		assert_false(is_truncated(slice, run->stack));
		assert_in_range(depth(slice, run->stack), least, least + 16);
	}
	assert_in_range(spun, 20, 60);
	assert_true(spun_cut * 2 < spun);
}

static void threads_that_never_used_a_cpu_are_seen(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;

	start_child(fixture, "pause", -1);
	attach(fixture);
	sleep_ms(300);
	cut(fixture, 0);
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, NULL, "pause") > 90);
	fgt_target_get_status(fixture->target, &status);
	assert_true(status.is_alive);
	assert_int_equal(status.threads, 1);
	/* Read once; then its run simply went on. */
	assert_in_range(status.samples_blocked, 1, 4);
}

/* Fault X12. */
static void short_lived_threads_leave_the_table(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;

	start_child(fixture, "churn", -1);
	attach(fixture);
	for (int i = 0; i < 20; i++) {
		sleep_ms(500);
		cut(fixture, 0);
		if (count_threads(fixture->slice, "mayfly") > 8)
			break;
	}
	fgt_target_get_status(fixture->target, &status);
	assert_in_range(status.threads, 1, 4);
	assert_true(count_threads(fixture->slice, "mayfly") > 8);
	assert_true(share(fixture->slice, "mayfly", "running") > 20);
}

static void the_first_thread_may_end_before_the_others(void **state)
{
	struct fixture *fixture = *state;
	uint64_t from_ns;

	start_child(fixture, "orphan", -1);
	attach(fixture);
	from_ns = now_ns() + 50000000u;
	sleep_ms(400);
	cut(fixture, from_ns);
	assert_true(fgt_target_is_alive(fixture->target));
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, "survivor", "clock_nanosleep") > 60);
}

static int counters_fd;
static unsigned int *failures; /* shared with the child */

static void blocking_calls_last_as_long_as_asked(void **state)
{
	struct fixture *fixture = *state;

	__atomic_store_n(failures, 0, __ATOMIC_RELAXED);
	__atomic_store_n(failures + 1, 0, __ATOMIC_RELAXED);
	start_child(fixture, "measure", counters_fd);
	attach(fixture);
	sleep_ms(1100);
	assert_int_equal(__atomic_load_n(failures, __ATOMIC_RELAXED), 0);
	assert_true(__atomic_load_n(failures + 1, __ATOMIC_RELAXED) > 20);
}

static int run_group(const char *user)
{
	const struct CMUnitTest tests[] = {
		LIVE(busy_and_blocked_threads_have_different_states),
		LIVE(what_a_handler_on_another_stack_interrupted_is_seen),
		LIVE(deep_stacks_younger_than_the_maps_are_whole),
		LIVE(threads_that_never_used_a_cpu_are_seen),
		LIVE(short_lived_threads_leave_the_table),
		LIVE(the_first_thread_may_end_before_the_others),
		LIVE(blocking_calls_last_as_long_as_asked),
	};

	print_message("threads, %s\n", user);
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}

int main(void)
{
	counters_fd = memfd_create("counters", MFD_CLOEXEC);
	if (counters_fd < 0 || ftruncate(counters_fd, 4096) < 0)
		return 1;
	failures = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			counters_fd, 0);
	if (failures == MAP_FAILED)
		return 1;
	return run_twice(run_group);
}
