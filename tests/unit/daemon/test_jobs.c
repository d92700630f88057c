/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errands beside the loop that gave them; under the thread sanitizer too. The
 * loop runs in the main thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "agent/daemon/loop/loop.h"

#define COUNT 5

struct fixture {
	struct fgt_loop *loop;
	struct fgt_jobs *jobs;
	struct task {
		struct fixture *fixture;
		struct fgt_job job;
		pthread_t ran_on;
		unsigned int runs, dones, turn;
	} tasks[COUNT];
	unsigned int turns; /* of run(): one thread only */
	int gate[2]; /* the first task waits for a byte */
	struct fgt_timer timer;
	unsigned int expirations;
};

static void run(void *context)
{
	struct task *task = context;
	char byte;

	if (task == &task->fixture->tasks[0])
		assert_int_equal(read(task->fixture->gate[0], &byte, 1), 1);
	task->runs++;
	task->turn = ++task->fixture->turns;
	task->ran_on = pthread_self();
}

static void done(void *context)
{
	struct task *task = context;

	task->dones++;
	if (task == &task->fixture->tasks[COUNT - 1])
		fgt_loop_stop(task->fixture->loop);
}

/* The loop lives; after three times it opens the gate. */
static void expired(void *context)
{
	struct fixture *fixture = context;

	if (++fixture->expirations == 3)
		assert_int_equal(write(fixture->gate[1], "", 1), 1);
	else
		fgt_loop_arm(fixture->loop, &fixture->timer,
			     fgt_loop_now() + 1000000);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	fixture->timer =
		(struct fgt_timer){ .expired = expired, .context = fixture };
	if (pipe2(fixture->gate, O_CLOEXEC) < 0 ||
	    fgt_loop_new(&fixture->loop) < 0)
		return -EIO;
	for (size_t i = 0; i < COUNT; i++) {
		struct task *task = &fixture->tasks[i];

		task->fixture = fixture;
		task->job = (struct fgt_job){ .run = run,
					      .done = done,
					      .context = task };
	}
	return fgt_jobs_new(fixture->loop, &fixture->jobs);
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	fgt_jobs_free(fixture->jobs);
	fgt_loop_free(fixture->loop);
	close(fixture->gate[0]);
	close(fixture->gate[1]);
	free(fixture);
	return 0;
}

static void submit_all(struct fixture *fixture)
{
	for (size_t i = 0; i < COUNT; i++)
		fgt_jobs_submit(fixture->jobs, &fixture->tasks[i].job);
}

static void loop_runs_while_a_job_blocks(void **state)
{
	struct fixture *fixture = *state;

	submit_all(fixture);
	fgt_loop_arm(fixture->loop, &fixture->timer, 1);
	assert_int_equal(fgt_loop_run(fixture->loop), 0);
	assert_int_equal(fixture->expirations, 3);
	for (unsigned int i = 0; i < COUNT; i++) {
		assert_int_equal(fixture->tasks[i].runs, 1);
		assert_int_equal(fixture->tasks[i].dones, 1);
		assert_int_equal(fixture->tasks[i].turn, i + 1);
		assert_false(pthread_equal(fixture->tasks[i].ran_on,
					   pthread_self()));
	}
}

static void withdrawn_job_neither_runs_nor_is_done(void **state)
{
	struct fixture *fixture = *state;

	submit_all(fixture);
	/* The first one blocks, so the third has not begun. */
	assert_true(fgt_jobs_withdraw(fixture->jobs, &fixture->tasks[2].job));
	assert_false(fgt_jobs_withdraw(fixture->jobs, &fixture->tasks[2].job));
	fgt_loop_arm(fixture->loop, &fixture->timer, 1);
	assert_int_equal(fgt_loop_run(fixture->loop), 0);
	assert_int_equal(fixture->tasks[2].runs + fixture->tasks[2].dones, 0);
	assert_int_equal(fixture->tasks[3].dones, 1);
}

static void leaving_finishes_all_submitted_jobs(void **state)
{
	struct fixture *fixture = *state;

	submit_all(fixture);
	assert_int_equal(write(fixture->gate[1], "", 1), 1);
	fgt_jobs_free(FGT_TAKE(fixture->jobs));
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(fixture->tasks[i].dones, 1);
		assert_true(fixture->tasks[i].runs <= 1);
	}
}

#define JOBS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOBS_TEST(loop_runs_while_a_job_blocks),
		JOBS_TEST(withdrawn_job_neither_runs_nor_is_done),
		JOBS_TEST(leaving_finishes_all_submitted_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
