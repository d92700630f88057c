/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader of the variable finds while transactions begin, end and move
 * between threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/lib/context/thread_trace.h"

#define MANY 20

struct record {
	uint8_t trace_id[16], span_id[8];
	_Atomic uint8_t valid;
	uint8_t trace_flags;
	uint16_t attributes_bytes;
};

extern __thread void *otel_thread_ctx_v1;

static char owners[MANY];

static void make_ids(int i, uint8_t ids[FGT_THREAD_TRACE_IDS])
{
	memset(ids, 0, FGT_THREAD_TRACE_IDS);
	ids[0] = 0xab;
	ids[16] = 0xcd;
	ids[15] = ids[23] = (uint8_t)(i + 1);
}

/* Owner i has the trace i + 1. */
static void enter(struct fgt_thread_trace **trace, int i)
{
	uint8_t ids[FGT_THREAD_TRACE_IDS];

	make_ids(i, ids);
	fgt_thread_trace_enter(trace, &owners[i], ids);
}

static void change(struct fgt_thread_trace *trace, int i, int to)
{
	uint8_t ids[FGT_THREAD_TRACE_IDS];

	make_ids(to, ids);
	fgt_thread_trace_change(trace, &owners[i], ids);
}

/* Which one a reader finds in this thread, -1 none. */
static int shown(void)
{
	const struct record *record = otel_thread_ctx_v1;

	if (!record || record->valid != 1)
		return -1;
	assert_int_equal(record->trace_id[0], 0xab);
	assert_int_equal(record->span_id[0], 0xcd);
	assert_int_equal(record->span_id[7], record->trace_id[15]);
	assert_int_equal(record->attributes_bytes, 0);
	return record->trace_id[15] - 1;
}

static void latest_is_shown_and_then_the_one_before(void **state)
{
	struct fgt_thread_trace *trace = NULL;

	(void)state;
	assert_null(otel_thread_ctx_v1);
	enter(&trace, 0);
	assert_int_equal(shown(), 0);
	enter(&trace, 1);
	enter(&trace, 2);
	fgt_thread_trace_leave(trace, &owners[1]);
	assert_int_equal(shown(), 2);
	enter(&trace, 0); /* again */
	assert_int_equal(shown(), 0);
	fgt_thread_trace_leave(trace, &owners[0]);
	assert_int_equal(shown(), 2);
	fgt_thread_trace_leave(trace, &owners[2]);
	assert_null(otel_thread_ctx_v1);
	fgt_thread_trace_leave(trace, &owners[2]);
	enter(&trace, 3);
	fgt_thread_trace_free(trace);
	assert_null(otel_thread_ctx_v1);
}

static void oldest_makes_room(void **state)
{
	struct fgt_thread_trace *trace = NULL;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		enter(&trace, i);
		assert_int_equal(shown(), i);
	}
	for (int i = MANY; i-- > 0;) {
		fgt_thread_trace_leave(trace, &owners[i]);
		assert_int_equal(shown(), i > MANY - 8 ? i - 1 : -1);
	}
	fgt_thread_trace_free(trace);
}

static void other_ids_are_shown_at_once(void **state)
{
	struct fgt_thread_trace *trace = NULL;

	(void)state;
	change(NULL, 0, 8);
	enter(&trace, 0);
	change(trace, 0, 8);
	assert_int_equal(shown(), 8);
	change(trace, 1, 2);
	assert_int_equal(shown(), 8);
	fgt_thread_trace_free(trace);
}

/* Returns whether its own trace is still shown. */
static void *end_first(void *argument)
{
	struct fgt_thread_trace *trace = NULL;
	bool is_shown;

	enter(&trace, 5);
	fgt_thread_trace_end(&owners[0]);
	is_shown = shown() == 5;
	fgt_thread_trace_free(trace);
	return is_shown ? argument : NULL;
}

