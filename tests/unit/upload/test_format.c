/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats: names, file endings, and memory that stays constant. */
#include "upload/format/format.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

static void every_format_is_found_by_its_name(void **state)
{
	(void)state;
	for (int i = 0; i < FGT_KIND_COUNT; i++) {
		enum fgt_format_kind format = FGT_KIND_COUNT;

		assert_int_equal(
			fgt_format_from_name(
				fgt_format_name((enum fgt_format_kind)i),
				&format, NULL),
			0);
		assert_int_equal(format, i);
	}
}

static struct fixture_buffer write_slice(const struct fgt_ring_slice *slice,
					 enum fgt_format_kind format)
{
	const struct fgt_format_options options = {
		.event_id = "0123456789abcdef0123456789abcdef",
	};
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_int_equal(fgt_format_write(slice, format, &options, &sink), 0);
	return buffer;
}

/* Ids and times of an envelope are new each time; its profile is not. */
static const char *body(const struct fixture_buffer *buffer,
			enum fgt_format_kind format)
{
	const char *profile = buffer->bytes;

	if (format == FGT_KIND_SENTRY || format == FGT_KIND_SENTRY_CHUNK)
		profile = strstr(buffer->bytes, "\"profile\":{");
	assert_non_null(profile);
	return profile;
}

/* pprof is compressed: its test reads it. */
static void runnable_is_named_in_every_format(void **state)
{
	(void)state;
	for (int i = 0; i < FGT_KIND_COUNT; i++) {
		struct fgt_ring_slice *slice = fixture_new(4);
		struct fixture_buffer buffer;

		fixture_main(slice, 4, "main", FGT_STATE_RUNNABLE);
		buffer = write_slice(slice, (enum fgt_format_kind)i);
		if (i != FGT_KIND_PPROF)
			assert_non_null(memmem(buffer.bytes, buffer.len,
					       "runnable", 8));
		fixture_buffer_done(&buffer);
		fgt_ring_slice_free(slice);
	}
}

/* What is made of samples at ticks does not know the edges between them. */
static void edges_change_no_other_format(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();

	(void)state;
	for (int i = 0; i < FGT_KIND_COUNT; i++) {
		uint32_t edge_count = slice->edge_count;
		struct fixture_buffer with, without;

		with = write_slice(slice, (enum fgt_format_kind)i);
		slice->edge_count = 0;
		without = write_slice(slice, (enum fgt_format_kind)i);
		slice->edge_count = edge_count;
		if (i == FGT_KIND_FGT || i == FGT_KIND_CHROME ||
		    i == FGT_KIND_PERFETTO)
			assert_int_not_equal(with.len, without.len);
		else
			assert_string_equal(
				body(&with, (enum fgt_format_kind)i),
				body(&without, (enum fgt_format_kind)i));
		fixture_buffer_done(&with);
		fixture_buffer_done(&without);
	}
	fgt_ring_slice_free(slice);
}

static void unknown_name_gets_the_nearest_one(void **state)
{
	enum fgt_format_kind format = FGT_KIND_COUNT;
	struct fgt_why why;

	(void)state;
	assert_int_equal(fgt_format_from_name("chrom", &format, &why), -EINVAL);
	assert_string_equal(
		why.text, "unknown format 'chrom'; did you mean "
			  "'chrome'? formats are fgt chrome sentry "
			  "sentry-chunk pprof folded speedscope otlp perfetto");
	assert_int_equal(fgt_format_from_name("sentinel", &format, &why),
			 -EINVAL);
	assert_null(strstr(why.text, "did you mean"));
	assert_int_equal(fgt_format_from_name("", &format, &why), -EINVAL);
	assert_int_equal(format, FGT_KIND_COUNT);
}

