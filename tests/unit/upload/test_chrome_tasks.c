/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks, spans, marks and counters as events of a Chrome trace. */
#include "tests/unit/upload/chrome_kit.h"

/* ph and name of what is on the tasks' tracks, marks and counters: "B a|E
 * a". */
static void shown(const struct fgt_ring_slice *slice, char *text, size_t size)
{
	struct fixture_buffer buffer = write_chrome(slice, FGT_STATE_FRAMES_NO);
	const char *line = buffer.bytes;
	size_t at = 0;

	text[0] = 0;
	while ((line = strstr(line, "\n{\"name\":\""))) {
		char name[80], phase;
		double ts = 0;
		unsigned int pid, tid;

		line++;
		if (sscanf(line,
			   "{\"name\":\"%79[^\"]\",\"ph\":\"%c\",\"pid\":%u,"
			   "\"tid\":%u,\"ts\":%lf",
			   name, &phase, &pid, &tid, &ts) != 5 ||
		    phase == 'M')
			continue;
		at += (size_t)snprintf(text + at, size - at, "%s%c %s %.0f",
				       at ? "|" : "", phase, name, ts / 1000);
		assert_true(at < size);
	}
	fixture_buffer_done(&buffer);
}

static void assert_shown(const struct fgt_ring_slice *slice,
			 const char *expected)
{
	char text[2048];

	assert_true(fgt_slice_is_valid(slice));
	shown(slice, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void tasks_hold_spans_and_arrows_lead_to_children(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);

	(void)state;
	fixture_task(slice, 1, "parent#0", 10, 80, 0);
	fixture_task(slice, 2, "child#0", 20, 70, 1);
	fixture_span(slice, 1, 0, "outer", 30, 60);
	fixture_span(slice, 1, 1, "inner", 40, 50);
	assert_shown(slice,
		     "B parent#0 10|E parent#0 80|B child#0 20|"
		     "s child-task 20|f child-task 20|B outer 30|B inner 40|"
		     "E inner 50|E outer 60|E child#0 70");
}

static void parts_outside_of_the_slice_are_cut_off(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);

	(void)state;
	/* The slice lasts from 0 to 100 ms. */
	fixture_task(slice, 1, "open#0", -50, 0, 0);
	fixture_task(slice, 2, "early#0", -40, 300, 1); /* no arrow: before */
	fixture_span(slice, 0, 0, "over", -45, -30);
	fixture_span(slice, 0, 0, "begun", -20, 30);
	fixture_span(slice, 0, 1, "within", -10, -5);
	fixture_span(slice, 0, 0, "later", 150, 160);
	assert_shown(slice, "B open#0 0|B begun 0|E begun 30|E open#0 100|"
			    "B early#0 0|E early#0 100");
}

static void tasks_without_duration_are_left_out(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);

	(void)state;
	fixture_task(slice, 1, "point#0", 20, 20, 0);
	fixture_span(slice, 0, 0, "point", 20, 20);
	fixture_task(slice, 2, "next#0", 30, 40, 1);
	fixture_span(slice, 1, 0, "span", 35, 36);
	assert_shown(slice, "B next#0 30|B span 35|E span 36|E next#0 40");
}

/* The task lies after the slice's last tick. */
static void tracks_without_events_have_no_names(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer buffer;

	(void)state;
	fixture_task(slice, 1, "late#0", 150, 160, 0);
	buffer = write_chrome(slice, FGT_STATE_FRAMES_NO);
	assert_null(strstr(buffer.bytes, "late#0"));
	assert_null(strstr(buffer.bytes, ": tasks"));
	fixture_buffer_done(&buffer);
	fixture_task(slice, 2, "shown#0", 50, 60, 0);
	buffer = write_chrome(slice, FGT_STATE_FRAMES_NO);
	assert_null(strstr(buffer.bytes, "late#0"));
	assert_non_null(strstr(buffer.bytes, ": tasks"));
	assert_non_null(strstr(buffer.bytes, "{\"name\":\"shown#0\"}"));
	fixture_buffer_done(&buffer);
}

static void marks_and_counters_follow(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);

	(void)state;
	fixture_mark(slice, -5, "too early", 4242);
	fixture_mark(slice, 20, "Profile", 4242);
	fixture_counter(slice, 10, "queue", 1);
	fixture_counter(slice, 400, "queue", 2);
	/* A name that would mean a DevTools profile is made harmless. */
	assert_shown(slice, "i Profile() 20|C queue 10");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_hold_spans_and_arrows_lead_to_children),
		cmocka_unit_test(parts_outside_of_the_slice_are_cut_off),
		cmocka_unit_test(tasks_without_duration_are_left_out),
		cmocka_unit_test(tracks_without_events_have_no_names),
		cmocka_unit_test(marks_and_counters_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
