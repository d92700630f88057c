/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a summary shows of slices built by hand. Runs in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/summary/summary.h"
#include "ringbuf/slice/frame.h"
#include "ringbuf/slice/pace.h"
#include "tests/unit/ringbuf/slice_fixture.h"

static const struct fgt_summary_function *
find(const struct fgt_summary *summary, const char *name)
{
	for (uint32_t i = 0; i < summary->function_count; i++) {
		if (strcmp(summary->functions[i].name, name) == 0)
			return &summary->functions[i];
	}
	fail_msg("no function %s", name);
	return NULL;
}

/*
 * Thread 100 runs main;work;hash 30 ticks, main;work 10, waits in
 * main;loop;epoll_wait 60; thread 101 sleeps in start;wait for all 100.
 */
static struct fgt_ring_slice *make_slice(void)
{
	struct fgt_ring_slice *slice = fixture_new(100);
	uint32_t busy = fixture_thread(slice, 100, "busy");
	uint32_t idle = fixture_thread(slice, 101, "idle");

	fixture_run(slice, busy, 0, 30, fixture_stack(slice, "main;work;hash"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, busy, 30, 10, fixture_stack(slice, "main;work"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, busy, 40, 60,
		    fixture_stack(slice, "main;loop;epoll_wait"),
		    FIXTURE_EPOLL);
	fixture_run(slice, idle, 0, 100, fixture_stack(slice, "start;wait"),
		    FIXTURE_FUTEX);
	assert_true(fgt_slice_is_valid(slice));
	return slice;
}

static void self_and_total_are_of_running_samples(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;

	(void)state;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(summary->samples, 200);
	assert_int_equal(summary->running, 40);
	assert_string_equal(summary->functions[0].name, "hash");
	assert_string_equal(summary->functions[1].name, "work");
	assert_int_equal(find(summary, "hash")->self, 30);
	assert_int_equal(find(summary, "work")->self, 10);
	assert_int_equal(find(summary, "work")->total, 40);
	assert_int_equal(find(summary, "main")->self, 0);
	assert_int_equal(find(summary, "main")->total, 40);
	assert_int_equal(find(summary, "main")->wall, 100);
	assert_int_equal(find(summary, "epoll_wait")->total, 0);
	assert_int_equal(find(summary, "epoll_wait")->wall, 60);
	assert_int_equal(find(summary, "wait")->wall, 100);
}

/* The last 50 ticks stand for 4 periods each: shares are of time. */
static void ticks_at_a_lowered_rate_weigh_more(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 50, 4), 0);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(summary->threads[0].samples, 50 + 200);
	assert_int_equal(summary->threads[0].running, 40);
	assert_int_equal(summary->threads[0].states[0].samples, 10 + 200);
	assert_int_equal(summary->threads[0].complete, 250);
	assert_int_equal(find(summary, "epoll_wait")->wall, 210);
	assert_int_equal(summary->running, 40);
}

static void threads_are_split_into_running_and_blocked(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;

	(void)state;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(summary->thread_count, 2);
	assert_int_equal(summary->threads[0].tid, 100);
	assert_int_equal(summary->threads[0].running, 40);
	assert_int_equal(summary->threads[0].samples, 100);
	assert_int_equal(summary->threads[0].state_count, 1);
	assert_string_equal(summary->threads[0].states[0].name, "epoll_wait");
	assert_int_equal(summary->threads[0].states[0].samples, 60);
	assert_int_equal(summary->threads[1].running, 0);
	assert_string_equal(summary->threads[1].states[0].name, "futex");
	assert_int_equal(summary->threads[1].states[0].samples, 100);
}

/* part: "" if nothing is printed. */
static void expect_nameless(const struct fgt_summary *summary, const char *part)
{
	FGT_AUTO(free) void *bytes = NULL;
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	fgt_nameless_print(&summary->nameless, summary->samples, file);
	fclose(file);
	bytes = text;
	assert_true(*part ? strstr(text, part) != NULL : !*text);
}

