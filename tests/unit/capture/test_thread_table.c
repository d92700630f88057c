/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a target's threads, that of this very program.
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "agent/capture/look/look.h"
#include "agent/capture/threads/thread_table.h"

#define NO_SUCH_TID INT32_MAX
#define MANY	    1000
#define SECOND_NS   UINT64_C(1000000000)

/* Compares the name that a slice of the ring has. */
static void assert_name(struct fgt_ring *ring, uint32_t slot, const char *name)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	static uint64_t now_ns;

	for (int i = 0; i < 2; i++)
		kit_tick(ring, now_ns += 1000000000u);
	slice = kit_cut(ring, 0, UINT64_MAX);
	assert_string_equal(fgt_slice_string(slice, slice->threads[slot].name),
			    name);
}

static void
a_thread_that_is_gone_already_has_the_name_of_its_process(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	int task_fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
	struct fgt_fd_budget budget = { .limit = 0 };
	struct fgt_thread *gone, *alive;
	struct fgt_thread_table threads;
	char name[64] = "before";

	(void)state;
	assert_int_equal(
		fgt_thread_table_init(&threads, task_fd, name, &budget, ring),
		0);
	alive = fgt_thread_table_add(&threads, getpid());
	assert_name(ring, alive->slot, "test_thread_tab");
	strcpy(name, "after-an-exec-a-longer-one");
	gone = fgt_thread_table_add(&threads, NO_SUCH_TID);
	assert_name(ring, gone->slot, "after-an-exec-a");
	assert_int_equal(gone->start_time, 0);
	fgt_thread_table_scan(&threads, false, 0);
	assert_true(gone->is_ended);
	assert_false(alive->is_ended);
	fgt_thread_table_done(&threads);
	close(task_fd);
}

static void assert_active_are_theirs(const struct fgt_thread_table *threads)
{
	for (uint32_t i = 0; i < threads->active_count; i++)
		assert_ptr_equal(threads->active[i].thread->active,
				 &threads->active[i]);
}

/* More than the table begins with, so that it moves. */
static void what_is_known_of_active_threads_moves_with_them(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	int task_fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
	struct fgt_thread *added[MANY];
	struct fgt_fd_budget budget = { .limit = 0 };
	struct fgt_thread_table threads;

	(void)state;
	assert_int_equal(
		fgt_thread_table_init(&threads, task_fd, "x", &budget, ring),
		0);
	for (int32_t i = 0; i < MANY; i++) {
		added[i] = fgt_thread_table_add(&threads, NO_SUCH_TID - i);
		assert_non_null(added[i]);
		added[i]->needs_look = false;
		added[i]->active->source_retry_ns = (uint64_t)i;
	}
	assert_int_equal(threads.active_count, MANY);
	assert_active_are_theirs(&threads);
	for (int i = 0; i < MANY; i += 3)
		fgt_thread_table_deactivate(&threads, added[i]);
	assert_active_are_theirs(&threads);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(added[i]->active == NULL, i % 3 == 0);
		if (added[i]->active)
			assert_int_equal(added[i]->active->source_retry_ns, i);
	}
	/* Two seconds later no thread is active, and all can be again. */
	fgt_thread_table_retire(&threads, 2 * SECOND_NS, SECOND_NS / 101);
	assert_int_equal(threads.active_count, 0);
	fgt_thread_table_look_at_all(&threads, 3 * SECOND_NS);
	assert_int_equal(threads.active_count, MANY);
	assert_active_are_theirs(&threads);
	assert_int_equal(added[1]->active->source_retry_ns, 0);
	fgt_thread_table_done(&threads);
	close(task_fd);
}

static bool begin_look(void *context, struct fgt_thread *thread)
{
	return fgt_look_thread_begin(context, thread);
}

static void end_look(void *context, struct fgt_thread *thread)
{
	fgt_look_thread_end(context, thread);
}

