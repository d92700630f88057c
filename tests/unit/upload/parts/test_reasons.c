/* SPDX-License-Identifier: Apache-2.0 */
/* Names of states with the reasons of their waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/parts/reasons.h"

#define TICKS 4
#define FUTEX FIXTURE_FUTEX
#define CALL  FIXTURE_EPOLL /* any call with a descriptor */

static void set(struct fgt_ring_slice *slice, uint32_t *ret_id,
		const char *text)
{
	assert_int_equal(
		fgt_strings_intern(&slice->strings, text, strlen(text), ret_id),
		0);
}

static const char *name_of(const struct fgt_ring_slice *slice, uint32_t run)
{
	return fgt_slice_state_name(slice, slice->runs[run].state);
}

/* What a wait's run is called. */
static void assert_shown(uint32_t state, uint32_t kind, int32_t owner_tid,
			 const char *text, const char *object,
			 const char *expected)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t waiting = fixture_thread(slice, 10, "worker");
	struct fgt_slice_wait *wait;

	fixture_thread(slice, 20, "maint");
	fixture_run(slice, waiting, 0, TICKS, fixture_stack(slice, "main;work"),
		    state);
	wait = fixture_wait(slice, kind, owner_tid, text);
	set(slice, &wait->object, object);
	assert_int_equal(fgt_reasons_apply(slice), 0);
	assert_string_equal(name_of(slice, 0), expected);
	fgt_ring_slice_free(slice);
}

static void locks_name_themselves_and_their_holder(void **state)
{
	(void)state;
	assert_shown(FUTEX, FGT_WAIT_MUTEX, 20, "", "g_lock",
		     "futex g_lock ← maint");
	assert_shown(FUTEX, FGT_WAIT_MUTEX, 0, "", "g_lock", "futex g_lock");
	assert_shown(FUTEX, FGT_WAIT_RWLOCK, 20, "", "heap", "futex ← maint");
	assert_shown(FUTEX, FGT_WAIT_MUTEX, 30, "", "", "futex");
	assert_shown(FUTEX, FGT_WAIT_MUTEX, 20, "", "libx.so+0x1f20",
		     "futex libx.so+0x1f20 ← maint");
	assert_shown(FUTEX, FGT_WAIT_JOIN, 20, "", "stack of thread 20",
		     "futex ← maint");
	/* A condition variable has several words that are waited for. */
	assert_shown(FUTEX, FGT_WAIT_NOTIFICATION, 0, "", "g_ready+0x28",
		     "futex g_ready");
	assert_shown(FUTEX, FGT_WAIT_NOTIFICATION, 0, "", "g_pool+0x128",
		     "futex g_pool+0x128");
}

static void descriptors_are_named_by_what_they_are(void **state)
{
	(void)state;
	assert_shown(CALL, FGT_WAIT_DESCRIPTOR, 0,
		     "/run/x.pid, held by cron (pid 12)", "",
		     "epoll_wait /run/x.pid");
	assert_shown(CALL, FGT_WAIT_DESCRIPTOR, 0, "pipe:[1234]", "",
		     "epoll_wait pipe");
	assert_shown(CALL, FGT_WAIT_DESCRIPTOR, 0, "socket:[1234]", "",
		     "epoll_wait socket");
	assert_shown(CALL, FGT_WAIT_DESCRIPTOR, 0, "socket:[1234]",
		     "tcp to 10.0.0.5:5432", "epoll_wait tcp to 10.0.0.5:5432");
	assert_shown(CALL, FGT_WAIT_DESCRIPTOR, 0, "anon_inode:[eventfd]", "",
		     "epoll_wait eventfd");
	assert_shown(CALL, FGT_WAIT_DESCRIPTOR, 0, "/var/lib/x.wal", "",
		     "epoll_wait /var/lib/x.wal");
	assert_shown(CALL, FGT_WAIT_DESCRIPTOR, 0, "", "", "epoll_wait");
	assert_shown(CALL, FGT_WAIT_UNKNOWN, 0, "x", "y", "epoll_wait");
}

static void event_loops_name_kinds_of_descriptors(void **state)
{
	(void)state;
	assert_shown(CALL, FGT_WAIT_EVENTS, 0,
		     "epoll 4 of descriptors 3 (pipe), 7 (socket:[12]), 8 "
		     "(socket:[13]), 9 (pipe), 10 and 2 more",
		     "", "epoll_wait pipe, socket");
	assert_shown(CALL, FGT_WAIT_EVENTS, 0, "descriptor 7 (socket:[12])",
		     "descriptor 7 (tcp to 10.0.0.5:80)",
		     "epoll_wait tcp to 10.0.0.5:80");
	/* An answer of another server is what takes long. */
	assert_shown(
		CALL, FGT_WAIT_EVENTS, 0,
		"descriptors 1 (a), 2 (b), 3 (c), 4 (tcp port 80), 5 (tcp "
		"from ::1 at port 80), 6 (tcp to [::1]:5432), 7 (unix a to "
		"b)",
		"", "epoll_wait tcp to [::1]:5432, a, b, c");
	assert_shown(CALL, FGT_WAIT_EVENTS, 0, "descriptors 3, 5", "",
		     "epoll_wait");
	assert_shown(CALL, FGT_WAIT_EVENTS, 0,
		     "descriptors 1 (a), 2 (ab), 3 (b), 4 (a), 5 (c), 6 (d)",
		     "", "epoll_wait a, ab, b, c");
}

