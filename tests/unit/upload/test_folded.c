/* SPDX-License-Identifier: Apache-2.0 */
/* Folded stacks: whole outputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/slice/pace.h"
#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

static void assert_folded(struct fgt_ring_slice *slice,
			  enum fgt_state_frames state_frames,
			  const char *expected)
{
	const struct fgt_format_options options = { .state_frames =
							    state_frames };
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_FOLDED, &options, &sink), 0);
	assert_string_equal(buffer.bytes ? buffer.bytes : "", expected);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void rich_slice_folds_root_first(void **state)
{
	(void)state;
	assert_folded(fixture_rich(), FGT_STATE_FRAMES_ROOT,
		      "epoll_wait;main;loop;epoll_wait 11\n"
		      "futex g_lock+0x8 ← app;[stack unknown] 30\n"
		      "running;[truncated: no unwind rule];worker;"
		      "[kernel: not permitted] 10\n"
		      "running;main;loop;ns::work(char const*);clamp<int> 5\n"
		      "running;main;loop;ns::work(char const*);clamp<int>;"
		      "0xabcdef 45\n");
	assert_folded(
		fixture_rich(), FGT_STATE_FRAMES_LEAF,
		"[stack unknown];futex g_lock+0x8 ← app 30\n"
		"[truncated: no unwind rule];worker;[kernel: not permitted];"
		"running 10\n"
		"main;loop;epoll_wait;epoll_wait 11\n"
		"main;loop;ns::work(char const*);clamp<int>;0xabcdef;running "
		"45\n"
		"main;loop;ns::work(char const*);clamp<int>;running 5\n");
}

/* Same text from different nodes, threads and states: one line. */
static void equal_stacks_are_one_line(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t root = fixture_stack(slice, "main");
	uint32_t a = fixture_node(slice, root, fixture_frame(slice, "work"));
	uint32_t b = fixture_node(slice, root, fixture_frame(slice, "work"));

	(void)state;
	fixture_thread(slice, 4242, "one");
	fixture_thread(slice, 4243, "two");
	fixture_run(slice, 0, 0, 4, a, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 4, 3, b, FIXTURE_FUTEX);
	fixture_run(slice, 1, 0, 10, b, FGT_STATE_RUNNING);
	assert_int_not_equal(a, b);
	assert_folded(slice, FGT_STATE_FRAMES_NO, "main;work 17\n");
}

/* Fault U8. */
static void hostile_names_cannot_forge_lines(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	uint32_t node = FGT_NODE_NONE;
	static const char *const names[] = { "a;b 7\nc 9", "\x1b[31m\xff",
					     "operator new" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		node = fixture_node(slice, node,
				    fixture_frame(slice, names[i]));
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 2, node, FGT_STATE_RUNNING);
	assert_folded(slice, FGT_STATE_FRAMES_NO,
		      "a:b 7 c 9; [31m\xef\xbf\xbd;operator new 2\n");
}

/* Names that become equal by what is replaced share a line. */
static void names_equal_after_replacement_share_a_line(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_run(
		slice, 0, 0, 1,
		fixture_node(slice, FGT_NODE_NONE, fixture_frame(slice, "a;b")),
		FGT_STATE_RUNNING);
	fixture_run(
		slice, 0, 1, 1,
		fixture_node(slice, FGT_NODE_NONE, fixture_frame(slice, "a:b")),
		FGT_STATE_RUNNING);
	assert_folded(slice, FGT_STATE_FRAMES_NO, "a:b 2\n");
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void assert_sorted(char *text)
{
	char *lines[100], *sorted[100], *rest = text, *line;
	size_t count = 0;

	while ((line = strsep(&rest, "\n")) && *line) {
		assert_true(count < 100);
		lines[count] = sorted[count] = line;
		count++;
	}
	assert_true(count > 10);
	qsort(sorted, count, sizeof(sorted[0]), by_bytes);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(lines[i], sorted[i]);
}

/* Prefixes of each other, with what sorts before and after ';' and ' '. */
static void lines_come_in_byte_order(void **state)
{
	static const char *const stacks[] = {
		"foo",	      "foo;x",	    "foo;x;y",	     "foo::bar",
		"foo::bar;x", "foo bar",    "foo bar;z",     "foo!",
		"foo!;a",     "foo<int>;q", "foo 5",	     "foo 5;r",
		"fo",	      "foo;x::y",   "foo;x (clone)", "foo;x 1",
		"zoo",	      "~dtor;b",    "\xc3\xa4;b",    "foo;xx;a",
	};
	const size_t count = sizeof(stacks) / sizeof(stacks[0]);
	struct fgt_ring_slice *slice = fixture_new(40);
	const struct fgt_format_options options = {
		.state_frames = FGT_STATE_FRAMES_NO
	};
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fixture_thread(slice, 4242, "main");
	for (uint32_t i = 0; i < count; i++)
		fixture_run(slice, 0, i, 1,
			    fixture_stack(slice, stacks[(i * 7) % count]),
			    FGT_STATE_RUNNING);
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_FOLDED, &options, &sink), 0);
	assert_sorted(buffer.bytes);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* 10 ticks of one period, then 10 that stand for 8 each. */
