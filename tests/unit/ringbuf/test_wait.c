/* SPDX-License-Identifier: Apache-2.0 */
/* Waits and wake-ups of a slice: their check, their narrowing, their files. */
#include "ringbuf/slice/wait.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/slice/slice_codec.h"
#include "tests/unit/ringbuf/pressure_fixture.h"

#define AT(tick) (FIXTURE_START_NS + (tick)*FIXTURE_PERIOD_NS)

static void narrow_keeps_what_is_used(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich(), *part;

	(void)state;
	/* Ticks 20 to 39: thread 4243 waits for a mutex, and is woken. */
	assert_int_equal(fgt_slice_narrow(slice, AT(20), AT(39), 4243, &part),
			 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->run_count, 1);
	assert_int_equal(part->runs[0].wait, 1);
	assert_int_equal(part->wait_count, 1);
	assert_int_equal(part->waits[0].owner_tid, 4242);
	assert_string_equal(fgt_slice_string(part, part->waits[0].object),
			    "g_lock+0x8");
	/* The one that holds the mutex, for its name. */
	assert_int_equal(part->thread_count, 2);
	assert_int_equal(part->threads[0].tid, 4242);
	assert_string_equal(fgt_slice_string(part, part->threads[0].name),
			    "app");
	assert_int_equal(part->runs[0].thread, 1);
	assert_int_equal(part->wake_count, 0);
	assert_int_equal(part->lost_wakes, 5);
	fgt_ring_slice_free(part);
	assert_int_equal(fgt_slice_narrow(slice, AT(5), AT(12), 4242, &part),
			 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->wait_count, 0);
	assert_int_equal(part->wake_count, 1);
	assert_int_equal(part->waker_count, 1);
	assert_int_not_equal(part->wakers[0].stack, FGT_NODE_NONE);
	assert_string_equal(fgt_slice_string(part, part->wakers[0].name),
			    "waker");
	fgt_ring_slice_free(part);
	fgt_ring_slice_free(slice);
}

/* Each of these is refused. */
static void check_finds_what_does_not_exist(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();

	(void)state;
#define REFUSED(field, value)                                                  \
	do {                                                                   \
		__typeof__(field) kept_ = (field);                             \
		(field) = (__typeof__(field))(value);                          \
		assert_false(fgt_slice_is_valid(slice));                       \
		(field) = kept_;                                               \
		assert_true(fgt_slice_is_valid(slice));                        \
	} while (0)
	REFUSED(slice->waits[0].kind, FGT_WAIT_KINDS);
	REFUSED(slice->waits[0].text, slice->strings.count);
	REFUSED(slice->waits[0].object, slice->strings.count);
	REFUSED(slice->runs[0].wait, slice->wait_count + 1);
	REFUSED(slice->runs[1].wait, 1); /* of a thread that runs */
	REFUSED(slice->wakers[0].context, FGT_WAKE_CONTEXTS);
	REFUSED(slice->wakers[0].name, slice->strings.count);
	REFUSED(slice->wakers[0].stack, slice->node_count);
	REFUSED(slice->wakes[0].thread, slice->thread_count);
	REFUSED(slice->wakes[0].thread, 2); /* out of order */
	REFUSED(slice->wakes[1].waker, slice->waker_count);
	REFUSED(slice->wakes[1].at_ns, AT(1000));
	REFUSED(slice->run_wait_count, 1);
	fgt_ring_slice_free(slice);
}

static int decode_with(struct fgt_ring_slice *slice, uint32_t run)
{
	struct fgt_ring_slice *back = NULL;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	struct fgt_why why;
	uint8_t *at;
	int r;

	/* The first of two runs with a wait is number 4. */
	assert_int_equal(fgt_slice_encode(slice, &sink), 0);
	at = memmem(buffer.bytes, buffer.len, "run_waits\x94\x04", 11);
	assert_non_null(at);
	at[10] = (uint8_t)run;
	fixture_drop_checksum(&buffer);
	r = fgt_slice_decode((uint8_t *)buffer.bytes, buffer.len, &back, &why);
	fgt_ring_slice_free(back);
	fixture_buffer_done(&buffer);
	return r;
}

