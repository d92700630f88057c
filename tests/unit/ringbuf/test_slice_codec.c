/* SPDX-License-Identifier: Apache-2.0 */
/* The .fgt form: round trip, and damaged or foreign bytes. */
#include "ringbuf/slice/slice_codec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

static struct fixture_buffer encode(const struct fgt_ring_slice *slice)
{
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_int_equal(fgt_slice_encode(slice, &sink), 0);
	return buffer;
}

static int decode(const void *bytes, size_t len, struct fgt_why *ret_why)
{
	struct fgt_ring_slice *slice = NULL;
	int r = fgt_slice_decode(bytes, len, &slice, ret_why);

	assert_true(r == 0 || !slice);
	fgt_ring_slice_free(slice);
	return r;
}

#define ASSERT_TABLE_EQUAL(a, b, table, count)                                 \
	do {                                                                   \
		assert_int_equal((a)->count, (b)->count);                      \
		if ((a)->count)                                                \
			assert_memory_equal((a)->table, (b)->table,            \
					    (a)->count * sizeof(*(a)->table)); \
	} while (0)

static void assert_slices_equal(const struct fgt_ring_slice *a,
				const struct fgt_ring_slice *b)
{
	assert_memory_equal(&a->process, &b->process, sizeof(a->process));
	assert_string_equal(a->ended_by, b->ended_by);
	assert_memory_equal(&a->requested_from_ns, &b->requested_from_ns,
			    3 * sizeof(a->requested_from_ns));
	assert_true(a->effective_hz == b->effective_hz);
	assert_memory_equal(&a->missed_ticks, &b->missed_ticks,
			    5 * sizeof(a->missed_ticks));
	ASSERT_TABLE_EQUAL(a, b, anchors, anchor_count);
	ASSERT_TABLE_EQUAL(a, b, tick_ns, tick_count);
	ASSERT_TABLE_EQUAL(a, b, paces, pace_count);
	ASSERT_TABLE_EQUAL(a, b, runs, run_count);
	ASSERT_TABLE_EQUAL(a, b, edges, edge_count);
	ASSERT_TABLE_EQUAL(a, b, waits, wait_count);
	ASSERT_TABLE_EQUAL(a, b, wakers, waker_count);
	ASSERT_TABLE_EQUAL(a, b, wakes, wake_count);
	ASSERT_TABLE_EQUAL(a, b, tasks, task_count);
	ASSERT_TABLE_EQUAL(a, b, spans, span_count);
	ASSERT_TABLE_EQUAL(a, b, marks, mark_count);
	ASSERT_TABLE_EQUAL(a, b, counters, counter_count);
	ASSERT_TABLE_EQUAL(a, b, labels, label_count);
	ASSERT_TABLE_EQUAL(a, b, notes, note_count);
	ASSERT_TABLE_EQUAL(a, b, threads, thread_count);
	ASSERT_TABLE_EQUAL(a, b, nodes, node_count);
	ASSERT_TABLE_EQUAL(a, b, frames, frame_count);
	ASSERT_TABLE_EQUAL(a, b, images, image_count);
	ASSERT_TABLE_EQUAL(a, b, states, state_count);
	ASSERT_TABLE_EQUAL(a, b, symbols, symbol_count);
	assert_int_equal(a->strings.count, b->strings.count);
	for (uint32_t i = 0; i < a->strings.count; i++)
		assert_string_equal(fgt_slice_string(a, i),
				    fgt_slice_string(b, i));
}