static void ticks_at_a_lowered_rate_count_for_more(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(20);

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 10, 8), 0);
	for (uint32_t i = 10; i < 20; i++)
		slice->tick_ns[i] = slice->tick_ns[9] + FIXTURE_PERIOD_NS +
				    (i - 10) * 8 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 12, "a", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 12, 8, fixture_stack(slice, "b"),
		    FGT_STATE_RUNNING);
	assert_folded(slice, FGT_STATE_FRAMES_NO, "a 26\nb 64\n");
}

static void slice_without_runs_is_empty(void **state)
{
	(void)state;
	assert_folded(fixture_new(3), FGT_STATE_FRAMES_ROOT, "");
}

/* The holder of a lock goes from one function to another while a thread
 * waits. */
static void holders_follow_those_that_wait(void **state)
{
	const struct fgt_format_options options = {
		.state_frames = FGT_STATE_FRAMES_NO,
		.with_waits = true,
	};
	struct fgt_ring_slice *slice = fixture_new(20);
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fixture_thread(slice, 10, "worker");
	fixture_thread(slice, 20, "maint");
	fixture_run(slice, 0, 0, 20, fixture_stack(slice, "main;lookup;lock"),
		    FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 20, "");
	fixture_run(slice, 1, 5, 10, fixture_stack(slice, "main;rebuild"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 1, 15, 5, fixture_stack(slice, "main;flush;write"),
		    FGT_STATE_RUNNING);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_FOLDED, &options, &sink), 0);
	assert_string_equal(
		buffer.bytes,
		"main;flush;write 5\n"
		"main;lookup;lock 5\n" /* before the holder was seen */
		"main;lookup;lock;--;rebuild;main;maint 10\n"
		"main;lookup;lock;--;write;flush;main;maint 5\n"
		"main;rebuild 10\n");
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Of a wait that is no lock's, the thread that ended it; of a thread that got a
 * CPU before it was woken, the ticks after that only. */
static void wakers_follow_those_that_they_wake(void **state)
{
	const struct fgt_format_options options = {
		.state_frames = FGT_STATE_FRAMES_NO,
		.with_waits = true,
	};
	struct fgt_ring_slice *slice = fixture_new(20);
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	uint32_t wait = fixture_stack(slice, "main;wait");

	(void)state;
	fixture_thread(slice, 10, "worker");
	fixture_thread(slice, 20, "napper");
	fixture_run(slice, 0, 0, 12, wait, FIXTURE_FUTEX);
	fixture_run(slice, 0, 12, 8, fixture_stack(slice, "main;work"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 1, 0, 20, wait, FIXTURE_EPOLL);
	fixture_edge(slice, 1, 5, 100, 200);
	fixture_wake(slice, 0, 55, 30, fixture_stack(slice, "loop;post"));
	fixture_wake(slice, 0, 115, 30, fixture_stack(slice, "loop;signal"));
	fixture_wake(slice, 1, 105, 30, fixture_stack(slice, "loop;post"));
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_FOLDED, &options, &sink), 0);
	assert_string_equal(buffer.bytes, "main;wait 14\n"
					  "main;wait;--;post;loop;waker 12\n"
					  "main;wait;--;signal;loop;waker 6\n"
					  "main;work 8\n");
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rich_slice_folds_root_first),
		cmocka_unit_test(equal_stacks_are_one_line),
		cmocka_unit_test(hostile_names_cannot_forge_lines),
		cmocka_unit_test(names_equal_after_replacement_share_a_line),
		cmocka_unit_test(lines_come_in_byte_order),
		cmocka_unit_test(ticks_at_a_lowered_rate_count_for_more),
		cmocka_unit_test(slice_without_runs_is_empty),
		cmocka_unit_test(holders_follow_those_that_wait),
		cmocka_unit_test(wakers_follow_those_that_they_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
