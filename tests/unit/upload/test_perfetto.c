/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples and states of a Perfetto trace, read back by the published numbers.
 * The other packets are read by tests/integration/kit/check_perfetto_trace.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

struct span {
	const uint8_t *at, *end;
};

static uint64_t read_varint(struct span *span)
{
	uint64_t value = 0;
	unsigned int shift = 0;

	do {
		assert_true(span->at < span->end && shift < 64);
		value |= (uint64_t)(*span->at & 0x7f) << shift;
		shift += 7;
	} while (*span->at++ & 0x80);
	return value;
}

/* The next field: its number, and its value or its bytes. */
static uint64_t read_field(struct span *span, uint64_t *ret_value,
			   struct span *ret_bytes)
{
	uint64_t tag = read_varint(span);

	*ret_value = 0;
	*ret_bytes = (struct span){ span->at, span->at };
	if ((tag & 7) == 1) {
		span->at += 8;
		return tag >> 3;
	}
	*ret_value = read_varint(span);
	if ((tag & 7) == 0)
		return tag >> 3;
	assert_int_equal(tag & 7, 2);
	assert_true(*ret_value <= (uint64_t)(span->end - span->at));
	*ret_bytes = (struct span){ span->at, span->at + *ret_value };
	span->at += *ret_value;
	return tag >> 3;
}

/* A field of a message, 0 if it has none. */
static uint64_t number(struct span message, uint64_t wanted)
{
	struct span bytes;
	uint64_t value;

	while (message.at < message.end)
		if (read_field(&message, &value, &bytes) == wanted)
			return value;
	return 0;
}

static struct span part(struct span message, uint64_t wanted)
{
	struct span bytes;
	uint64_t value;

	while (message.at < message.end)
		if (read_field(&message, &value, &bytes) == wanted)
			return bytes;
	return (struct span){ NULL, NULL };
}

static struct fixture_buffer write_perfetto(const struct fgt_ring_slice *slice)
{
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_PERFETTO, NULL, &sink), 0);
	return buffer;
}

/* "s STACK MS +MS|t STATE MS|…": samples, and states by their number. */
static void summarise(const struct fixture_buffer *buffer, char *text,
		      size_t size)
{
	struct span trace = { (const uint8_t *)buffer->bytes,
			      (const uint8_t *)buffer->bytes + buffer->len };
	size_t at = 0;

	text[0] = 0;
	while (trace.at < trace.end) {
		struct span packet, sample, event;
		uint64_t ignored, ms;

		assert_int_equal(read_field(&trace, &ignored, &packet), 1);
		assert_int_equal(number(packet, 10), 1);
		/* Samples and states have whole µs. */
		ms = (number(packet, 8) - 1) / 1000;
		sample = part(packet, 135);
		event = part(packet, 11);
		if (sample.at)
			at += (size_t)snprintf(
				text + at, size - at, "%ss %d %d +%d",
				at ? "|" : "", (int)number(sample, 6), (int)ms,
				(int)(number(sample, 11) / 1000000));
		else if (event.at && number(event, 9) == 5)
			at += (size_t)snprintf(text + at, size - at,
					       "%st %d %d", at ? "|" : "",
					       (int)number(event, 10), (int)ms);
		assert_true(at < size);
	}
}

static void assert_samples(struct fgt_ring_slice *slice, const char *expected)
{
	struct fixture_buffer buffer = write_perfetto(slice);
	char text[4096];

	summarise(&buffer, text, sizeof(text));
	assert_string_equal(text, expected);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Callstacks 1, 2, and 3: no samples. State 1 is the name of the facts. */
static void each_sample_lasts_until_the_next_one(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	fixture_main(slice, 2, "main;a", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 2, 2, fixture_stack(slice, "main;b"),
		    FGT_STATE_RUNNING);
	assert_samples(slice, "t 2 0|s 1 0 +15|s 2 15 +25|t 0 40|s 3 40 +0");
}

static void a_state_that_changes_is_an_event_of_its_track(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);
	uint32_t stack = fixture_stack(slice, "main");

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 1, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 1, 1, stack, FIXTURE_FUTEX);
	fixture_run(slice, 0, 2, 1, stack, FGT_STATE_RUNNING);
	assert_samples(slice,
		       "t 2 0|s 1 0 +5|t 3 5|s 2 5 +10|t 2 15|s 1 15 +15|"
		       "t 0 30|s 3 30 +0");
}