static void round_trip_loses_nothing(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich(), *back = NULL;
	struct fixture_buffer buffer;
	struct fgt_why why = { "" };

	(void)state;
	strcpy(slice->ended_by, "SIGSEGV");
	buffer = encode(slice);
	assert_memory_equal(buffer.bytes, "FGT1", 4);
	assert_int_equal(fgt_slice_decode((uint8_t *)buffer.bytes, buffer.len,
					  &back, &why),
			 0);
	assert_slices_equal(slice, back);
	fgt_ring_slice_free(back);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

/* Fault T10. */
static void extreme_numbers_survive(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2), *back = NULL;
	struct fixture_buffer buffer;

	(void)state;
	slice->process.pid = INT32_MIN;
	slice->process.start_time = UINT64_MAX;
	slice->requested_to_ns = UINT64_MAX;
	slice->tick_ns[1] = UINT64_MAX;
	slice->anchors[0].wall_ns = UINT64_MAX;
	slice->effective_hz = 1e-300;
	buffer = encode(slice);
	assert_int_equal(fgt_slice_decode((uint8_t *)buffer.bytes, buffer.len,
					  &back, NULL),
			 0);
	assert_slices_equal(slice, back);
	fgt_ring_slice_free(back);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

static void truncation_at_every_byte_is_refused(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = encode(slice);

	(void)state;
	for (size_t len = 0; len < buffer.len; len++) {
		struct fgt_why why = { "" };
		/* An exact copy: asan finds a read past the end. */
		uint8_t *copy = malloc(len ? len : 1);

		memcpy(copy, buffer.bytes, len);
		assert_int_equal(decode(copy, len, &why), -EBADMSG);
		assert_true(why.text[0]);
		free(copy);
	}
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

static void damage_at_every_byte_does_no_harm(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = encode(slice);
	unsigned int refused = 0;

	(void)state;
	fixture_drop_checksum(&buffer);
	for (size_t i = 0; i < buffer.len; i++)
		for (unsigned int flip = 1; flip < 256; flip += 31) {
			buffer.bytes[i] ^= (char)flip;
			refused += decode(buffer.bytes, buffer.len, NULL) != 0;
			buffer.bytes[i] ^= (char)flip;
		}
	assert_true(refused > buffer.len);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

static void assert_refused_or_equal(const struct fixture_buffer *buffer,
				    const struct fgt_ring_slice *slice)
{
	struct fgt_ring_slice *back = NULL;
	struct fgt_why why = { "" };
	int r = fgt_slice_decode((const uint8_t *)buffer->bytes, buffer->len,
				 &back, &why);

	if (r == 0)
		assert_slices_equal(slice, back);
	fgt_ring_slice_free(back);
}

/* Flips in the key of the checksum make a file without one, but a whole one. */
static void no_flipped_bit_changes_a_slice(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = encode(slice);

	(void)state;
	for (size_t bit = 0; bit < 8 * buffer.len; bit++) {
		buffer.bytes[bit / 8] ^= (char)(1 << bit % 8);
		assert_refused_or_equal(&buffer, slice);
		buffer.bytes[bit / 8] ^= (char)(1 << bit % 8);
	}
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

static void assert_decode_complains(const struct fixture_buffer *buffer,
				    size_t len, const char *text)
{
	struct fgt_why why = { "" };

	assert_int_equal(decode(buffer->bytes, len, &why), -EBADMSG);
	if (!strstr(why.text, text))
		fail_msg("'%s' has no '%s'", why.text, text);
}

static void errors_name_a_cut_and_damage(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = encode(slice);

	(void)state;
	assert_decode_complains(&buffer, 100, "cut off at byte 100,");
	buffer.bytes[100] ^= 1;
	assert_decode_complains(&buffer, buffer.len, "checksum");
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

static void trailing_bytes_are_refused(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = encode(slice);

	(void)state;
	/* The fixture keeps a NUL behind the last byte. */
	assert_int_equal(decode(buffer.bytes, buffer.len + 1, NULL), -EBADMSG);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

static void later_versions_are_named(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = encode(slice);
	struct fgt_why why = { "" };
	char *version = memmem(buffer.bytes, buffer.len, "version", 7);

	(void)state;
	assert_non_null(version);
	fixture_drop_checksum(&buffer);
	version[7] = 2;
	assert_int_equal(decode(buffer.bytes, buffer.len, &why),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(why.text, "version 2"));
	version[7] = 1;
	buffer.bytes[3] = '2';
	assert_int_equal(decode(buffer.bytes, buffer.len, &why),
			 -EPROTONOSUPPORT);
	buffer.bytes[3] = '1';
	assert_int_equal(decode(buffer.bytes, buffer.len, &why), 0);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

/* One more pair after those of this version: map16 begins with 0xde. */
static void unknown_keys_are_skipped(void **state)
{
	static const char added[] = "\xa3zzz\x92\xc3\x81\xa1x\xd4\x05\x00";
	struct fgt_ring_slice *slice = fixture_rich(), *back = NULL;
	struct fixture_buffer buffer = encode(slice);
	struct fgt_sink sink = { .write = NULL };
	struct fixture_buffer longer;

	(void)state;
	sink = fixture_buffer_sink(&longer);
	assert_int_equal((uint8_t)buffer.bytes[4], 0xde);
	assert_int_equal(fgt_sink_write(&sink, buffer.bytes, buffer.len), 0);
	assert_int_equal(fgt_sink_write(&sink, added, sizeof(added) - 1), 0);
	longer.bytes[6]++;
	assert_int_equal(fgt_slice_decode((uint8_t *)longer.bytes, longer.len,
					  &back, NULL),
			 0);
	assert_slices_equal(slice, back);
	fgt_ring_slice_free(back);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
	fixture_buffer_done(&longer);
}

/* Reads a file from before that key, and those after it, existed. */
static void read_without(const char *key, size_t len, unsigned int keys)
{
	struct fgt_ring_slice *slice = fixture_rich(), *back = NULL;
	struct fixture_buffer buffer = encode(slice);
	char *at = memmem(buffer.bytes, buffer.len, key, len);

	assert_non_null(at);
	buffer.bytes[6] -= (char)keys;
	assert_int_equal(fgt_slice_decode((uint8_t *)buffer.bytes,
					  (size_t)(at - buffer.bytes), &back,
					  NULL),
			 0);
	if (keys > 11)
		slice->edge_count = 0;
	slice->note_count = 0;
	fixture_drop_waits(slice);
	fixture_drop_spans(slice);
	assert_slices_equal(slice, back);
	fgt_ring_slice_free(back);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

static void a_file_without_edges_or_spans_is_read(void **state)
{
	(void)state;
	read_without("\xa5"
		     "edges",
		     6, 12);
	read_without("\xa5tasks", 6, 11);
}

static void missing_and_double_tables_are_named(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = encode(slice);
	struct fgt_why why = { "" };
	char *key = memmem(buffer.bytes, buffer.len, "\xa5ticks", 6);

	(void)state;
	assert_non_null(key);
	fixture_drop_checksum(&buffer);
	memcpy(key + 1, "tocks", 5);
	assert_int_equal(decode(buffer.bytes, buffer.len, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "ticks"));
	memcpy(key + 1, "nodes", 5);
	assert_int_equal(decode(buffer.bytes, buffer.len, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "nodes"));
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

/* The bombs: counts of four thousand million in a few bytes. */
static const char *const bombs[] = {
	"FGT1\xdd\xff\xff\xff\xff",
	"FGT1\xdf\xff\xff\xff\xff",
	"FGT1\xdb\xff\xff\xff\xff",
	"FGT1\xc6\xff\xff\xff\xff",
	"FGT1\xc9\xff\xff\xff\xff",
	"FGT1\x82\xa7version\x01\xa4runs\xdd\xff\xff\xff\xff",
};

static int decode_bombs(void)
{
	struct rlimit limit = { 64 << 20, 64 << 20 };

#ifndef __SANITIZE_ADDRESS__
	if (setrlimit(RLIMIT_AS, &limit))
		return 2;
#else
	(void)limit; /* its shadow takes terabytes of address space */
#endif
	for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++)
		if (decode(bombs[i], strlen(bombs[i]), NULL) != -EBADMSG)
			return 1;
	return 0;
}

static void five_byte_bombs_allocate_nothing(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child)
		_exit(decode_bombs());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int fail_third(void *context, const void *bytes, size_t len)
{
	unsigned int *calls = context;

	(void)bytes;
	(void)len;
	return ++*calls < 3 ? 0 : -ENOSPC;
}

static void errors_of_the_sink_come_back_once(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	unsigned int calls = 0;
	struct fgt_sink sink = { .write = fail_third, .context = &calls };

	(void)state;
	for (uint32_t i = 0; i < 20000; i++)
		fixture_frame(slice, "a_function_with_a_name");
	assert_int_equal(fgt_slice_encode(slice, &sink), -ENOSPC);
	assert_int_equal(calls, 3);
	fgt_ring_slice_free(slice);
}

static void idle_runs_are_small(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3030);
	struct fixture_buffer buffer;
	size_t empty_len;

	(void)state;
	fixture_thread(slice, 1, "main");
	buffer = encode(slice);
	empty_len = buffer.len;
	fixture_buffer_done(&buffer);
	fixture_run(slice, 0, 0, 3030, FGT_NODE_NONE, FGT_STATE_RUNNING);
	buffer = encode(slice);
	assert_in_range(buffer.len - empty_len, 1, 20);
	fgt_ring_slice_free(slice);
	fixture_buffer_done(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip_loses_nothing),
		cmocka_unit_test(extreme_numbers_survive),
		cmocka_unit_test(truncation_at_every_byte_is_refused),
		cmocka_unit_test(damage_at_every_byte_does_no_harm),
		cmocka_unit_test(no_flipped_bit_changes_a_slice),
		cmocka_unit_test(errors_name_a_cut_and_damage),
		cmocka_unit_test(trailing_bytes_are_refused),
		cmocka_unit_test(later_versions_are_named),
		cmocka_unit_test(unknown_keys_are_skipped),
		cmocka_unit_test(a_file_without_edges_or_spans_is_read),
		cmocka_unit_test(missing_and_double_tables_are_named),
		cmocka_unit_test(five_byte_bombs_allocate_nothing),
		cmocka_unit_test(errors_of_the_sink_come_back_once),
		cmocka_unit_test(idle_runs_are_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