static void end_in_another_thread_is_seen_here(void **state)
{
	struct fgt_thread_trace *trace = NULL;
	pthread_t thread;
	void *result;

	enter(&trace, 1);
	enter(&trace, 0);
	assert_int_equal(pthread_create(&thread, NULL, end_first, state), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, state);
	/* Only this thread writes ids: at its next call. */
	assert_int_equal(shown(), -1);
	enter(&trace, 2);
	assert_int_equal(shown(), 2);
	fgt_thread_trace_leave(trace, &owners[2]);
	assert_int_equal(shown(), 1);
	fgt_thread_trace_end(&owners[1]);
	assert_int_equal(shown(), -1);
	enter(&trace, 3);
	fgt_thread_trace_end(&owners[2]);
	assert_int_equal(shown(), 3);
	/* What another thread hid is shown after a call of any kind. */
	enter(&trace, 4);
	enter(&trace, 6);
	fgt_thread_trace_end(&owners[6]);
	assert_int_equal(shown(), -1);
	fgt_thread_trace_leave(trace, &owners[3]);
	assert_int_equal(shown(), 4);
	fgt_thread_trace_free(trace);
}

static atomic_bool is_over;

static void *end_all(void *argument)
{
	while (!atomic_load(&is_over))
		for (int i = 0; i < MANY; i++)
			fgt_thread_trace_end(&owners[i]);
	return argument;
}

/* Run with ThreadSanitizer, too. */
static void ends_meanwhile_leave_no_mixture(void **state)
{
	struct fgt_thread_trace *trace = NULL;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, end_all, state), 0);
	for (int i = 0; i < 20000; i++) {
		int now;

		enter(&trace, i % MANY);
		now = shown();
		assert_true(now == i % MANY || now == -1);
		if (i % 3)
			fgt_thread_trace_leave(trace, &owners[i % MANY]);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	for (int i = 0; i < MANY; i++)
		fgt_thread_trace_leave(trace, &owners[i]);
	assert_int_equal(shown(), -1);
	fgt_thread_trace_free(trace);
}

static void record_of_another_library_stays(void **state)
{
	struct record foreign = { .valid = 1 };
	struct fgt_thread_trace *trace = NULL;

	(void)state;
	otel_thread_ctx_v1 = &foreign;
	enter(&trace, 0);
	fgt_thread_trace_leave(trace, &owners[0]);
	assert_ptr_equal(otel_thread_ctx_v1, &foreign);
	/* It goes while one runs. */
	enter(&trace, 1);
	enter(&trace, 2);
	otel_thread_ctx_v1 = NULL;
	fgt_thread_trace_leave(trace, &owners[2]);
	assert_int_equal(shown(), 1);
	fgt_thread_trace_leave(trace, &owners[1]);
	/* It comes while a transaction runs. */
	otel_thread_ctx_v1 = NULL;
	enter(&trace, 0);
	assert_int_equal(shown(), 0);
	otel_thread_ctx_v1 = &foreign;
	fgt_thread_trace_leave(trace, &owners[0]);
	fgt_thread_trace_free(trace);
	assert_ptr_equal(otel_thread_ctx_v1, &foreign);
	assert_int_equal(foreign.valid, 1);
	otel_thread_ctx_v1 = NULL;
}

static void child_works_for_none(void **state)
{
	struct fgt_thread_trace *trace = NULL;
	int status;
	pid_t pid;

	(void)state;
	enter(&trace, 0);
	pid = fork();
	if (pid == 0) {
		fgt_thread_trace_forked(trace);
		if (shown() != -1)
			_exit(1);
		enter(&trace, 3);
		if (shown() != 3)
			_exit(2);
		fgt_thread_trace_end(&owners[3]);
		_exit(shown() == -1 ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(shown(), 0);
	fgt_thread_trace_free(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(latest_is_shown_and_then_the_one_before),
		cmocka_unit_test(oldest_makes_room),
		cmocka_unit_test(other_ids_are_shown_at_once),
		cmocka_unit_test(end_in_another_thread_is_seen_here),
		cmocka_unit_test(ends_meanwhile_leave_no_mixture),
		cmocka_unit_test(record_of_another_library_stays),
		cmocka_unit_test(child_works_for_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