static void endings_select_the_format(void **state)
{
	static const struct {
		const char *path;
		int format;
		bool is_gzip;
	} known[] = {
		{ "a.fgt", FGT_KIND_FGT, false },
		{ "/tmp/x.y/a.trace.json", FGT_KIND_CHROME, false },
		{ "a.trace.json.gz", FGT_KIND_CHROME, true },
		{ "a.ENVELOPE", FGT_KIND_SENTRY, false },
		{ "a.envelope.gz", FGT_KIND_SENTRY, true },
		{ "a.chunk.envelope", FGT_KIND_SENTRY_CHUNK, false },
		{ "a.chunk.envelope.gz", FGT_KIND_SENTRY_CHUNK, true },
		{ ".chunk.envelope", FGT_KIND_SENTRY, false },
		{ "a.pb.gz", FGT_KIND_PPROF, false },
		{ "a.speedscope.json", FGT_KIND_SPEEDSCOPE, false },
		{ "a.speedscope.json.gz", FGT_KIND_SPEEDSCOPE, true },
		{ "a.pftrace", FGT_KIND_PERFETTO, false },
		{ "a.pftrace.gz", FGT_KIND_PERFETTO, true },
		{ "a.folded", FGT_KIND_FOLDED, false },
		{ "a.folded.gz", FGT_KIND_FOLDED, true },
		{ "a.otlp", FGT_KIND_OTLP, false },
		{ "a.otlp.gz", FGT_KIND_OTLP, true },
	};
	static const char *const unknown[] = { "",
					       "a",
					       "a.json",
					       "a.fgt.gz",
					       ".gz",
					       "fgt",
					       "a.fgt.gz.gz",
					       "a.pb",
					       "a.trace.json.bz2",
					       "a.gz",
					       "a.pb.gz.gz" };

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		enum fgt_format_kind format = FGT_KIND_COUNT;
		bool is_gzip = !known[i].is_gzip;

		assert_int_equal(fgt_format_from_path(known[i].path, &format,
						      &is_gzip, NULL),
				 0);
		assert_int_equal(format, known[i].format);
		assert_int_equal(is_gzip, known[i].is_gzip);
	}
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		enum fgt_format_kind format;
		struct fgt_why why = { "" };
		bool is_gzip;

		assert_int_equal(fgt_format_from_path(unknown[i], &format,
						      &is_gzip, &why),
				 -EINVAL);
		assert_true(why.text[0]);
	}
}

static void state_frames_have_four_names(void **state)
{
	enum fgt_state_frames frames = FGT_STATE_FRAMES_ROOT;
	struct fgt_why why;

	(void)state;
	assert_int_equal(fgt_state_frames_from_name("leaf", &frames, NULL), 0);
	assert_int_equal(frames, FGT_STATE_FRAMES_LEAF);
	assert_int_equal(fgt_state_frames_from_name("no", &frames, NULL), 0);
	assert_int_equal(frames, FGT_STATE_FRAMES_NO);
	assert_int_equal(fgt_state_frames_from_name("auto", &frames, NULL), 0);
	assert_int_equal(frames, FGT_STATE_FRAMES_AUTO);
	assert_int_equal(fgt_state_frames_from_name("root", &frames, NULL), 0);
	assert_int_equal(frames, FGT_STATE_FRAMES_ROOT);
	/* fgtrace took this silently for "no". */
	assert_int_equal(fgt_state_frames_from_name("none", &frames, &why),
			 -EINVAL);
	assert_non_null(strstr(why.text, "'none'"));
}

static void otlp_has_two_shapes(void **state)
{
	enum fgt_otlp_shape shape = FGT_OTLP_TIMESTAMPS;
	struct fgt_why why;

	(void)state;
	assert_int_equal(fgt_otlp_shape_from_name("sum", &shape, NULL), 0);
	assert_int_equal(shape, FGT_OTLP_SUM);
	assert_int_equal(fgt_otlp_shape_from_name("timestamps", &shape, NULL),
			 0);
	assert_int_equal(shape, FGT_OTLP_TIMESTAMPS);
	assert_int_equal(fgt_otlp_shape_from_name("sums", &shape, &why),
			 -EINVAL);
	assert_non_null(strstr(why.text, "'sums'"));
}

struct meter {
	size_t written, heap_max;
};

#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);

static size_t heap_bytes(void)
{
	return __sanitizer_get_current_allocated_bytes();
}
#else
static size_t heap_bytes(void)
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}
#endif

static int measure(void *context, const void *bytes, size_t len)
{
	struct meter *meter = context;
	size_t heap = heap_bytes();

	(void)bytes;
	meter->written += len;
	if (heap > meter->heap_max)
		meter->heap_max = heap;
	return 0;
}

static void add_changing_thread(struct fgt_ring_slice *slice, uint32_t ticks,
				const uint32_t stacks[2])
{
	uint32_t thread = fixture_thread(slice, 4241, "changing");

	for (uint32_t i = 0; i < ticks; i++)
		fixture_run(slice, thread, i, 1, stacks[i % 2],
			    FGT_STATE_RUNNING);
}

/* One stack more or less in every tick: the same tables, more output. */
static struct meter write_ticks(enum fgt_format_kind format, uint32_t ticks,
				enum fgt_otlp_shape otlp_shape)
{
	const struct fgt_format_options options = { .otlp_shape = otlp_shape };
	struct fgt_ring_slice *slice = fixture_new(ticks);
	struct meter meter = { 0 };
	struct fgt_sink sink = { .write = measure, .context = &meter };
	uint32_t stacks[2];
	size_t before;

