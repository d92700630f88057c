/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heartbeats, and threads that are given up inside a call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/heartbeat.h"

static void thread_without_a_heartbeat_has_none(void **state)
{
	(void)state;
	assert_null(fgt_heartbeat_of_caller());
	assert_null(fgt_call_enter(FGT_STEP_MEMORY));
	fgt_call_leave(NULL, -1);
	fgt_heartbeat_set(NULL, FGT_STEP_WORK, 1);
}

static void each_step_has_another_beat(void **state)
{
	struct fgt_heartbeat *heartbeat = fgt_heartbeat_begin("test", NULL);
	uint64_t before, call;

	(void)state;
	assert_ptr_equal(heartbeat, fgt_heartbeat_of_caller());
	assert_ptr_equal(heartbeat, fgt_heartbeat_at(0));
	fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, 77);
	before = heartbeat->beat;
	assert_int_equal(fgt_beat_step(before), FGT_STEP_WORK);
	assert_int_equal(fgt_beat_pid(before), 77);
	assert_ptr_equal(fgt_call_enter(FGT_STEP_PROCFS), heartbeat);
	call = heartbeat->beat;
	assert_true(fgt_beat_is_call(call));
	assert_int_equal(fgt_beat_step(call), FGT_STEP_PROCFS);
	assert_int_equal(fgt_beat_pid(call), 77);
	fgt_call_leave(heartbeat, -1);
	assert_int_not_equal(heartbeat->beat, before);
	assert_false(fgt_beat_is_call(heartbeat->beat));
	fgt_heartbeat_set(heartbeat, FGT_STEP_IDLE, 0);
	assert_int_equal(fgt_beat_step(heartbeat->beat), FGT_STEP_IDLE);
	assert_int_equal(fgt_beat_pid(heartbeat->beat), 0);
	fgt_heartbeat_end();
	assert_null(fgt_heartbeat_at(0));
}

struct waiter {
	int pipe[2]; /* it reads from it */
	int descriptor;
	struct fgt_heartbeat *_Atomic heartbeat;
	bool is_lost, has_gone_on;
};

static void wait_for_byte(struct waiter *waiter)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_FILE);
	char byte;

	waiter->heartbeat = heartbeat;
	assert_int_equal(read(waiter->pipe[0], &byte, 1), 1);
	fgt_call_leave(heartbeat, waiter->descriptor);
	waiter->has_gone_on = true;
}

static void *run_waiter(void *context)
{
	struct waiter *waiter = context;
	jmp_buf given_up;

	if (setjmp(given_up)) {
		waiter->is_lost = true;
		return NULL;
	}
	fgt_heartbeat_begin("waiter", &given_up);
	wait_for_byte(waiter);
	fgt_heartbeat_end();
	return NULL;
}

static pthread_t start(struct waiter *waiter)
{
	pthread_t thread;

	*waiter = (struct waiter){ .descriptor = open("/dev/null", O_RDONLY) };
	assert_int_equal(pipe(waiter->pipe), 0);
	assert_int_equal(pthread_create(&thread, NULL, run_waiter, waiter), 0);
	while (!waiter->heartbeat)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return thread;
}

static void end(struct waiter *waiter, pthread_t thread)
{
	assert_int_equal(write(waiter->pipe[1], "x", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(waiter->pipe[0]);
	close(waiter->pipe[1]);
}

static void thread_that_was_given_up_only_ends(void **state)
{
	struct waiter waiter;
	pthread_t thread = start(&waiter);
	struct fgt_heartbeat *heartbeat = waiter.heartbeat;

	(void)state;
	assert_true(fgt_heartbeat_give_up(heartbeat, heartbeat->beat));
	assert_false(fgt_heartbeat_has_ended(heartbeat));
	end(&waiter, thread);
	assert_true(fgt_heartbeat_has_ended(heartbeat));
	assert_true(waiter.is_lost);
	assert_false(waiter.has_gone_on);
	assert_int_equal(fcntl(waiter.descriptor, F_GETFD), -1);
	fgt_heartbeat_free(heartbeat);
	assert_null(fgt_heartbeat_at(0));
}

static void thread_that_has_gone_on_is_not_given_up(void **state)
{
	struct waiter waiter;
	pthread_t thread = start(&waiter);
	struct fgt_heartbeat *heartbeat = waiter.heartbeat;
	uint64_t beat = heartbeat->beat;

	(void)state;
	end(&waiter, thread);
	assert_false(fgt_heartbeat_give_up(heartbeat, beat));
	assert_true(waiter.has_gone_on);
	assert_false(waiter.is_lost);
	close(waiter.descriptor);
}

static void thread_outside_a_call_is_not_given_up(void **state)
{
	jmp_buf given_up;
	struct fgt_heartbeat *heartbeat;

	(void)state;
	assert_int_equal(setjmp(given_up), 0);
	heartbeat = fgt_heartbeat_begin("test", &given_up);
	fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, 1);
	assert_false(fgt_heartbeat_give_up(heartbeat, heartbeat->beat));
	fgt_heartbeat_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_without_a_heartbeat_has_none),
		cmocka_unit_test(each_step_has_another_beat),
		cmocka_unit_test(thread_that_was_given_up_only_ends),
		cmocka_unit_test(thread_that_has_gone_on_is_not_given_up),
		cmocka_unit_test(thread_outside_a_call_is_not_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
