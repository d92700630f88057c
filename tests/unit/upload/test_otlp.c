/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP profiles, field by field. Whole files are checked against all rules by
 * tests/integration/kit/delivery/check_otlp.py, and by OpenTelemetry's own code
 * in tests/engines.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/slice/pace.h"
#include "tests/unit/upload/proto_text.h"

#define TRACE "0123456789abcdef0123456789abcdef"

static const struct fgt_format_options times = { .state_frames =
							 FGT_STATE_FRAMES_NO };
static const struct fgt_format_options sums = {
	.state_frames = FGT_STATE_FRAMES_NO, .otlp_shape = FGT_OTLP_SUM
};

static void assert_has(const struct fixture_buffer *text, const char *line)
{
	if (!strstr(text->bytes, line))
		fail_msg("no %s in\n%s", line, text->bytes);
}

/* foo at one tick, then foo;bar at two, everything of it. */
static struct fgt_ring_slice *small_slice(void)
{
	struct fgt_ring_slice *slice = fixture_new(3);

	fixture_main(slice, 1, "foo", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 1, 2, fixture_stack(slice, "foo;bar"),
		    FGT_STATE_RUNNING);
	slice->frames[0].frame.flags = FGT_FRAME_CALLER;
	return slice;
}

#define AROUND                                                                 \
	"1:{1:{1:{1:\"service.name\" 2:{1:\"app\"}} "                          \
	"1:{1:\"host.name\" 2:{1:\"box\"}} "                                   \
	"1:{1:\"process.pid\" 2:{3:4242}} "                                    \
	"1:{1:\"process.executable.name\" 2:{1:\"app\"}}} "                    \
	"2:{1:{1:\"fgtrace\" 2:\"" FGT_VERSION "\"} 2:{1:{1:1 2:2}\n"
#define PROFILE_END                                                            \
	"3:1767225600000000000\n4:30000000\n5:{1:1 2:2}\n6:10000000}}} "