static void file_with_wrong_runs_is_refused(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();

	(void)state;
	assert_int_equal(decode_with(slice, 4), 0);
	assert_int_equal(decode_with(slice, 100), -EBADMSG);
	assert_int_equal(decode_with(slice, 1), -EBADMSG); /* it runs */
	fgt_ring_slice_free(slice);
}

static struct fgt_ring_slice *write_and_read(struct fgt_ring_slice *slice)
{
	struct fixture_buffer buffer = { 0 };
	const struct fgt_sink sink = fixture_buffer_sink(&buffer);
	struct fgt_ring_slice *back = NULL;
	struct fgt_why why;

	assert_int_equal(fgt_slice_encode(slice, &sink), 0);
	assert_int_equal(fgt_slice_decode((uint8_t *)buffer.bytes, buffer.len,
					  &back, &why),
			 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
	return back;
}

/* To a hair: they are not whole. */
static bool is_about(double a, double b)
{
	return a > b - 1e-6 && a < b + 1e-6;
}

static void pressure_is_known_between_two_readings(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich(), *part;

	(void)state;
	fixture_pressure(slice, -400, 7);
	fixture_pressure(slice, 100, 17);
	fixture_pressure(slice, 600, 417);
	slice = write_and_read(slice);
	assert_true(is_about(fgt_pressure_ms(slice, FGT_PRESSURE_CPU,
					     FIXTURE_START_NS,
					     FIXTURE_START_NS + 100000000),
			     2));
	assert_true(is_about(fgt_pressure_ms(slice, FGT_PRESSURE_CPU,
					     FIXTURE_START_NS + 50000000,
					     FIXTURE_START_NS + 350000000),
			     201));
	assert_true(isnan(fgt_pressure_ms(slice, FGT_PRESSURE_CPU,
					  FIXTURE_START_NS - 500000000,
					  FIXTURE_START_NS)));
	assert_true(
		isnan(fgt_pressure_ms(slice, FGT_PRESSURE_CPU, FIXTURE_START_NS,
				      FIXTURE_START_NS + 700000000)));
	/* Ticks 0 to 4, of 10 ms. */
	assert_int_equal(fgt_slice_narrow(slice, AT(0), AT(4), 4242, &part), 0);
	assert_int_equal(part->pressure_count, 2);
	assert_true(is_about(
		fgt_pressure_ms(part, FGT_PRESSURE_CPU, AT(0), AT(4)), 0.8));
	fgt_ring_slice_free(part);
	slice->pressures[1].mono_ns = slice->pressures[0].mono_ns;
	assert_false(fgt_slice_is_valid(slice));
	fgt_ring_slice_free(slice);
}

static void kinds_have_names(void **state)
{
	(void)state;
	for (uint32_t kind = 1; kind < FGT_WAIT_KINDS; kind++)
		assert_string_not_equal(fgt_wait_kind_name(kind), "unknown");
	assert_string_equal(fgt_wait_kind_name(FGT_WAIT_MUTEX), "mutex");
	assert_string_equal(fgt_wait_kind_name(FGT_WAIT_KINDS), "unknown");
}

static void names_of_sockets_look_like_no_other_ones(void **state)
{
	static const char forged[] = "\0x) 5 (socket:[7]\n";
	char name[64], cut[8];

	(void)state;
	fgt_wait_name_unix(forged, sizeof(forged) - 1, name, sizeof(name));
	assert_string_equal(name, "unix @x? 5 ?socket:[7]?");
	fgt_wait_name_unix("/run/x", sizeof("/run/x"), name, sizeof(name));
	assert_string_equal(name, "unix /run/x");
	fgt_wait_name_unix("/run/x", sizeof("/run/x"), cut, sizeof(cut));
	assert_string_equal(cut, "unix /r");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(narrow_keeps_what_is_used),
		cmocka_unit_test(check_finds_what_does_not_exist),
		cmocka_unit_test(file_with_wrong_runs_is_refused),
		cmocka_unit_test(pressure_is_known_between_two_readings),
		cmocka_unit_test(kinds_have_names),
		cmocka_unit_test(names_of_sockets_look_like_no_other_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
