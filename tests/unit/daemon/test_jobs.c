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
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/loop/loop.h"
#include "ringbuf/base/heartbeat.h"

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

/* ---- Threads that are given up ------------------------------------------ */

struct stuck {
	struct fgt_loop *loop;
	struct fgt_jobs *jobs;
	struct fgt_job job, next;
	int gate[2];
	atomic_bool is_in_call;
	bool has_gone_on, has_run;
	unsigned int dones;
};

static void wait_in_a_call(void *context)
{
	struct stuck *stuck = context;
	struct fgt_heartbeat *heartbeat = fgt_heartbeat_of_caller();
	char byte;

	fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, 77);
	heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	stuck->is_in_call = true;
	assert_int_equal(read(stuck->gate[0], &byte, 1), 1);
	fgt_call_leave(heartbeat, -1);
	stuck->has_gone_on = true;
}

static void stuck_done(void *context)
{
	struct stuck *stuck = context;

	stuck->dones++;
	if (stuck->dones == 1)
		assert_true(stuck->job.is_lost);
	else
		fgt_loop_stop(stuck->loop);
}

static void run_next(void *context)
{
	struct stuck *stuck = context;

	stuck->has_run = true;
}

static void wait_for_call(const struct stuck *stuck)
{
	while (!stuck->is_in_call)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void give_up(struct stuck *stuck)
{
	for (uint32_t i = 0; i < FGT_HEARTBEATS_MAX; i++) {
		struct fgt_heartbeat *heartbeat = fgt_heartbeat_at(i);

		if (heartbeat)
			fgt_jobs_give_up(stuck->jobs, heartbeat,
					 heartbeat->beat);
	}
}

static void start_stuck(struct stuck *stuck)
{
	*stuck = (struct stuck){
		.job = { .run = wait_in_a_call, .done = stuck_done },
		.next = { .run = run_next, .done = stuck_done },
	};
	stuck->job.context = stuck->next.context = stuck;
	assert_int_equal(pipe2(stuck->gate, O_CLOEXEC), 0);
	assert_int_equal(fgt_loop_new(&stuck->loop), 0);
	assert_int_equal(fgt_jobs_new_watched(stuck->loop, "thread of jobs",
					      &stuck->jobs),
			 0);
	fgt_jobs_submit(stuck->jobs, &stuck->job);
	fgt_jobs_submit(stuck->jobs, &stuck->next);
}

static void end_stuck(struct stuck *stuck)
{
	fgt_jobs_free(stuck->jobs);
	fgt_loop_free(stuck->loop);
	close(stuck->gate[0]);
	close(stuck->gate[1]);
}

static void job_that_is_given_up_is_done_and_others_run(void **state)
{
	struct stuck stuck;

	(void)state;
	start_stuck(&stuck);
	wait_for_call(&stuck);
	give_up(&stuck);
	assert_true(fgt_heartbeat_is_lost_in(77));
	assert_false(fgt_heartbeat_is_lost_in(78));
	assert_int_equal(fgt_loop_run(stuck.loop), 0);
	assert_int_equal(stuck.dones, 2);
	assert_true(stuck.has_run);
	assert_int_equal(write(stuck.gate[1], "", 1), 1);
	while (fgt_heartbeat_is_lost_in(77))
		fgt_jobs_tend(stuck.jobs);
	assert_false(stuck.has_gone_on);
	end_stuck(&stuck);
}

static void *give_up_late(void *context)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	give_up(context);
	return NULL;
}

static void leaving_does_not_wait_for_what_is_given_up(void **state)
{
	struct stuck stuck;
	pthread_t watchdog;

	(void)state;
	start_stuck(&stuck);
	wait_for_call(&stuck);
	assert_int_equal(pthread_create(&watchdog, NULL, give_up_late, &stuck),
			 0);
	fgt_jobs_stop(stuck.jobs);
	assert_int_equal(pthread_join(watchdog, NULL), 0);
	assert_int_equal(stuck.dones, 2);
	assert_false(stuck.has_run);
	assert_int_equal(write(stuck.gate[1], "", 1), 1);
	while (fgt_heartbeat_is_lost_in(77))
		fgt_jobs_tend(stuck.jobs);
	end_stuck(&stuck);
}

/* ---- Jobs that are asked -------------------------------------------------- */

#define ASKS_OF_USER 2u /* that may not have returned */
#define ASKS_MAX     8u

struct ask {
	struct stuck *stuck;
	pthread_t thread;
	uint32_t uid;
	int result;
};