static void missed_ticks_are_a_sample_of_no_samples(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	slice->tick_ns[2] += 5 * FIXTURE_PERIOD_NS;
	slice->tick_ns[3] += 5 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 4, "main", FGT_STATE_RUNNING);
	assert_samples(slice, "t 2 0|s 1 0 +20|t 0 20|s 2 20 +0|t 2 70|"
			      "s 1 70 +20|t 0 90|s 2 90 +0");
}

static void a_stack_that_stays_has_a_sample_a_second(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(250);

	(void)state;
	fixture_main(slice, 250, "main", FIXTURE_FUTEX);
	assert_samples(slice, "t 2 0|s 1 0 +1000|s 1 1000 +1000|s 1 2000 +500|"
			      "t 0 2500|s 2 2500 +0");
}

static struct fixture_buffer write_changes(uint32_t ticks, bool has_states)
{
	struct fgt_ring_slice *slice = fixture_new(ticks);
	uint32_t stacks[] = { fixture_stack(slice, "main;a"),
			      fixture_stack(slice, "main;b") };
	struct fixture_buffer buffer;

	fixture_thread(slice, 4242, "main");
	for (uint32_t i = 0; i < ticks; i++)
		fixture_run(slice, 0, i, 1, stacks[i % 2],
			    i % 2 && has_states ? FIXTURE_FUTEX
						: FGT_STATE_RUNNING);
	buffer = write_perfetto(slice);
	fgt_ring_slice_free(slice);
	return buffer;
}

static size_t bytes_of_changes(uint32_t ticks, bool has_states)
{
	struct fixture_buffer buffer = write_changes(ticks, has_states);
	size_t len = buffer.len;

	fixture_buffer_done(&buffer);
	return len;
}

static void samples_and_states_take_few_bytes(void **state)
{
	(void)state;
	assert_true(bytes_of_changes(1500, false) -
			    bytes_of_changes(500, false) <
		    1000 * 23);
	assert_true(bytes_of_changes(1500, true) - bytes_of_changes(500, true) <
		    1000 * 40);
}

/* Samples in a bundle: whole packets, in zlib's framing. */
static unsigned int samples_of_bundle(struct span packed)
{
	static uint8_t plain[1 << 17];
	uLongf len = sizeof(plain);
	struct span trace, packet;
	unsigned int count = 0;
	uint64_t ignored;

	assert_int_equal(uncompress(plain, &len, packed.at,
				    (uLong)(packed.end - packed.at)),
			 Z_OK);
	trace = (struct span){ plain, plain + len };
	while (trace.at < trace.end) {
		assert_int_equal(read_field(&trace, &ignored, &packet), 1);
		assert_null(part(packet, 50).at);
		count += part(packet, 135).at != NULL;
	}
	return count;
}

static void many_packets_are_compressed_in_bundles(void **state)
{
	struct fixture_buffer buffer = write_changes(9000, false);
	struct span trace = { (const uint8_t *)buffer.bytes,
			      (const uint8_t *)buffer.bytes + buffer.len };
	unsigned int bundles = 0, samples = 0;

	(void)state;
	while (trace.at < trace.end) {
		struct span packet, packed;
		uint64_t ignored;

		assert_int_equal(read_field(&trace, &ignored, &packet), 1);
		packed = part(packet, 50);
		assert_non_null(packed.at);
		assert_ptr_equal(packed.end, packet.end);
		samples += samples_of_bundle(packed);
		bundles++;
	}
	assert_int_equal(samples, 9000 + 1);
	assert_true(bundles > 2);
	assert_true(buffer.len < 9000 * 10);
	fixture_buffer_done(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sample_lasts_until_the_next_one),
		cmocka_unit_test(a_state_that_changes_is_an_event_of_its_track),
		cmocka_unit_test(missed_ticks_are_a_sample_of_no_samples),
		cmocka_unit_test(a_stack_that_stays_has_a_sample_a_second),
		cmocka_unit_test(samples_and_states_take_few_bytes),
		cmocka_unit_test(many_packets_are_compressed_in_bundles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
