/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope files: one to the byte, then times. Whole files are read by
 * speedscope itself in tests/integration/test_viewers.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/slice/pace.h"
#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

#define FILE_MAIN "\"file\":\"/src/app/main.c\""

static struct fixture_buffer
write_speedscope(const struct fgt_ring_slice *slice,
		 enum fgt_state_frames place)
{
	const struct fgt_format_options options = { .state_frames = place };
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_SPEEDSCOPE, &options, &sink),
		0);
	return buffer;
}

static void assert_has(const struct fgt_ring_slice *slice,
		       enum fgt_state_frames place, const char *part)
{
	struct fixture_buffer buffer = write_speedscope(slice, place);

	if (!strstr(buffer.bytes, part))
		fail_msg("no %s in\n%s", part, buffer.bytes);
	fixture_buffer_done(&buffer);
}

static void a_file_is_these_bytes(void **state)
{
	static const char expected[] =
		"{\"$schema\":"
		"\"https://www.speedscope.app/file-format-schema.json\","
		"\"exporter\":\"fgtrace@" FGT_VERSION "\","
		"\"name\":\"app (4242)\",\"activeProfileIndex\":1,"
		"\"profiles\":[\n"
		"{\"type\":\"sampled\",\"name\":\"thread (4241)\","
		"\"unit\":\"nanoseconds\","
		"\"startValue\":0,\"endValue\":40000000,"
		"\"samples\":[[],[0,1]],\"weights\":[20000000,20000000]},\n"
		"{\"type\":\"sampled\",\"name\":\"main (4242)\","
		"\"unit\":\"nanoseconds\","
		"\"startValue\":0,\"endValue\":40000000,"
		"\"samples\":[[0,1,2],[3,1,4]],"
		"\"weights\":[20000000,20000000]}],"
		"\"shared\":{\"frames\":[\n"
		"{\"name\":\"running\"},\n"
		"{\"name\":\"main\"," FILE_MAIN "},\n"
		"{\"name\":\"a\"," FILE_MAIN "},\n"
		"{\"name\":\"futex\"},\n"
		"{\"name\":\"b\"," FILE_MAIN "}]}}\n";
	struct fgt_ring_slice *slice = fixture_new(4);
	struct fixture_buffer buffer;

	(void)state;
	fixture_thread(slice, 4241, "");
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 2, 2, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 1, 0, 2, fixture_stack(slice, "main;a"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 1, 2, 2, fixture_stack(slice, "main;b"),
		    FIXTURE_FUTEX);
	buffer = write_speedscope(slice, FGT_STATE_FRAMES_ROOT);
	assert_string_equal(buffer.bytes, expected);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void gaps_are_empty_stacks(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(6);
	uint32_t stack = fixture_stack(slice, "main");

	(void)state;
	for (uint32_t i = 2; i < 6; i++) /* the sampler stood still */
		slice->tick_ns[i] += 7 * FIXTURE_PERIOD_NS;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 4, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 5, 1, stack, FGT_STATE_RUNNING); /* not at 4 */
	assert_has(slice, FGT_STATE_FRAMES_NO,
		   "\"endValue\":130000000,"
		   "\"samples\":[[0],[],[0],[],[0]],"
		   "\"weights\":[20000000,70000000,20000000,10000000,"
		   "10000000]}");
	fgt_ring_slice_free(slice);
}

static void ticks_at_a_lowered_rate_last_longer(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 1, 8), 0);
	slice->tick_ns[2] = slice->tick_ns[1] + 8 * FIXTURE_PERIOD_NS;
	slice->tick_ns[3] = slice->tick_ns[2] + 8 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 2, "a", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 2, 2, fixture_stack(slice, "b"),
		    FGT_STATE_RUNNING);
	assert_has(slice, FGT_STATE_FRAMES_NO,
		   "\"samples\":[[0],[1]],\"weights\":[90000000,160000000]}");
	fgt_ring_slice_free(slice);
}

static void stacks_go_from_the_root_to_the_innermost_call(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();

	(void)state;
	assert_has(slice, FGT_STATE_FRAMES_LEAF,
		   "\"samples\":[[0,1,2,3],[0,1,4,5,6],[0,1,4,5,7,6],[],"
		   "[0,1,4,5,7,6]],");
	assert_has(slice, FGT_STATE_FRAMES_LEAF,
		   "{\"name\":\"ns::work(char const*)\","
		   "\"file\":\"/src/work.cc\"},\n"
		   "{\"name\":\"clamp\\u003cint>\",\"file\":\"clamp.h\"},\n");
	assert_has(slice, FGT_STATE_FRAMES_NO, "{\"name\":\"0xabcdef\"}");
	assert_has(slice, FGT_STATE_FRAMES_NO,
		   "{\"name\":\"[stack unknown]\"}");
	fgt_ring_slice_free(slice);
}

static void without_the_main_thread_the_busiest_is_shown(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main");

	(void)state;
	fixture_thread(slice, 4243, "idle");
	fixture_thread(slice, 4244, "less");
	fixture_thread(slice, 4245, "busy");
	fixture_run(slice, 0, 0, 10, stack, FIXTURE_FUTEX);
	fixture_run(slice, 1, 0, 4, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 2, 0, 5, stack, FGT_STATE_RUNNING);
	assert_has(slice, FGT_STATE_FRAMES_NO, "\"activeProfileIndex\":2,");
	fgt_ring_slice_free(slice);
}

static void hostile_times_stay_exact_numbers(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);

	(void)state;
	slice->period_ns = UINT64_MAX;
	fixture_main(slice, 2, "main", FGT_STATE_RUNNING);
	assert_has(slice, FGT_STATE_FRAMES_NO,
		   "\"weights\":[9007199254740991]");
	fgt_ring_slice_free(slice);
}

static void slice_without_runs_has_no_profiles(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);

	(void)state;
	assert_has(slice, FGT_STATE_FRAMES_ROOT,
		   "\"profiles\":[],\"shared\":{\"frames\":[]}}\n");
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_these_bytes),
		cmocka_unit_test(gaps_are_empty_stacks),
		cmocka_unit_test(ticks_at_a_lowered_rate_last_longer),
		cmocka_unit_test(stacks_go_from_the_root_to_the_innermost_call),
		cmocka_unit_test(without_the_main_thread_the_busiest_is_shown),
		cmocka_unit_test(hostile_times_stay_exact_numbers),
		cmocka_unit_test(slice_without_runs_has_no_profiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