static void a_poll_has_one_name_from_its_beginning_on(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t thread = fixture_thread(slice, 10, "worker");
	uint32_t stack = fixture_stack(slice, "main;work");

	(void)state;
	fixture_run(slice, thread, 0, 1, stack, CALL);
	fixture_wait(slice, FGT_WAIT_EVENTS, 0, "descriptor 3")->number = 1;
	fixture_run(slice, thread, 1, 2, stack, CALL);
	fixture_wait(slice, FGT_WAIT_EVENTS, 0, "descriptor 3 (pipe)")->number =
		1;
	fixture_run(slice, thread, 3, 1, stack, CALL);
	fixture_wait(slice, FGT_WAIT_EVENTS, 0, "descriptor 3")->number = 1;
	assert_int_equal(fgt_reasons_apply(slice), 0);
	assert_string_equal(name_of(slice, 0), "epoll_wait pipe");
	assert_int_equal(slice->runs[1].state, slice->runs[0].state);
	assert_string_equal(name_of(slice, 2), "epoll_wait");
	fgt_ring_slice_free(slice);
}

static void equal_reasons_are_one_state(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t thread = fixture_thread(slice, 10, "worker");
	uint32_t stack = fixture_stack(slice, "main;work");

	(void)state;
	for (uint32_t i = 0; i < TICKS; i++) {
		char text[32];

		fixture_run(slice, thread, i, 1, stack, CALL);
		snprintf(text, sizeof(text), "pipe:[%u]", i % 2);
		if (i < 3)
			fixture_wait(slice, FGT_WAIT_DESCRIPTOR, 0, text);
	}
	assert_int_equal(fgt_reasons_apply(slice), 0);
	assert_int_equal(slice->runs[0].state, slice->runs[1].state);
	assert_int_equal(slice->runs[0].state, slice->runs[2].state);
	assert_int_equal(slice->runs[3].state, CALL);
	assert_string_equal(name_of(slice, 3), "epoll_wait");
	for (uint32_t i = 1; i < slice->state_count; i++)
		assert_true(slice->states[i - 1].state <
			    slice->states[i].state);
	fgt_ring_slice_free(slice);
}

static void too_many_reasons_keep_the_state(void **state)
{
	const uint32_t runs = FGT_REASONS_MAX + 50;
	struct fgt_ring_slice *slice = fixture_new(runs);
	uint32_t thread = fixture_thread(slice, 10, "worker");
	uint32_t stack = fixture_stack(slice, "main;work");

	(void)state;
	for (uint32_t i = 0; i < runs; i++) {
		char text[32];

		fixture_run(slice, thread, i, 1, stack, CALL);
		snprintf(text, sizeof(text), "/data/%u", i);
		fixture_wait(slice, FGT_WAIT_DESCRIPTOR, 0, text);
	}
	assert_int_equal(fgt_reasons_apply(slice), 0);
	assert_string_equal(name_of(slice, 0), "epoll_wait /data/0");
	assert_string_equal(name_of(slice, runs - 1), "epoll_wait");
	for (uint32_t i = 0; i < runs; i++)
		assert_true(fgt_state_is_blocked(slice->runs[i].state));
	fgt_ring_slice_free(slice);
}

static int check_shown(const struct fgt_ring_slice *slice,
		       const struct fgt_format_options *options,
		       const struct fgt_sink *sink)
{
	(void)options;
	(void)sink;
	assert_string_equal(name_of(slice, 0), "epoll_wait pipe");
	assert_string_equal(fgt_slice_string(slice, slice->threads[0].name),
			    "worker");
	return -E2BIG;
}

static void slice_of_another_owner_stays(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t strings;

	(void)state;
	fixture_run(slice, fixture_thread(slice, 10, "worker"), 0, TICKS,
		    fixture_stack(slice, "main;work"), CALL);
	fixture_wait(slice, FGT_WAIT_DESCRIPTOR, 0, "pipe:[1]");
	strings = slice->strings.count;
	assert_int_equal(fgt_reasons_write(slice, NULL, NULL, check_shown),
			 -E2BIG);
	assert_int_equal(slice->runs[0].state, CALL);
	assert_int_equal(slice->strings.count, strings);
	assert_string_equal(name_of(slice, 0), "epoll_wait");
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_name_themselves_and_their_holder),
		cmocka_unit_test(descriptors_are_named_by_what_they_are),
		cmocka_unit_test(event_loops_name_kinds_of_descriptors),
		cmocka_unit_test(a_poll_has_one_name_from_its_beginning_on),
		cmocka_unit_test(equal_reasons_are_one_state),
		cmocka_unit_test(too_many_reasons_keep_the_state),
		cmocka_unit_test(slice_of_another_owner_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
