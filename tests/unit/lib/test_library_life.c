/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c between a backend and a part of this test: forks and stops at the
 * worst moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "ringbuf/base/clock.h"
#include "tests/unit/lib/asleep.h"

/* More than the stack of the worker. */
static __thread char large[1 << 20];

static struct {
	bool shall_fork_in_close, is_closing;
	bool is_called_while_closing; /* in the child */
	int close_status; /* of the child, as waitpid(2) */
	atomic_bool shall_block, is_blocked;
	sem_t may_go;
	atomic_int part_forks, lines;
	atomic_bool has_something; /* to be given up */
	atomic_bool is_logged_here; /* on the thread of the tests */
	pthread_t tests;
	atomic_bool shall_fork_in_log, shall_begin_thread_in_log;
	atomic_int log_child;
} world;

/* ---- The backend ------------------------------------------------------- */

static void close_backend(void)
{
	pid_t pid;

	world.is_closing = true;
	if (!world.shall_fork_in_close)
		return;
	pid = fork();
	if (pid == 0)
		_exit(world.is_called_while_closing);
	waitpid(pid, &world.close_status, 0);
}

static void backend_forked(void)
{
	world.is_called_while_closing |= world.is_closing;
}

static void refresh(void)
{
}

static bool is_recording(void)
{
	return true;
}

static double hz(void)
{
	return 101;
}

static void get_limitation(char *ret_text, size_t len)
{
	(void)len;
	*ret_text = 0;
}

const struct fgt_backend fgt_agent_link = {
	.mode = FGT_AGENT,
	.refresh = refresh,
	.is_recording = is_recording,
	.hz = hz,
	.get_limitation = get_limitation,
	.forked = backend_forked,
	.close = close_backend,
};
const struct fgt_backend fgt_embedded = { .mode = FGT_EMBEDDED };

int fgt_agent_link_open(bool is_needed)
{
	(void)is_needed;
	return 0;
}

int fgt_embedded_open(const struct fgt_own_threads *own)
{
	(void)own;
	return -ENOENT;
}

/* ---- The part ---------------------------------------------------------- */

static uint64_t work(uint64_t now_ns)
{
	(void)now_ns;
	if (!atomic_load(&world.shall_block))
		return UINT64_MAX;
	atomic_store(&world.is_blocked, true);
	while (sem_wait(&world.may_go) < 0)
		;
	fgt_report("a line");
	return UINT64_MAX;
}

static void part_forked(void)
{
	world.part_forks++;
}

static bool is_idle(void)
{
	return !world.has_something;
}

static void give_up(void)
{
	if (world.has_something)
		fgt_report("a line about giving up");
	world.has_something = false;
}

const struct fgt_part fgt_context_part = { .work = NULL };
const struct fgt_part fgt_span_part = { .work = work,
					.is_idle = is_idle,
					.give_up = give_up,
					.forked = part_forked };

/* ---- Tests ------------------------------------------------------------- */

/* Skips the leak check: threads of the parent are gone. */
static void leave(void)
{
	_exit(0);
}

#define THREAD_STATUS 7

static void *end_late(void *unused)
{
	(void)unused;
	usleep(2500000); /* the worker looks each second */
	_exit(THREAD_STATUS);
}

static void keep_line(void *context, const char *line)
{
	pthread_t thread;

	assert_ptr_equal(context, &world);
	assert_non_null(line);
	world.lines++;
	if (pthread_equal(world.tests, pthread_self()))
		world.is_logged_here = true;
	if (atomic_exchange(&world.shall_begin_thread_in_log, false))
		pthread_create(&thread, NULL, end_late, NULL);
	if (atomic_exchange(&world.shall_fork_in_log, false)) {
		pid_t pid = fork();

		if (pid > 0)
			world.log_child = pid;
		else if (pid == 0)
			atexit(leave); /* this is the last thread */
	}
}