static void an_export_is_these_fields(void **state)
{
	static const char expected[] = AROUND
		"2:{1:1 2:[1 2 4] 4:[10000000] 5:[1767225600000000000]}\n"
		"2:{1:2 2:[1 2 4] 4:[10000000 10000000] "
		"5:[1767225600010000000 1767225600020000000]}\n" PROFILE_END;
	struct fgt_ring_slice *slice = small_slice();
	struct fixture_buffer text = otlp_text(slice, &times);

	(void)state;
	assert_memory_equal(text.bytes, expected, sizeof(expected) - 1);
	/* A caller's address is within the call. */
	assert_has(&text, "\n2:{1:1 2:93458488365055 3:{1:1 2:1}}\n"
			  "2:{1:1 2:93458488365072 3:{1:2 2:2}}\n");
	assert_has(&text, "\n4:{1:00000000000000000000000000000000 "
			  "2:0000000000000000}\n5:\"\"\n5:\"wall\"\n"
			  "5:\"nanoseconds\"\n5:\"thread.name\"\n");
	/* Leaf first. */
	assert_has(&text, "\n7:{}\n7:{1:[1]}\n7:{1:[2 1]}}\n");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void a_sum_has_no_times(void **state)
{
	static const char expected[] = AROUND
		"2:{1:1 2:[1 2 4] 4:[10000000]}\n"
		"2:{1:2 2:[1 2 4] 4:[20000000]}\n" PROFILE_END;
	struct fgt_ring_slice *slice = small_slice();
	struct fixture_buffer text = otlp_text(slice, &sums);

	(void)state;
	assert_memory_equal(text.bytes, expected, sizeof(expected) - 1);
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void equal_samples_are_one_and_keep_their_times_in_order(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(20);
	uint32_t a = fixture_stack(slice, "main;a");
	struct fixture_buffer text;

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_thread(slice, 4243, "worker");
	fixture_run(slice, 0, 0, 1, a, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 1, 18, fixture_stack(slice, "main;b"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 0, 19, 1, a, FGT_STATE_RUNNING);
	fixture_run(slice, 1, 0, 20, a, FIXTURE_FUTEX);
	text = otlp_text(slice, &times);
	assert_int_equal(fixture_count(text.bytes, "\n2:{1:1 2:["), 2);
	assert_has(&text, "\n2:{1:1 2:[1 2 4] 4:[10000000 10000000] "
			  "5:[1767225600000000000 1767225600190000000]}\n");
	/* Another thread and state: other attributes, the same stack. */
	assert_has(&text, "\n2:{1:1 2:[5 6 7] 4:[");
	assert_has(&text, "{1:\"futex\"}");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void ticks_at_a_lowered_rate_last_longer(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);
	struct fixture_buffer text;

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 1, 8), 0);
	slice->tick_ns[2] = slice->tick_ns[1] + 8 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 3, "a", FGT_STATE_RUNNING);
	text = otlp_text(slice, &times);
	assert_has(&text, " 4:[10000000 80000000 80000000] ");
	assert_has(&text, "\n4:170000000\n");
	fixture_buffer_done(&text);
	text = otlp_text(slice, &sums);
	assert_has(&text, " 4:[170000000]}");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* Times would lie outside of the profile otherwise. */
static void a_clock_that_is_set_moves_no_sample(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);
	struct fgt_anchor *anchors =
		realloc(slice->anchors, 2 * sizeof(*anchors));
	struct fixture_buffer text;

	(void)state;
	assert_non_null(anchors);
	anchors[1].mono_ns = FIXTURE_START_NS + FIXTURE_PERIOD_NS;
	anchors[1].wall_ns = FIXTURE_WALL_NS - 3600000000000;
	slice->anchors = anchors;
	slice->anchor_count = 2;
	fixture_main(slice, 3, "a", FGT_STATE_RUNNING);
	text = otlp_text(slice, &times);
	assert_has(&text, "5:[1767225600000000000 1767225600010000000 "
			  "1767225600020000000]");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void state_frames_are_at_the_chosen_end(void **state)
{
	/* The state's location is the first one, where it has one. */
	static const struct {
		enum fgt_state_frames place;
		const char *stack;
	} cases[] = {
		{ FGT_STATE_FRAMES_ROOT, "7:{}\n7:{1:[2 1]}" },
		{ FGT_STATE_FRAMES_LEAF, "7:{}\n7:{1:[1 2]}" },
		{ FGT_STATE_FRAMES_NO, "7:{}\n7:{1:[1]}" },
	};
	struct fgt_ring_slice *slice = fixture_new(2);

	(void)state;
	fixture_main(slice, 2, "main", FIXTURE_FUTEX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fgt_format_options options = {
			.state_frames = cases[i].place
		};
		struct fixture_buffer text = otlp_text(slice, &options);

		assert_has(&text, cases[i].stack);
		fixture_buffer_done(&text);
	}
	fgt_ring_slice_free(slice);
}

static void samples_of_a_transaction_link_to_it(void **state)
{
	static const struct fgt_transaction_facts facts = {
		.name = "GET /",
		.trace_id = TRACE,
		.span_id = "00000000000000ab",
		.begin_ns = FIXTURE_START_NS + FIXTURE_PERIOD_NS,
		.end_ns = FIXTURE_START_NS + 4 * FIXTURE_PERIOD_NS,
	};
	const struct fgt_format_options options = {
		.state_frames = FGT_STATE_FRAMES_NO,
		.otlp_shape = FGT_OTLP_SUM,
		.facts = &facts,
	};
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer text;

	(void)state;
	fixture_main(slice, 10, "main", FGT_STATE_RUNNING);
	text = otlp_text(slice, &options);
	assert_has(&text, "\n2:{1:1 2:[1 2 4] 4:[60000000]}\n"
			  "2:{1:1 2:[1 2 4] 3:1 4:[40000000]}\n");
	assert_has(&text, "\n4:{1:" TRACE " 2:00000000000000ab}\n");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void a_rich_slice_keeps_all_that_otlp_can_hold(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer text = otlp_text(slice, &times);

	(void)state;
	assert_has(&text, "5:\"ns::work(char const*)\"\n");
	assert_has(&text, "{1:\"worker \xef\xbf\xbd<1>\"}");
	assert_has(&text, "{1:\"thread 4250\"}");
	assert_has(&text, "5:\"[stack unknown]\"\n");
	assert_has(&text, "5:\"0xabcdef\"\n");
	/* What is missing. */
	assert_has(&text, "5:\"fgtrace.ticks.missed\"\n"
			  "5:\"fgtrace.ticks.evicted\"\n"
			  "5:\"fgtrace.ticks.lapped\"\n");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* Two functions whose names are written alike are one, as are a function and a
 * state of that name: no table may have an entry twice. */
static void names_that_are_written_alike_are_one_function(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);
	const struct fgt_format_options options = {
		.state_frames = FGT_STATE_FRAMES_ROOT
	};
	struct fixture_buffer text;

	(void)state;
	fixture_main(slice, 2, "running;a\xff", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 2, 2, fixture_stack(slice, "running;a\xfe"),
		    FGT_STATE_RUNNING);
	for (uint32_t i = 0; i < slice->symbol_count; i++)
		slice->symbols[i].file = 0;
	text = otlp_text(slice, &options);
	assert_int_equal(fixture_count(text.bytes, "5:\"a\xef\xbf\xbd\"\n"), 1);
	assert_int_equal(fixture_count(text.bytes, "5:\"running\"\n"), 1);
	assert_int_equal(fixture_count(text.bytes, "\n3:{1:"), 2);
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* Values are signed in this format: no sum may wrap. */
static void hostile_times_stay_in_range(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	struct fixture_buffer text;

	(void)state;
	slice->period_ns = UINT64_MAX;
	fixture_main(slice, 2, "main", FGT_STATE_RUNNING);
	text = otlp_text(slice, &sums);
	assert_has(&text, " 4:[9223372036854775807]}");
	assert_has(&text, "\n6:9223372036854775807}");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void slice_without_runs_has_no_samples(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);
	struct fixture_buffer text = otlp_text(slice, &times);

	(void)state;
	assert_has(&text, AROUND PROFILE_END);
	assert_has(&text, "2:{1:{}\n2:{}\n3:{}\n4:{");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_export_is_these_fields),
		cmocka_unit_test(a_sum_has_no_times),
		cmocka_unit_test(
			equal_samples_are_one_and_keep_their_times_in_order),
		cmocka_unit_test(ticks_at_a_lowered_rate_last_longer),
		cmocka_unit_test(a_clock_that_is_set_moves_no_sample),
		cmocka_unit_test(state_frames_are_at_the_chosen_end),
		cmocka_unit_test(samples_of_a_transaction_link_to_it),
		cmocka_unit_test(a_rich_slice_keeps_all_that_otlp_can_hold),
		cmocka_unit_test(names_that_are_written_alike_are_one_function),
		cmocka_unit_test(hostile_times_stay_in_range),
		cmocka_unit_test(slice_without_runs_has_no_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
