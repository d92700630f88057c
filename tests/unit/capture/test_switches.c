/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context switches as the kernel reports them, of threads of this very program.
 * Skipped where BPF is not permitted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/who_ran/switches.h"

#define PASSES 4000

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(unsigned int ms)
{
	struct timespec duration = { .tv_nsec = (long)ms * 1000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
}

/* ---- What the kernel reports ------------------------------------------ */

struct sleeper {
	pthread_t thread;
	int pipe[2];
	atomic_int tid;
};

static void *sleep_in_read(void *context)
{
	struct sleeper *sleeper = context;
	char byte;

	atomic_store(&sleeper->tid, (int)syscall(SYS_gettid));
	while (read(sleeper->pipe[0], &byte, 1) == 1 && byte != 'q')
		;
	return NULL;
}

static void start(struct sleeper *sleeper)
{
	atomic_init(&sleeper->tid, 0);
	assert_int_equal(pipe(sleeper->pipe), 0);
	assert_int_equal(
		pthread_create(&sleeper->thread, NULL, sleep_in_read, sleeper),
		0);
	while (!atomic_load(&sleeper->tid))
		sleep_ms(1);
	sleep_ms(5);
}

static void poke(struct sleeper *sleeper, char byte)
{
	assert_int_equal(write(sleeper->pipe[1], &byte, 1), 1);
	sleep_ms(5);
}

static void finish(struct sleeper *sleeper)
{
	poke(sleeper, 'q');
	pthread_join(sleeper->thread, NULL);
	close(sleeper->pipe[0]);
	close(sleeper->pipe[1]);
}

static int open_switches(void **state)
{
	const struct fgt_switch_provider *provider = FGT_SWITCHES_BUILT_IN;
	struct fgt_switches *switches = NULL;
	struct fgt_why why = { "built without" };

	if (provider && provider->open(&switches, &why) == 0) {
		switches->provider->watch(switches, getpid());
		assert_int_equal(switches->provider->start(switches), 0);
	} else {
		assert_true(why.text[0] != '\0');
		print_message("no BPF here: %s\n", why.text);
	}
	*state = switches;
	return 0;
}

static int close_switches(void **state)
{
	struct fgt_switches *switches = *state;

	if (switches)
		switches->provider->close(switches);
	return 0;
}

static unsigned int changes;
static void *changed_owner;

static void count_change(void *home, void *owner)
{
	assert_ptr_equal(home, &changes);
	changed_owner = owner;
	changes++;
}

static uint32_t start_watched(struct fgt_switches *switches,
			      struct sleeper *sleeper)
{
	uint32_t index = FGT_SWITCHES_NO_INDEX;

	start(sleeper);
	assert_int_equal(switches->provider->add(switches, getpid(),
						 sleeper->tid, &changes,
						 sleeper, &index),
			 0);
	return index;
}

static void a_switch_shows_where_the_thread_stood(void **state)
{
	struct fgt_switches *switches = *state;
	struct fgt_switch_slot slot;
	struct sleeper sleeper;
	uint64_t before_ns;
	uint32_t index;

	if (!switches)
		skip();
	index = start_watched(switches, &sleeper);
	assert_true(fgt_switches_read(switches, index, &slot));
	assert_int_equal(slot.version, 0);
	changes = 0;
	fgt_switches_take(switches, count_change);
	assert_int_equal(changes, 0);
	before_ns = now_ns();
	poke(&sleeper, 'x');
	assert_true(fgt_switches_read(switches, index, &slot));
	assert_int_equal(slot.version, fgt_switches_version(switches, index));
	assert_true(slot.version >= 4 && slot.version % 2 == 0);
	assert_false(slot.is_on);
	assert_true(before_ns <= slot.on_ns && slot.on_ns <= slot.off.ns &&
		    slot.off.ns <= now_ns());
	assert_int_equal(slot.off.call, SYS_read);
	assert_int_equal(slot.off.task_state & 1, 1); /* interruptible */
	assert_true(slot.off.sp && slot.off.pc);
	fgt_switches_take(switches, count_change);
	assert_int_equal(changes, 1);
	assert_ptr_equal(changed_owner, &sleeper);
	fgt_switches_take(switches, count_change);
	assert_int_equal(changes, 1);
	finish(&sleeper);
	assert_true(fgt_switches_read(switches, index, &slot));
	assert_int_equal(slot.off.task_state & 0x80, 0x80); /* it ended */
	switches->provider->remove(switches, index);
}

static void where_a_thread_was_at_the_instant_stays(void **state)
{
	struct fgt_switches *switches = *state;
	struct fgt_switch_slot slot, then;
	struct sleeper sleeper;
	uint32_t index;

	if (!switches)
		skip();
	index = start_watched(switches, &sleeper);
	fgt_switches_set_instant(switches, now_ns() + 1000000000u);
	poke(&sleeper, 'x');
	assert_true(fgt_switches_read(switches, index, &then));
	fgt_switches_set_instant(switches, now_ns());
	for (int i = 0; i < 3; i++)
		poke(&sleeper, 'x');
	assert_true(fgt_switches_read(switches, index, &slot));
	assert_true(slot.off.ns > then.off.ns);
	assert_memory_equal(&slot.before, &then.off,
			    offsetof(struct fgt_switch_off, woken_us));
	/* It was woken later than it left, and got a CPU later than that. */
	assert_int_equal(then.off.woken_us, 0);
	assert_int_not_equal(slot.before.woken_us, 0);
	assert_false(slot.was_on);
	finish(&sleeper);
	switches->provider->remove(switches, index);
}

/* This thread is on a CPU whenever it looks at the clock. */
static void a_thread_on_a_cpu_at_the_instant_is_marked(void **state)
{
	struct fgt_switches *switches = *state;
	struct fgt_switch_slot slot;
	uint32_t index;

	if (!switches)
		skip();
	assert_int_equal(switches->provider->add(switches, getpid(), gettid(),
						 &changes, NULL, &index),
			 0);
	sleep_ms(1);
	fgt_switches_set_instant(switches, now_ns());
	for (int i = 0; i < 3; i++)
		sleep_ms(1);
	assert_true(fgt_switches_read(switches, index, &slot));
	assert_true(slot.was_on);
	switches->provider->remove(switches, index);
}

static void a_removed_thread_shows_nothing(void **state)
{
	struct fgt_switches *switches = *state;
	struct sleeper sleeper;
	uint32_t index;

	if (!switches)
		skip();
	index = start_watched(switches, &sleeper);
	switches->provider->remove(switches, index);
	poke(&sleeper, 'x');
	changes = 0;
	fgt_switches_take(switches, count_change);
	assert_int_equal(changes, 0);
	assert_int_equal(fgt_switches_version(switches, index), 0);
	finish(&sleeper);
}

struct waiter {
	pid_t child;
	atomic_int tid;
	atomic_uint rounds;
	atomic_bool shall_stop;
};

static struct fgt_switch_sleeper found;
static unsigned int found_count;

static void note_sleeper(void *context,
			 const struct fgt_switch_sleeper *sleeper)
{
	const int *tid = context;

	if ((int)sleeper->tid != *tid)
		return;
	found = *sleeper;
	found_count++;
}

static void what_sleeps_already_is_handed_over(void **state)
{
	struct fgt_switches *switches = *state;
	struct sleeper sleeper;
	int tid, rc;

	if (!switches)
		skip();
	start(&sleeper);
	tid = atomic_load(&sleeper.tid);
	found_count = 0;
	rc = switches->provider->hand_over(switches, getpid(), note_sleeper,
					   &tid);
	finish(&sleeper);
	if (rc == -EOPNOTSUPP)
		skip();
	assert_int_equal(rc, 0);
	assert_int_equal(found_count, 1);
	assert_int_equal(found.off.call, SYS_read);
	assert_true(found.off.sp && found.off.pc && found.off.task_state);
}

/* waitpid() takes the state of a sleeper before it looks at the children. */
static void *wait_for_ever(void *context)
{
	struct waiter *waiter = context;

	atomic_store(&waiter->tid, (int)syscall(SYS_gettid));
	while (!atomic_load(&waiter->shall_stop)) {
		waitpid(waiter->child, NULL, WNOHANG);
		atomic_fetch_add(&waiter->rounds, 1);
	}
	return NULL;
}

static int count_moving(struct fgt_switches *switches, struct waiter *waiter,
			unsigned int *ret_moving)
{
	int tid = atomic_load(&waiter->tid), rc = 0;
	unsigned int moving = 0;

	for (int i = 0; i < PASSES && rc == 0; i++) {
		unsigned int before = atomic_load(&waiter->rounds);

		found_count = 0;
		rc = switches->provider->hand_over(switches, getpid(),
						   note_sleeper, &tid);
		/* One that was put aside in that state stands still. */
		moving += found_count && atomic_load(&waiter->rounds) != before;
	}
	*ret_moving = moving;
	return rc;
}

static void a_thread_on_a_cpu_is_not_handed_over(void **state)
{
	struct fgt_switches *switches = *state;
	struct waiter waiter = { .child = 0 };
	unsigned int moving;
	pthread_t thread;
	int rc;

	if (!switches)
		skip();
	waiter.child = fork();
	if (waiter.child == 0) {
		pause();
		_exit(0);
	}
	assert_true(waiter.child > 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &waiter),
			 0);
	while (!atomic_load(&waiter.tid))
		sleep_ms(1);
	rc = count_moving(switches, &waiter, &moving);
	atomic_store(&waiter.shall_stop, true);
	pthread_join(thread, NULL);
	kill(waiter.child, SIGKILL);
	waitpid(waiter.child, NULL, 0);
	if (rc == -EOPNOTSUPP)
		skip();
	/* It may be put aside, or get its CPU back, during the look. */
	assert_in_range(moving, 0, PASSES / 200);
}