static int start(void)
{
	const struct fgt_options options = { .size = sizeof(options),
					     .mode = FGT_AGENT,
					     .timeout_ms = 1,
					     .log = keep_line,
					     .context = &world };

	return fgt_start(&options);
}

static int set_up(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	sem_init(&world.may_go, 0, 0);
	world.tests = pthread_self();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fgt_stop();
	return 0;
}

/* In the work of the part, once, until world.may_go is posted. */
static void block_the_worker(void)
{
	atomic_store(&world.is_blocked, false);
	atomic_store(&world.shall_block, true);
	fgt_library_wake();
	for (int i = 0; i < 1000 && !atomic_load(&world.is_blocked); i++)
		usleep(10000);
	assert_true(atomic_load(&world.is_blocked));
	atomic_store(&world.shall_block, false);
}

static void wait_for_stop(void)
{
	for (int i = 0; i < 1000 && fgt_library_check() != -ENOTCONN; i++)
		usleep(10000);
	assert_int_equal(fgt_library_check(), -ENOTCONN);
}

static void fork_ignores_a_backend_that_is_being_closed(void **state)
{
	(void)state;
	assert_int_equal(start(), 0);
	world.shall_fork_in_close = true;
	fgt_stop();
	assert_true(world.is_closing);
	assert_true(WIFEXITED(world.close_status));
	assert_int_equal(WEXITSTATUS(world.close_status), 0);
}