/* Those of libc do not count. */
static void functions_without_names_are_reported_with_the_remedy(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(100);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint32_t thread = fixture_thread(slice, 1, "t"), node;

	(void)state;
	fixture_run(slice, thread, 0, 20,
		    fixture_stack(slice, "app!main;libapp.so!libapp.so!0x40"),
		    FGT_STATE_RUNNING);
	node = fixture_stack(slice, "app!main;libc.so.6!libc.so.6!0x80");
	fixture_run(slice, thread, 20, 70, node, FIXTURE_FUTEX);
	fixture_run(slice, thread, 90, 10, fixture_stack(slice, "[anon]+0x1"),
		    FGT_STATE_RUNNING);
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		struct fgt_symbol *symbol =
			&slice->symbols[slice->frames[i].symbol_first];
		const char *name = fgt_slice_string(slice, symbol->function);

		if (strstr(name, "!0x"))
			symbol->reason = FGT_SYMBOL_STRIPPED;
		if (strstr(name, "+0x"))
			symbol->reason = FGT_SYMBOL_NO_MAP;
	}
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(summary->nameless.stripped, 20);
	assert_int_equal(summary->nameless.compiled, 10);
	summary->nameless.compiled = 11;
	expect_nameless(summary, "20 % of all samples are in functions "
				 "without names, most of them of ");
	expect_nameless(summary, "libapp.so: install its debug package");
	expect_nameless(summary, "11 % of all samples are in code");
	summary->nameless.stripped = summary->nameless.compiled = 10;
	expect_nameless(summary, "33 % of the running samples are in code");
	summary->nameless.running_compiled = 3;
	expect_nameless(summary, "");
}

static void recursion_counts_once(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint32_t thread = fixture_thread(slice, 100, "t");

	(void)state;
	fixture_run(slice, thread, 0, 10, fixture_stack(slice, "f;g;f;g;f"),
		    FGT_STATE_RUNNING);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(find(summary, "f")->self, 10);
	assert_int_equal(find(summary, "f")->total, 10);
	assert_int_equal(find(summary, "g")->self, 0);
	assert_int_equal(find(summary, "g")->total, 10);
}

static char *print_tables(const struct fgt_summary *summary)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	assert_non_null(file);
	fgt_summary_print_tables(summary, 10, 40, file);
	fclose(file);
	return text;
}

static void table_of_threads_names_how_to_see_all(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint32_t stack = fixture_stack(slice, "main");
	char *text = NULL;
	size_t len;
	FILE *file;

	(void)state;
	for (int32_t tid = 100; tid < 103; tid++)
		fixture_run(slice, fixture_thread(slice, tid, "t"), 0, 10,
			    stack, FGT_STATE_RUNNING);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	file = open_memstream(&text, &len);
	assert_non_null(file);
	fgt_summary_print_tables(summary, 0, 2, file);
	fclose(file);
	assert_non_null(strstr(text, "  101 "));
	assert_null(strstr(text, "  102 "));
	assert_null(strstr(text, "hottest functions"));
	assert_non_null(strstr(text, "and 1 more: --threads 0 shows all"));
	free(text);
}

static void remarks_belong_to_the_function_below(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(30);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint32_t thread = fixture_thread(slice, 100, "t");
	char unsure[64], *text;

	(void)state;
	fixture_run(slice, thread, 0, 10, fixture_stack(slice, "main;write;#1"),
		    FGT_STATE_RUNNING);
	/* The last stack known: its function, and counted as such. */
	snprintf(unsure, sizeof(unsure), "main;poll;#%d",
		 FGT_MARKER_NOT_SAMPLED);
	fixture_run(slice, thread, 10, 5, fixture_stack(slice, unsure),
		    FGT_STATE_RUNNING);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(find(summary, "write")->self, 10);
	assert_int_equal(find(summary, "poll")->self, 5);
	assert_int_equal(summary->not_sampled, 5);
	assert_int_equal(summary->function_count, 3);
	text = print_tables(summary);
	assert_non_null(strstr(text, "33 % were not sampled"));
	free(text);
	assert_int_equal(find(summary, "main")->total, 15);
}