	stacks[0] = fixture_stack(slice, "main;a;b;c;d;e;f;g");
	stacks[1] = fixture_stack(slice, "main;h;i;j;k;l;m;n");
	add_changing_thread(slice, ticks, stacks);
	for (uint32_t t = 1; t < 20; t++) {
		fixture_thread(slice, (int32_t)(4241 + t), "idle");
		fixture_run(slice, t, 0, ticks, stacks[t % 2], FIXTURE_EPOLL);
	}
	before = heap_bytes();
	assert_int_equal(fgt_format_write(slice, format, &options, &sink), 0);
	fgt_ring_slice_free(slice);
	meter.heap_max -= before;
	return meter;
}

/* A Sentry profile has a sample a tick and thread: output ∝ ticks. */
static void memory_stays_while_output_grows(void **state)
{
	static const enum fgt_format_kind formats[] = { FGT_KIND_SENTRY,
							FGT_KIND_SENTRY_CHUNK };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct meter small = write_ticks(formats[i], 200, 0);
		struct meter large = write_ticks(formats[i], 2000, 0);

		assert_true(small.heap_max > 0);
		assert_true(large.written > 8 * small.written);
		/* What the runs of a slice need is 4 bytes each; malloc keeps
		 * a few KiB for itself that differ from run to run. */
		assert_true(large.written - small.written > 1 << 20);
		assert_true(large.heap_max < small.heap_max + 16384);
	}
}

/* The output has each change, or the sum of them. */
static void memory_stays_while_changes_grow(void **state)
{
	struct meter small = write_ticks(FGT_KIND_SPEEDSCOPE, 200, 0);
	struct meter large = write_ticks(FGT_KIND_SPEEDSCOPE, 20000, 0);

	(void)state;
	assert_true(large.written > 20 * small.written);
	assert_true(large.heap_max < small.heap_max + 16384);
	/* Compressed in bundles of 64 KiB. */
	small = write_ticks(FGT_KIND_PERFETTO, 5000, 0);
	large = write_ticks(FGT_KIND_PERFETTO, 20000, 0);
	assert_true(large.written > 3 * small.written);
	assert_true(large.heap_max < small.heap_max + 16384);
	small = write_ticks(FGT_KIND_PPROF, 200, 0);
	large = write_ticks(FGT_KIND_PPROF, 20000, 0);
	assert_true(small.heap_max > 0);
	assert_true(large.heap_max < small.heap_max + 16384);
}

/* OTLP begins with its length, and must not be kept to know it. With times it
 * has the ticks of one thread at a time, 12 bytes each and as many again in
 * each buffer; this slice has 20. */
static void otlp_keeps_one_thread_at_most(void **state)
{
	struct meter small = write_ticks(FGT_KIND_OTLP, 200, FGT_OTLP_SUM);
	struct meter large = write_ticks(FGT_KIND_OTLP, 20000, FGT_OTLP_SUM);

	(void)state;
	assert_true(small.heap_max > 0);
	assert_true(large.heap_max < small.heap_max + 16384);
	large = write_ticks(FGT_KIND_OTLP, 20000, FGT_OTLP_TIMESTAMPS);
	assert_true(large.written > 4u << 20);
	assert_true(large.heap_max < small.heap_max + (3u << 20) / 2);
}

static void unknown_format_is_refused(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct meter meter = { 0 };
	struct fgt_sink sink = { .write = measure, .context = &meter };

	(void)state;
	assert_int_equal(fgt_format_write(slice, FGT_KIND_COUNT, NULL, &sink),
			 -EINVAL);
	assert_int_equal(meter.written, 0);
	assert_string_equal(fgt_format_name(FGT_KIND_COUNT), "unknown");
	fgt_ring_slice_free(slice);
}

static int refuse(void *context, const void *bytes, size_t len)
{
	(void)context;
	(void)bytes;
	(void)len;
	return -EPIPE;
}

static void sink_errors_come_back_from_every_format(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fgt_sink sink = { .write = refuse, .context = NULL };

	(void)state;
	for (int i = 0; i < FGT_KIND_COUNT; i++)
		assert_int_equal(fgt_format_write(slice,
						  (enum fgt_format_kind)i, NULL,
						  &sink),
				 -EPIPE);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_is_found_by_its_name),
		cmocka_unit_test(runnable_is_named_in_every_format),
		cmocka_unit_test(edges_change_no_other_format),
		cmocka_unit_test(unknown_name_gets_the_nearest_one),
		cmocka_unit_test(endings_select_the_format),
		cmocka_unit_test(state_frames_have_four_names),
		cmocka_unit_test(memory_stays_while_output_grows),
		cmocka_unit_test(memory_stays_while_changes_grow),
		cmocka_unit_test(otlp_has_two_shapes),
		cmocka_unit_test(otlp_keeps_one_thread_at_most),
		cmocka_unit_test(unknown_format_is_refused),
		cmocka_unit_test(sink_errors_come_back_from_every_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