static void *ask_stuck(void *context)
{
	struct ask *ask = context;
	struct fgt_job job = { .run = wait_in_a_call, .context = ask->stuck };

	ask->result = fgt_jobs_ask(ask->stuck->jobs, &job, ask->uid);
	return NULL;
}

static int ask_next(struct stuck *stuck, uint32_t uid)
{
	struct fgt_job job = { .run = run_next, .context = stuck };

	stuck->has_run = false;
	return fgt_jobs_ask(stuck->jobs, &job, uid);
}

/* One that does not return. */
static void lose(struct stuck *stuck, uint32_t uid)
{
	struct ask ask = { .stuck = stuck, .uid = uid };

	stuck->is_in_call = false;
	assert_int_equal(pthread_create(&ask.thread, NULL, ask_stuck, &ask), 0);
	wait_for_call(stuck);
	give_up(stuck);
	assert_int_equal(pthread_join(ask.thread, NULL), 0);
	assert_int_equal(ask.result, -EAGAIN);
}

static void start_asks(struct stuck *stuck)
{
	*stuck = (struct stuck){ .dones = 0 };
	assert_int_equal(pipe2(stuck->gate, O_CLOEXEC), 0);
	assert_int_equal(fgt_loop_new(&stuck->loop), 0);
	assert_int_equal(fgt_jobs_new_watched(stuck->loop, "thread of jobs",
					      &stuck->jobs),
			 0);
}

/* All that wait return. */
static void end_asks(struct stuck *stuck, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(write(stuck->gate[1], "", 1), 1);
	while (fgt_heartbeat_is_lost_in(77))
		fgt_jobs_tend(stuck->jobs);
	assert_false(stuck->has_gone_on);
	end_stuck(stuck);
}

static void one_that_asks_goes_on_if_its_job_does_not(void **state)
{
	struct stuck stuck;

	(void)state;
	start_asks(&stuck);
	assert_int_equal(ask_next(&stuck, 1), 0);
	assert_true(stuck.has_run);
	lose(&stuck, 1);
	assert_int_equal(ask_next(&stuck, 1), 0);
	assert_true(stuck.has_run);
	end_asks(&stuck, 1);
}

static void jobs_of_one_user_cost_others_none(void **state)
{
	struct stuck stuck;

	(void)state;
	start_asks(&stuck);
	for (unsigned int i = 0; i < ASKS_OF_USER; i++)
		lose(&stuck, 1);
	assert_int_equal(ask_next(&stuck, 1), -EAGAIN);
	assert_false(stuck.has_run);
	assert_int_equal(ask_next(&stuck, 2), 0);
	for (unsigned int i = ASKS_OF_USER; i < ASKS_MAX; i++)
		lose(&stuck, i);
	/* One more could not be given up. */
	assert_int_equal(ask_next(&stuck, 100), -EAGAIN);
	end_asks(&stuck, ASKS_MAX);
}

static void jobs_that_return_later_may_be_asked_without_end(void **state)
{
	struct stuck stuck;

	(void)state;
	start_asks(&stuck);
	for (unsigned int i = 0; i < 100; i++) {
		lose(&stuck, 1);
		assert_int_equal(write(stuck.gate[1], "", 1), 1);
		while (fgt_heartbeat_is_lost_in(77))
			fgt_jobs_tend(stuck.jobs);
		fgt_jobs_tend(stuck.jobs);
	}
	assert_int_equal(ask_next(&stuck, 1), 0);
	end_asks(&stuck, 0);
}

static void after_the_end_nothing_is_asked(void **state)
{
	struct stuck stuck;

	(void)state;
	start_asks(&stuck);
	fgt_jobs_stop(stuck.jobs);
	assert_int_equal(ask_next(&stuck, 1), -EAGAIN);
	assert_false(stuck.has_run);
	end_asks(&stuck, 0);
}

#define JOBS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOBS_TEST(loop_runs_while_a_job_blocks),
		JOBS_TEST(withdrawn_job_neither_runs_nor_is_done),
		JOBS_TEST(leaving_finishes_all_submitted_jobs),
		cmocka_unit_test(job_that_is_given_up_is_done_and_others_run),
		cmocka_unit_test(leaving_does_not_wait_for_what_is_given_up),
		cmocka_unit_test(one_that_asks_goes_on_if_its_job_does_not),
		cmocka_unit_test(jobs_of_one_user_cost_others_none),
		cmocka_unit_test(
			jobs_that_return_later_may_be_asked_without_end),
		cmocka_unit_test(after_the_end_nothing_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
