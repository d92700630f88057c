/* SPDX-License-Identifier: Apache-2.0 */
/* What threads waited for, as the summary of a slice has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/output/explanation.h"
#include "agent/cli/summary/summary.h"
#include "ringbuf/slice/merge.h"
#include "ringbuf/slice/pace.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 100

static void name_object(struct fgt_ring_slice *slice,
			struct fgt_slice_wait *wait, const char *object)
{
	wait->address = 0x1000;
	assert_int_equal(fgt_strings_intern(&slice->strings, object,
					    strlen(object), &wait->object),
			 0);
}

/* Three workers wait for a lock that two threads hold one after the other. */
static struct fgt_ring_slice *convoy(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t waits = fixture_stack(
		slice, "libc.so.6!start_thread;serve;lookup;"
		       "libc.so.6!pthread_mutex_lock;libc.so.6!futex_wait");
	uint32_t sleeps = fixture_stack(slice, "libc.so.6!start_thread;tend;"
					       "libc.so.6!epoll_wait");
	struct fgt_slice_wait *wait;
	char name[32];

	for (int32_t i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "worker-%d", i);
		fixture_thread(slice, 10 + i, name);
	}
	fixture_thread(slice, 20, "maint");
	fixture_thread(slice, 21, "flusher");
	for (uint32_t thread = 0; thread < 3; thread++) {
		fixture_run(slice, thread, 0, 70, waits, FIXTURE_FUTEX);
		wait = fixture_wait(slice, FGT_WAIT_MUTEX, 20, "");
		name_object(slice, wait, "g_lock");
		fixture_run(slice, thread, 70, 30, waits, FIXTURE_FUTEX);
		wait = fixture_wait(slice, FGT_WAIT_MUTEX, 21, "");
		name_object(slice, wait, "g_lock");
	}
	fixture_run(slice, 3, 0, TICKS, sleeps, FIXTURE_EPOLL);
	fixture_wait(slice, FGT_WAIT_EVENTS, 0, "");
	fixture_run(slice, 4, 0, 50, sleeps, FIXTURE_EPOLL);
	fixture_wait(slice, FGT_WAIT_EVENTS, 0, "");
	return slice;
}

static void waits_are_summed_by_threads_and_lock(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = convoy();
	FGT_AUTO(fgt_summary_waits_free) struct fgt_summary_waits *waits = NULL;
	struct fgt_words words;

	(void)state;
	assert_int_equal(fgt_summary_waits_new(slice, &waits), 0);
	assert_int_equal(waits->samples, 3 * TICKS + TICKS + 50);
	assert_int_equal(waits->row_count, 3);
	assert_int_equal(waits->rows[0].samples, 3 * TICKS);
	assert_int_equal(waits->rows[0].threads, 3);
	fgt_summary_waits_threads(waits, &waits->rows[0], &words);
	assert_string_equal(words.text, "worker-* (3)");
	/* The holder for most of the time, and that there are others. */
	fgt_summary_waits_words(waits, &waits->rows[0], &words);
	assert_string_equal(words.text,
			    "lookup → pthread_mutex_lock: mutex g_lock, held "
			    "by maint (tid 20), and others");
	fgt_summary_waits_threads(waits, &waits->rows[1], &words);
	assert_string_equal(words.text, "maint");
}

static void notifications_without_a_name_are_alike(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	FGT_AUTO(fgt_summary_waits_free) struct fgt_summary_waits *waits = NULL;
	uint32_t stack = fixture_stack(slice, "main;work;libc.so.6!wait");
	struct fgt_words words;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t thread = fixture_thread(slice, 10 + (int32_t)i, "job");

		fixture_run(slice, thread, 0, TICKS, stack, FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_NOTIFICATION, 0, "")->address =
			0x1000 + i;
	}
	assert_int_equal(fgt_summary_waits_new(slice, &waits), 0);
	assert_int_equal(waits->row_count, 1);
	fgt_summary_waits_words(waits, &waits->rows[0], &words);
	assert_string_equal(words.text, "work → wait: notification");
}

static char *print(const struct fgt_ring_slice *slice,
		   const struct fgt_summary *summary)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	assert_non_null(file);
	fgt_summary_print_line(slice, summary, file);
	fgt_summary_print_tables(summary, 2, 40, file);
	fclose(file);
	return text;
}

static void summary_has_waits_where_nothing_ran(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = convoy();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	char *text;

	(void)state;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	text = print(slice, summary);
	assert_non_null(strstr(text, "longest wait (67 % of all): worker-* "
				     "(3): lookup → pthread_mutex_lock"));
	assert_non_null(strstr(text, "share of the 450 blocked samples"));
	assert_non_null(strstr(text, "  22.2 %  maint "));
	assert_null(strstr(text, "  11.1 %  flusher ")); /* the third */
	free(text);
}

/* A process whose first thread and one more wait for the same. */
static struct fgt_ring_slice *backend(int32_t pid, const char *name)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t stack = fixture_stack(slice, "main;work;libc.so.6!wait");

	slice->process.pid = pid;
	snprintf(slice->process.name, sizeof(slice->process.name), "%s", name);
	for (int32_t i = 0; i < 2; i++) {
		fixture_thread(slice, pid + i, i ? "worker-1" : name);
		fixture_run(slice, (uint32_t)i, 0, TICKS, stack, FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_NOTIFICATION, 0, "");
	}
	return slice;
}

#define SERVER "server: master process /usr/sbin/server"

