/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of agent/capture/priority: real-time only while that costs little. */
#include "agent/capture/budget/priority.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

struct life {
	struct fgt_priority priority;
	uint64_t now_ns, cpu_ns;
	unsigned int changes;
};

static struct life new_life(void)
{
	return (struct life){
		.priority = { .may_be_first = true, .is_first = true },
	};
}

/* So many ticks of 10 ms that take so much each. */
static void live(struct life *life, unsigned int ticks, uint64_t each_ns)
{
	while (ticks--) {
		life->now_ns += 10 * MS;
		life->cpu_ns += each_ns;
		life->changes += fgt_priority_judge(&life->priority,
						    life->now_ns, life->cpu_ns);
	}
}

static void a_sampler_that_takes_little_stays_first(void **state)
{
	struct life life = new_life();

	(void)state;
	live(&life, 1000, 2 * MS);
	assert_true(life.priority.is_first);
	/* One long tick, as of an attach. */
	live(&life, 1, 90 * MS);
	live(&life, 100, MS / 10);
	assert_true(life.priority.is_first);
	assert_int_equal(life.changes, 0);
}

static void
a_sampler_that_takes_much_makes_room_until_it_takes_little(void **state)
{
	struct life life = new_life();

	(void)state;
	live(&life, 50, 3 * MS);
	assert_false(life.priority.is_first);
	assert_int_equal(life.changes, 1);
	/* Less than would have cost it its place, but not little. */
	live(&life, 1000, 2 * MS);
	assert_false(life.priority.is_first);
	live(&life, 50, MS / 2);
	assert_true(life.priority.is_first);
	assert_int_equal(life.changes, 2);
}

static void a_tick_that_takes_longer_than_it_may_counts_whole(void **state)
{
	struct life life = new_life();

	(void)state;
	life.now_ns = 600 * MS;
	life.cpu_ns = 2000 * MS;
	assert_true(
		fgt_priority_judge(&life.priority, life.now_ns, life.cpu_ns));
	assert_false(life.priority.is_first);
}

static void *change_class(void *context)
{
	int *classes = context;
	struct fgt_priority priority;

	fgt_priority_begin(&priority, true, 0, 0);
	classes[0] = sched_getscheduler(0);
	fgt_priority_review(&priority, 1000 * MS, 900 * MS);
	classes[1] = sched_getscheduler(0);
	fgt_priority_review(&priority, 2000 * MS, 901 * MS);
	classes[2] = sched_getscheduler(0);
	return NULL;
}

static void the_class_of_the_thread_follows(void **state)
{
	int classes[3] = { -1, -1, -1 };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, change_class, classes),
			 0);
	pthread_join(thread, NULL);
	assert_int_equal(classes[1] & ~SCHED_RESET_ON_FORK, SCHED_OTHER);
	assert_int_equal(classes[2], classes[0]);
	/* Not permitted: then it never was. */
	if ((classes[0] & ~SCHED_RESET_ON_FORK) == SCHED_OTHER)
		skip();
	assert_int_equal(classes[0], SCHED_FIFO | SCHED_RESET_ON_FORK);
}

/* What sched_getattr(2) shows: size, policy, flags, nice, priority, and the
 * slice in bytes 24 to 31. */
static uint64_t slice_of_this_thread(uint32_t head[6])
{
	uint64_t words[6] = { 0 };

	assert_int_equal(syscall(SYS_sched_getattr, 0, words, sizeof(words), 0),
			 0);
	memcpy(head, words, 24);
	return words[3];
}

static void *shorten(void *argument)
{
	uint32_t before[6], after[6];
	uint64_t *slice_ns = argument;

	slice_ns[0] = slice_of_this_thread(before);
	fgt_priority_shorten_slice();
	slice_ns[1] = slice_of_this_thread(after);
	/* Policy, flags, nice value, priority. */
	assert_memory_equal(before, after, sizeof(before));
	return NULL;
}

static void slices_are_as_short_as_possible(void **state)
{
	uint64_t slice_ns[2];
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, shorten, slice_ns), 0);
	pthread_join(thread, NULL);
	if (slice_ns[0] == 0)
		skip(); /* before Linux 6.12 */
	assert_int_equal(slice_ns[1], 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sampler_that_takes_little_stays_first),
		cmocka_unit_test(
			a_sampler_that_takes_much_makes_room_until_it_takes_little),
		cmocka_unit_test(
			a_tick_that_takes_longer_than_it_may_counts_whole),
		cmocka_unit_test(the_class_of_the_thread_follows),
		cmocka_unit_test(slices_are_as_short_as_possible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