static void fork_calls_parts_while_nothing_records(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		_exit(world.part_forks == 1 ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void stop_that_gave_up_logs_nothing_later(void **state)
{
	(void)state;
	assert_int_equal(start(), 0);
	block_the_worker();
	fgt_stop();
	assert_int_equal(fgt_library_check(), -ESHUTDOWN);
	sem_post(&world.may_go);
	wait_for_stop();
	assert_int_equal(world.lines, 0);
	/* Lines of the next start are logged. */
	assert_int_equal(start(), 0);
	fgt_report("another line");
	fgt_library_wake();
	for (int i = 0; i < 1000 && world.lines == 0; i++)
		usleep(10000);
	assert_int_equal(world.lines, 1);
}

static void stop_logs_what_it_gives_up_before_it_returns(void **state)
{
	(void)state;
	assert_int_equal(start(), 0);
	world.has_something = true;
	fgt_stop();
	assert_int_equal(fgt_library_check(), -ENOTCONN);
	assert_int_equal(world.lines, 1);
	/* The same if the worker does not return. */
	assert_int_equal(start(), 0);
	block_the_worker();
	world.has_something = true;
	fgt_stop();
	assert_int_equal(world.lines, 2);
	assert_false(world.is_logged_here);
	sem_post(&world.may_go);
	wait_for_stop();
	assert_int_equal(world.lines, 2);
}

static void fork_in_the_log_gives_a_child_without_a_worker(void **state)
{
	int status = 0;
	pid_t pid = 0;

	(void)state;
	assert_int_equal(start(), 0);
	atomic_store(&world.shall_fork_in_log, true);
	fgt_report("a line that forks");
	fgt_library_wake();
	for (int i = 0; i < 1000 && world.log_child == 0; i++)
		usleep(10000);
	assert_true(world.log_child > 0);
	for (int i = 0; i < 1000 && pid == 0; i++) {
		usleep(10000);
		pid = waitpid(world.log_child, &status, WNOHANG);
	}
	if (pid == 0)
		kill(world.log_child, SIGKILL);
	assert_int_equal(pid, world.log_child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void run_without_the_first_thread(void)
{
	if (start() < 0)
		_exit(1);
	atomic_store(&world.shall_begin_thread_in_log, true);
	fgt_report("a line that begins a thread");
	fgt_library_wake();
	while (atomic_load(&world.shall_begin_thread_in_log))
		usleep(1000);
	pthread_exit(NULL);
}

/* Such a thread has the name of the library's, which calls the log. */
static void program_does_not_end_before_a_thread_of_its_log(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		run_without_the_first_thread();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), THREAD_STATUS);
}

static void wait_for_lines(int count)
{
	for (int i = 0; i < 1000 && world.lines < count; i++)
		usleep(10000);
	assert_int_equal(world.lines, count);
}

/* Of fgt_http_listen(), for one. */
static void lines_of_before_the_start_are_logged(void **state)
{
	(void)state;
	fgt_report("a line of before");
	assert_int_equal(start(), 0);
	wait_for_lines(1);
	fgt_stop();
	/* The same cause once more. */
	fgt_report("a line of before");
	assert_int_equal(start(), 0);
	wait_for_lines(2);
}

struct flush {
	atomic_int tid;
	int result;
};

static void *flush(void *context)
{
	struct flush *call = context;

	call->tid = gettid();
	call->result = fgt_flush(60000);
	pthread_testcancel();
	return NULL;
}

/* A cancelled thread would keep a lock, or stay a user of the library. */
static void flush_is_not_cancelled_while_it_waits(void **state)
{
	struct flush call = { .result = 1 };
	struct timespec until;
	pthread_t thread;
	void *how;

	(void)state;
	assert_int_equal(start(), 0);
	block_the_worker();
	pthread_create(&thread, NULL, flush, &call);
	wait_until_asleep(&call.tid);
	pthread_cancel(thread);
	until = fgt_timespec_of(fgt_now() + 50000000);
	assert_int_equal(
		pthread_clockjoin_np(thread, &how, CLOCK_MONOTONIC, &until),
		ETIMEDOUT);
	sem_post(&world.may_go);
	pthread_join(thread, &how);
	assert_ptr_equal(how, PTHREAD_CANCELED);
	assert_int_equal(call.result, 0);
	fgt_stop();
	assert_int_equal(fgt_library_check(), -ENOTCONN);
}

static void start_works_with_large_thread_local_variables(void **state)
{
	(void)state;
	large[sizeof(large) - 1] = 1;
	assert_int_equal(start(), 0);
	assert_int_equal(large[sizeof(large) - 1], 1);
}

#define LIFE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

struct lines {
	unsigned int count;
	char last[300];
};

static void count_line(void *context, const char *line)
{
	struct lines *lines = context;

	snprintf(lines->last, sizeof(lines->last), "%s", line);
	lines->count++;
}

static void start_that_fails_logs_why(void **state)
{
	struct lines lines = { .count = 0 };
	const struct fgt_options options = {
		.size = sizeof(options),
		.destination = "https://key@sentry.example/7",
		.log = count_line,
		.context = &lines,
	};
	struct {
		struct fgt_options known;
		uint64_t unknown;
	} newer = { .known = { .size = sizeof(newer),
			       .log = count_line,
			       .context = &lines } };

	(void)state;
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(fgt_start(&options), -EINVAL);
		assert_int_equal(lines.count, i);
		assert_non_null(strstr(lines.last, "public key"));
	}
	newer.unknown = 1;
	assert_int_equal(fgt_start(&newer.known), -EINVAL);
	assert_non_null(strstr(lines.last, "install a newer one"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIFE_TEST(fork_ignores_a_backend_that_is_being_closed),
		LIFE_TEST(fork_calls_parts_while_nothing_records),
		LIFE_TEST(stop_that_gave_up_logs_nothing_later),
		LIFE_TEST(stop_logs_what_it_gives_up_before_it_returns),
		LIFE_TEST(fork_in_the_log_gives_a_child_without_a_worker),
		LIFE_TEST(program_does_not_end_before_a_thread_of_its_log),
		LIFE_TEST(lines_of_before_the_start_are_logged),
		LIFE_TEST(flush_is_not_cancelled_while_it_waits),
		LIFE_TEST(start_works_with_large_thread_local_variables),
		LIFE_TEST(start_that_fails_logs_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