/* Two of the same name, and one of another. */
static void processes_are_distinguished(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = backend(100, "backend");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = backend(200, "backend");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *c = backend(300, SERVER);
	const struct fgt_ring_slice *slices[] = { a, b, c };
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *all = NULL;
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	struct fgt_words words;
	static const char *const names[] = {
		"backend (2: pid 100, 200)",
		"worker-* of backend (2: pid 100, 200)",
		SERVER " (pid 300)",
		"worker-1 (pid 300)",
	};
	char *text;

	(void)state;
	assert_int_equal(fgt_slice_merge(slices, 3, &all), 0);
	assert_int_equal(fgt_summary_new(all, &summary), 0);
	assert_int_equal(summary->waits->row_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		fgt_summary_waits_threads(summary->waits,
					  &summary->waits->rows[i], &words);
		assert_string_equal(words.text, names[i]);
	}
	text = print(all, summary);
	/* A column is as wide as its longest name. */
	assert_non_null(strstr(
		text, "\n  thread                                       pid"
		      "      tid  samples"));
	assert_non_null(
		strstr(text, "\n  " SERVER "      300      300      100"));
	assert_non_null(strstr(
		text, "\n  worker-1                                     300"
		      "      301      100"));
	free(text);
}

static char *explain(struct fgt_ring_slice *slice, uint32_t first,
		     uint32_t last, enum fgt_form form)
{
	static const struct fgt_filter all_threads;
	FGT_AUTO(fgt_explanation_free)
	struct fgt_explanation *explanation = NULL;
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	assert_int_equal(fgt_explain(slice, slice->tick_ns[first],
				     slice->tick_ns[last], 0, &all_threads,
				     &explanation),
			 0);
	assert_int_equal(
		fgt_explanation_print(explanation, form, "a", "b", file), 0);
	fclose(file);
	return text;
}

/* A range of 20 ticks, each of which stands for four periods. */
static void ticks_of_a_lowered_rate_are_not_missed(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(100);
	uint32_t thread = fixture_thread(slice, 1, "t");
	char *text;

	(void)state;
	fixture_run(slice, thread, 0, 100, fixture_stack(slice, "main;f"),
		    FGT_STATE_RUNNING);
	assert_int_equal(fgt_pace_add(slice, 0, 4), 0);
	for (uint64_t i = 0; i < 100; i++)
		slice->tick_ns[i] += 3 * i * FIXTURE_PERIOD_NS;
	text = explain(slice, 40, 59, FGT_FORM_TEXT);
	assert_non_null(strstr(text, "20 ticks\n"));
	free(text);
	/* Of 25 of that rate five came too late. */
	for (uint64_t i = 50; i < 100; i++)
		slice->tick_ns[i] += 20 * FIXTURE_PERIOD_NS;
	text = explain(slice, 40, 59, FGT_FORM_TEXT);
	assert_non_null(strstr(text, "20 ticks (5 missed)\n"));
	free(text);
	for (enum fgt_form form = FGT_FORM_TEXT; form <= FGT_FORM_JSON;
	     form++) {
		text = explain(slice, 40, 59, form);
		assert_non_null(strstr(text, "a tick there counts as up to 4 "
					     "samples of a thread"));
		free(text);
	}
}

static void few_windows_are_no_baseline(void **state)
{
	static const struct {
		uint32_t first, last;
		const char *text;
	} cases[] = {
		{ 10, 95, "has no other window of" },
		{ 40, 79, "has only 1 other window of" },
		{ 0, 29, "has only 2 other windows of" },
	};
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(100);

	(void)state;
	fixture_run(slice, fixture_thread(slice, 1, "t"), 0, 100,
		    fixture_stack(slice, "main;f"), FGT_STATE_RUNNING);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = explain(slice, cases[i].first, cases[i].last,
				     FGT_FORM_TEXT);

		assert_non_null(strstr(text, cases[i].text));
		free(text);
	}
}

/* By the summary, and by why in each form. */
static void lost_wakes_are_counted_in_a_line(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(100);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	const struct fgt_summary_fate fate = { .path = "x" };
	FILE *file = tmpfile();
	char text[4096] = "", *why;

	(void)state;
	fixture_run(slice, fixture_thread(slice, 1, "t"), 0, 100,
		    fixture_stack(slice, "main;f"), FGT_STATE_RUNNING);
	slice->lost_wakes = 31;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	fgt_summary_print_line(slice, summary, file);
	assert_int_equal(fgt_summary_print_json(slice, summary, 1, &fate, file),
			 0);
	rewind(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_non_null(strstr(text, "\n31 wake-ups found no room: "));
	assert_non_null(strstr(text, "\"lost_wakes\":31,"));
	why = explain(slice, 40, 59, FGT_FORM_TEXT);
	assert_non_null(strstr(why, "; what ended some waits: 31 wake-ups"));
	free(why);
	why = explain(slice, 40, 59, FGT_FORM_JSON);
	assert_non_null(strstr(why, "\"lost_wakes\":31,"));
	free(why);
	slice->lost_wakes = 0;
	why = explain(slice, 40, 59, FGT_FORM_TEXT);
	assert_null(strstr(why, "what ended some waits"));
	free(why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_are_summed_by_threads_and_lock),
		cmocka_unit_test(notifications_without_a_name_are_alike),
		cmocka_unit_test(summary_has_waits_where_nothing_ran),
		cmocka_unit_test(processes_are_distinguished),
		cmocka_unit_test(ticks_of_a_lowered_rate_are_not_missed),
		cmocka_unit_test(few_windows_are_no_baseline),
		cmocka_unit_test(lost_wakes_are_counted_in_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