static void let_look_remember(struct fgt_thread_table *threads)
{
	threads->on_active = begin_look;
	threads->on_idle = end_look;
	threads->context = threads;
}

/* A thread that works a little every few seconds has it shown in the end. */
static void an_account_outlives_idle_times(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	int task_fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
	struct fgt_cpu_use use = { .runtime_ns = 5000000, .switches = 1 };
	struct fgt_fd_budget budget = { .limit = 0 };
	struct fgt_thread_table threads;
	struct fgt_thread *thread;

	(void)state;
	assert_int_equal(
		fgt_thread_table_init(&threads, task_fd, "x", &budget, ring),
		0);
	let_look_remember(&threads);
	thread = fgt_thread_table_add(&threads, NO_SUCH_TID);
	/* The thread becomes one whose schedstat is read. */
	fgt_thread_store_aside(&threads.table, thread);
	for (int i = 1; i <= 4; i++) {
		use.runtime_ns = use.wait_ns = (uint64_t)i * 5000000u;
		use.switches++;
		assert_true(fgt_thread_table_take_use(&threads, thread, &use));
		assert_non_null(thread->active);
		fgt_account_add(&thread->active->look->account,
				&thread->active->use);
		assert_int_equal(thread->active->look->account.due_ns,
				 i * 5000000);
		assert_int_equal(thread->active->look->account.wait_due_ns,
				 i * 5000000);
		assert_false(fgt_thread_table_take_use(&threads, thread, &use));
		fgt_thread_table_deactivate(&threads, thread);
		assert_false(fgt_thread_table_take_use(&threads, thread, &use));
		assert_null(thread->active);
	}
	assert_int_equal(threads.known_runtime_ns, use.runtime_ns);
	fgt_thread_table_done(&threads);
	close(task_fd);
}

/* What the ring gets, and what the sampler holds, stays with the same
 * thread. */
static void new_thread_has_no_past_as_others_come_and_go(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	int task_fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
	struct fgt_cpu_use use = { .runtime_ns = 7, .switches = 1 };
	struct fgt_fd_budget budget = { .limit = 0 };
	struct fgt_thread_table threads;
	struct fgt_thread *thread, *stays;

	(void)state;
	assert_int_equal(
		fgt_thread_table_init(&threads, task_fd, "x", &budget, ring),
		0);
	stays = fgt_thread_table_add(&threads, NO_SUCH_TID);
	fgt_thread_table_take_use(&threads, stays, &use);
	for (int32_t i = 1; i < 10 * MANY; i++) {
		thread = fgt_thread_table_add(&threads, NO_SUCH_TID - i);
		assert_non_null(thread);
		assert_true(thread->is_new && !thread->has_aside);
		assert_int_equal(thread->active->use.runtime_ns, 0);
		assert_int_equal(
			fgt_thread_table_use(&threads, thread).switches, 0);
		assert_true(fgt_thread_table_take_use(&threads, thread, &use));
		assert_true(thread->has_switched);
		if (i % 2)
			fgt_thread_store_aside(&threads.table, thread);
		if (i % 3)
			fgt_thread_table_deactivate(&threads, thread);
		assert_int_equal(
			fgt_thread_table_use(&threads, thread).runtime_ns, 7);
		/* Up to MANY at once. */
		fgt_thread_table_end(&threads, thread);
		if (i % MANY == 0)
			fgt_thread_table_reap(&threads);
	}
	fgt_thread_table_reap(&threads);
	assert_int_equal(threads.table.count, 1);
	assert_int_equal(threads.active_count, 1);
	assert_int_equal(threads.known_runtime_ns, 7);
	assert_ptr_equal(fgt_thread_table_find(&threads, NO_SUCH_TID), stays);
	assert_int_equal(stays->active->use.runtime_ns, 7);
	assert_active_are_theirs(&threads);
	fgt_thread_table_done(&threads);
	close(task_fd);
}