/* It wants a CPU: not blocked, and in no share of what ran. */
static void runnable_is_neither_running_nor_blocked(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(40);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint32_t thread = fixture_thread(slice, 100, "t");
	uint32_t spin = fixture_stack(slice, "main;spin");
	char *text;

	(void)state;
	fixture_run(slice, thread, 0, 10, spin, FGT_STATE_RUNNING);
	fixture_run(slice, thread, 10, 20, spin, FGT_STATE_RUNNABLE);
	fixture_run(slice, thread, 30, 10, fixture_stack(slice, "main;wait"),
		    FIXTURE_FUTEX);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(summary->running, 10);
	assert_int_equal(summary->runnable, 20);
	assert_int_equal(summary->threads[0].runnable, 20);
	assert_int_equal(summary->threads[0].state_count, 1);
	assert_int_equal(find(summary, "spin")->self, 10);
	assert_int_equal(find(summary, "spin")->wall, 30);
	text = print_tables(summary);
	assert_non_null(strstr(text, "of the 10 running samples"));
	assert_non_null(strstr(text, " 25.0 %    50.0 %   25.0 %  futex 25"));
	free(text);
}

static void truncated_stacks_are_not_complete(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(40);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint32_t thread = fixture_thread(slice, 100, "t");
	char cut[64];

	(void)state;
	snprintf(cut, sizeof(cut), "#%d;work", FGT_MARKER_TRUNCATED_NO_CFI);
	fixture_run(slice, thread, 0, 30, fixture_stack(slice, "main;work"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, thread, 30, 5, fixture_stack(slice, cut),
		    FGT_STATE_RUNNING);
	fixture_run(slice, thread, 35, 5, FGT_NODE_NONE, FGT_STATE_UNKNOWN);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(summary->samples, 40);
	assert_int_equal(summary->complete, 30);
	assert_int_equal(find(summary, "work")->self, 35);
}

static void rich_slice_is_summed_without_loss(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint64_t samples = 0, running = 0, self = 0;

	(void)state;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		samples += slice->runs[i].tick_count;
		if (slice->runs[i].state == FGT_STATE_RUNNING &&
		    slice->runs[i].stack != FGT_NODE_NONE)
			running += slice->runs[i].tick_count;
	}
	assert_int_equal(summary->samples, samples);
	for (uint32_t i = 0; i < summary->function_count; i++) {
		self += summary->functions[i].self;
		assert_true(summary->functions[i].self <=
			    summary->functions[i].total);
		assert_true(summary->functions[i].total <=
			    summary->functions[i].wall);
	}
	assert_true(self > 0 && self <= running);
}

/* Fault U8. */
static void names_cannot_move_the_cursor(void **state)
{
	char text[64] = { 0 };
	FILE *file = fmemopen(text, sizeof(text), "w");

	(void)state;
	fgt_print_text(file, "a\n\033[2Jb\x7f", 64);
	fputc('|', file);
	/* C1 controls, and bytes that are not UTF-8. */
	fgt_print_text(file,
		       "\xc2\x9b"
		       "2J\xff\x9b",
		       8);
	fputc('|', file);
	fgt_print_padded(file, "\xc3\xa4", 3);
	/* In a file nothing is cut. */
	fgt_print_padded(file, "|abcdefghij", 8);
	fclose(file);
	assert_string_equal(text, "a??[2Jb?|?2J??|\xc3\xa4  |abcdefghij");
}

static void json_is_one_object_on_one_line(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	const struct fgt_summary_fate fate = { .path = "x\"\n.folded",
					       .format = "folded",
					       .bytes = 12 };
	char *text = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&text, &len);

	(void)state;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(fgt_summary_print_json(slice, summary, 1, &fate, file),
			 0);
	fclose(file);
	assert_ptr_equal(strchr(text, '\n'), text + len - 1);
	assert_non_null(strstr(text, "\"functions\":[{\"id\":\"f-"));
	assert_non_null(strstr(text, "\"name\":\"hash\",\"self\":30,"
				     "\"total\":30,\"wall\":30}]"));
	assert_non_null(strstr(text, "\"running\":40,\"runnable\":0,"));
	assert_non_null(strstr(text, "\"state\":\"epoll_wait\","
				     "\"samples\":60"));
	assert_non_null(strstr(text, "\"path\":\"x\\\"\\u000a.folded\""));
	free(text);
}

