/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a target's threads, that of this very program.
 */
#include "ring_kit.h"

#include <fcntl.h>
#include <unistd.h>

#include "agent/capture/threads.h"

#define NO_SUCH_TID INT32_MAX

static void
a_thread_that_is_gone_already_has_the_name_of_its_process(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	int task_fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
	struct fgt_fd_budget budget = { .limit = 0 };
	struct fgt_thread *gone, *alive;
	struct fgt_threads threads;
	char name[64] = "before";

	(void)state;
	assert_int_equal(
		fgt_threads_init(&threads, task_fd, name, &budget, ring), 0);
	alive = fgt_threads_add(&threads, getpid());
	assert_string_equal(alive->name, "test_threads");
	strcpy(name, "after-an-exec-a-longer-one");
	gone = fgt_threads_add(&threads, NO_SUCH_TID);
	assert_string_equal(gone->name, "after-an-exec-a");
	assert_int_equal(gone->start_time, 0);
	fgt_threads_scan(&threads, false, 0);
	assert_true(gone->is_ended);
	assert_false(alive->is_ended);
	fgt_threads_done(&threads);
	close(task_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_thread_that_is_gone_already_has_the_name_of_its_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