static void threads_that_share_a_guess_are_all_reported(void **state)
{
	struct fgt_switches *switches = *state;
	uint32_t index, other;
	struct sleeper sleeper;
	uint64_t version;

	if (!switches)
		skip();
	index = start_watched(switches, &sleeper);
	assert_int_equal(switches->provider->add(
				 switches, getpid(),
				 sleeper.tid + (int32_t)FGT_SWITCH_GUESSES,
				 &changes, &changes, &other),
			 0);
	version = fgt_switches_version(switches, index);
	poke(&sleeper, 'x');
	assert_true(fgt_switches_version(switches, index) > version);
	assert_int_equal(fgt_switches_version(switches, other), 0);
	switches->provider->remove(switches, other);
	switches->provider->remove(switches, index);
	finish(&sleeper);
}

static void slots_end_and_come_back(void **state)
{
	struct fgt_switches *switches = *state;
	uint32_t *indices, count = 0;
	int rc = 0;

	if (!switches)
		skip();
	indices = calloc(FGT_SWITCH_SLOTS_MAX, sizeof(*indices));
	assert_non_null(indices);
	/* Numbers that no thread of this process has: nothing is written. */
	while (count < FGT_SWITCH_SLOTS_MAX && rc == 0) {
		rc = switches->provider->add(
			switches, getpid(), (int32_t)(5000000 + count),
			&changes, &changes, &indices[count]);
		count += rc == 0;
	}
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(count, FGT_SWITCH_SLOTS_MAX - 1);
	for (uint32_t i = 0; i < count; i++)
		switches->provider->remove(switches, indices[i]);
	assert_int_equal(switches->provider->add(switches, getpid(), 5000000,
						 &changes, &changes,
						 &indices[0]),
			 0);
	switches->provider->remove(switches, indices[0]);
	free(indices);
}