static void json_returns_the_error_where_it_cannot_be_written(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	const struct fgt_summary_fate fate = { .bytes = 0 };
	int ends[2];
	FILE *file = fopen("/dev/full", "we");

	(void)state;
	assert_non_null(file);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(fgt_summary_print_json(slice, summary, 1, &fate, file),
			 -ENOSPC);
	fclose(file);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	file = fdopen(ends[1], "w");
	assert_non_null(file);
	assert_int_equal(fgt_summary_print_json(slice, summary, 1, &fate, file),
			 -EPIPE);
	fclose(file);
}

static void missing_ticks_are_reported_where_they_are_many(void **state)
{
	char text[FGT_MISSED_TEXT_MAX];

	(void)state;
	assert_string_equal(fgt_missed_text(1000, 50, text), "");
	assert_string_equal(fgt_missed_text(0, 0, text), "");
	assert_string_equal(fgt_missed_text(317, 260, text),
			    "260 of 577 ticks are missing: the sampler got no "
			    "CPU in time, or waited for a file or process that "
			    "its log names: shares are of the other 317, "
			    "and may be wrong");
	fgt_missed_text(UINT64_MAX / 2, UINT64_MAX / 2, text);
	assert_true(strlen(text) < sizeof(text) - 1);
}

static char *print_line(const struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	assert_non_null(file);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	fgt_summary_print_line(slice, summary, file);
	fclose(file);
	return text;
}

/* Not "shorter than a tick", and not as if it were missing from the slice. */
static void time_beside_looks_is_called_so(void **state)
{
	char text[FGT_BRIEF_TEXT_MAX];

	(void)state;
	assert_string_equal(fgt_brief_text(0, 19999999, text), "");
	assert_string_equal(fgt_brief_text(0, 1320000000, text),
			    "no look saw 1.32 s of CPU time, of short threads "
			    "and of the ends of others; ticks that fell into "
			    "it are shown");
	assert_string_equal(fgt_brief_text(4, 70000000, text),
			    "4 threads ended before the first look at them, "
			    "after 0.07 s of CPU time; ticks that found them "
			    "are shown");
	assert_non_null(strstr(fgt_brief_text(1, 0, text), "1 thread ended"));
	fgt_brief_text(UINT64_MAX, UINT64_MAX, text);
	assert_true(strlen(text) < sizeof(text) - 1);
}

static void kernel_that_may_not_be_sampled_has_a_remedy(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	char denied[64], *text;

	(void)state;
	text = print_line(slice);
	assert_null(strstr(text, "perf_event_paranoid"));
	free(text);
	snprintf(denied, sizeof(denied), "main;work;#%d",
		 FGT_MARKER_KERNEL_DENIED);
	/* 10 of the 40 running samples, and none of those that wait. */
	slice->runs[1].stack = fixture_stack(slice, denied);
	slice->runs[2].stack = slice->runs[1].stack;
	text = print_line(slice);
	assert_non_null(strstr(text, "\n25 % of the running samples are in the "
				     "kernel"));
	assert_non_null(strstr(text, "kernel.perf_event_paranoid = 1"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(self_and_total_are_of_running_samples),
		cmocka_unit_test(ticks_at_a_lowered_rate_weigh_more),
		cmocka_unit_test(threads_are_split_into_running_and_blocked),
		cmocka_unit_test(
			missing_ticks_are_reported_where_they_are_many),
		cmocka_unit_test(
			functions_without_names_are_reported_with_the_remedy),
		cmocka_unit_test(recursion_counts_once),
		cmocka_unit_test(time_beside_looks_is_called_so),
		cmocka_unit_test(kernel_that_may_not_be_sampled_has_a_remedy),
		cmocka_unit_test(table_of_threads_names_how_to_see_all),
		cmocka_unit_test(remarks_belong_to_the_function_below),
		cmocka_unit_test(runnable_is_neither_running_nor_blocked),
		cmocka_unit_test(truncated_stacks_are_not_complete),
		cmocka_unit_test(rich_slice_is_summed_without_loss),
		cmocka_unit_test(names_cannot_move_the_cursor),
		cmocka_unit_test(json_is_one_object_on_one_line),
		cmocka_unit_test(
			json_returns_the_error_where_it_cannot_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