/* Idle ones keep what later looks are compared with. */
static void the_use_of_an_idle_thread_is_known(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	int task_fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
	struct fgt_cpu_use use = { 1000, 20, 3 }, found;
	struct fgt_fd_budget budget = { .limit = 0 };
	struct fgt_thread_table threads;
	struct fgt_thread *thread;

	(void)state;
	assert_int_equal(
		fgt_thread_table_init(&threads, task_fd, "x", &budget, ring),
		0);
	let_look_remember(&threads);
	thread = fgt_thread_table_add(&threads, NO_SUCH_TID);
	fgt_thread_store_aside(&threads.table, thread);
	assert_true(fgt_thread_table_take_use(&threads, thread, &use));
	thread->has_switched = false;
	fgt_thread_table_deactivate(&threads, thread);
	found = fgt_thread_table_use(&threads, thread);
	assert_memory_equal(&found, &use, sizeof(use));
	/* To wait is not to run; but it is noted. */
	use.wait_ns = 30;
	assert_false(fgt_thread_table_take_use(&threads, thread, &use));
	assert_null(thread->active);
	assert_false(thread->has_switched);
	assert_int_equal(fgt_thread_table_use(&threads, thread).wait_ns, 30);
	/* Put on a CPU for no time at all. */
	use.switches++;
	assert_true(fgt_thread_table_take_use(&threads, thread, &use));
	assert_true(thread->has_switched);
	assert_int_equal(thread->active->look->account.seen.switches, 3);
	assert_int_equal(thread->active->use.switches, 4);
	assert_int_equal(thread->active->look->sampled_wait_ns, 30);
	assert_int_equal(threads.known_runtime_ns, 1000);
	fgt_thread_table_done(&threads);
	close(task_fd);
}

static void *wait_for_end(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

static void a_thread_that_comes_or_goes_makes_the_next_scan_due(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	int task_fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct fgt_fd_budget budget = { .limit = 0 };
	struct fgt_thread_table threads;
	pthread_t thread;

	(void)state;
	assert_int_equal(
		fgt_thread_table_init(&threads, task_fd, "x", &budget, ring),
		0);
	assert_true(fgt_thread_table_has_other_count(&threads));
	assert_true(fgt_thread_table_scan(&threads, false, 7));
	assert_int_equal(threads.table.count, 1);
	assert_false(fgt_thread_table_has_other_count(&threads));
	assert_true(fgt_thread_table_scan(&threads, false, 8));
	assert_false(fgt_thread_table_scan(&threads, false, 8));
	pthread_mutex_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &lock), 0);
	assert_true(fgt_thread_table_has_other_count(&threads));
	assert_true(fgt_thread_table_scan(&threads, false, 8));
	assert_int_equal(threads.table.count, 2);
	assert_false(fgt_thread_table_has_other_count(&threads));
	pthread_mutex_unlock(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (int i = 0; i < 1000 && !fgt_thread_table_has_other_count(&threads);
	     i++)
		usleep(1000); /* it ends a little after it is joined */
	assert_true(fgt_thread_table_has_other_count(&threads));
	/* With many threads the last pid alone is no reason each time. */
	assert_true(fgt_thread_table_scan(&threads, false, 8));
	threads.table.count = 1000;
	assert_false(fgt_thread_table_scan(&threads, false, 9));
	/* What was put off stays so. */
	assert_true(threads.is_scan_owed);
	assert_false(fgt_thread_table_has_other_count(&threads));
	threads.table.count = 2;
	fgt_thread_table_done(&threads);
	close(task_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_is_known_of_active_threads_moves_with_them),
		cmocka_unit_test(an_account_outlives_idle_times),
		cmocka_unit_test(new_thread_has_no_past_as_others_come_and_go),
		cmocka_unit_test(the_use_of_an_idle_thread_is_known),
		cmocka_unit_test(
			a_thread_that_is_gone_already_has_the_name_of_its_process),
		cmocka_unit_test(
			a_thread_that_comes_or_goes_makes_the_next_scan_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