#define BRIEF_THREADS 10u
#define BRIEF_NS      2000000u

static void *burn(void *context)
{
	uint64_t end_ns = now_ns() + BRIEF_NS;

	while (now_ns() < end_ns)
		;
	return context;
}

static void threads_that_end_before_they_are_added_are_counted(void **state)
{
	struct fgt_switches *switches = *state;
	struct fgt_switch_brief brief = { 0 };
	struct sleeper sleeper;
	pthread_t thread;

	if (!switches)
		skip();
	/* One that was added is not. */
	start_watched(switches, &sleeper);
	finish(&sleeper);
	for (unsigned int i = 0; i < BRIEF_THREADS; i++) {
		assert_int_equal(pthread_create(&thread, NULL, burn, NULL), 0);
		pthread_join(thread, NULL);
	}
	/* The last one may not have left its CPU yet. */
	for (int i = 0; i < 200 && brief.threads < BRIEF_THREADS; i++) {
		sleep_ms(5);
		assert_true(switches->provider->read_brief(switches, getpid(),
							   &brief));
	}
	assert_int_equal(brief.threads, BRIEF_THREADS);
	/* They may have waited for a CPU. */
	assert_true(brief.cpu_ns > BRIEF_THREADS * BRIEF_NS / 10);
	assert_true(brief.cpu_ns < BRIEF_THREADS * BRIEF_NS * 10);
	switches->provider->unwatch(switches, getpid());
	assert_false(
		switches->provider->read_brief(switches, getpid(), &brief));
	switches->provider->watch(switches, getpid());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			threads_that_end_before_they_are_added_are_counted,
			open_switches, close_switches),
		cmocka_unit_test_setup_teardown(
			a_switch_shows_where_the_thread_stood, open_switches,
			close_switches),
		cmocka_unit_test_setup_teardown(
			where_a_thread_was_at_the_instant_stays, open_switches,
			close_switches),
		cmocka_unit_test_setup_teardown(
			a_thread_on_a_cpu_at_the_instant_is_marked,
			open_switches, close_switches),
		cmocka_unit_test_setup_teardown(a_removed_thread_shows_nothing,
						open_switches, close_switches),
		cmocka_unit_test_setup_teardown(
			what_sleeps_already_is_handed_over, open_switches,
			close_switches),
		cmocka_unit_test_setup_teardown(
			a_thread_on_a_cpu_is_not_handed_over, open_switches,
			close_switches),
		cmocka_unit_test_setup_teardown(
			threads_that_share_a_guess_are_all_reported,
			open_switches, close_switches),
		cmocka_unit_test_setup_teardown(slots_end_and_come_back,
						open_switches, close_switches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
