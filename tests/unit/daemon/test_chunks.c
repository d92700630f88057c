/* SPDX-License-Identifier: Apache-2.0 */
/* How a life is divided into chunks; the clock is passed in. */
#include "agent/daemon/continuous/chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)
#define LEAST  (SECOND / 50)
#define BEGIN  (7 * SECOND)

static struct fgt_chunks chunks_of(uint64_t seconds)
{
	return (struct fgt_chunks){ .next_ns = BEGIN,
				    .length_ns = seconds * SECOND };
}

static void chunk_is_taken_when_its_time_has_passed(void **state)
{
	struct fgt_chunks chunks = chunks_of(10);
	struct fgt_chunk chunk;

	(void)state;
	assert_false(fgt_chunks_take(&chunks, BEGIN + 10 * SECOND - 1, 0, LEAST,
				     &chunk));
	assert_true(fgt_chunks_take(&chunks, BEGIN + 10 * SECOND, 0, LEAST,
				    &chunk));
	assert_int_equal(chunk.from_ns, BEGIN);
	assert_int_equal(chunk.to_ns, BEGIN + 10 * SECOND);
	assert_false(chunk.is_last);
	assert_false(fgt_chunks_take(&chunks, BEGIN + 10 * SECOND, 0, LEAST,
				     &chunk));
}

static void chunks_cover_a_life_without_gap_and_overlap(void **state)
{
	const uint64_t ended_ns = BEGIN + 47 * SECOND + 123;
	struct fgt_chunks chunks = chunks_of(10);
	uint64_t covered_ns = BEGIN;
	struct fgt_chunk chunk;
	int count = 0;

	(void)state;
	/* Looks come late, and not at all for some time. */
	for (uint64_t now_ns = BEGIN; now_ns < ended_ns + 20 * SECOND;
	     now_ns += 1100 * SECOND / 1000 + (count == 2 ? 15 * SECOND : 0))
		while (fgt_chunks_take(&chunks, now_ns,
				       now_ns > ended_ns ? ended_ns : 0, LEAST,
				       &chunk)) {
			assert_int_equal(chunk.from_ns, covered_ns);
			assert_true(chunk.to_ns <= covered_ns + 10 * SECOND);
			covered_ns = chunk.to_ns;
			count++;
			assert_true(chunk.is_last == (count == 5));
		}
	assert_int_equal(count, 5);
	assert_int_equal(covered_ns, ended_ns + 1);
	assert_true(chunks.has_ended);
}

static void rest_without_two_ticks_is_left_out(void **state)
{
	struct fgt_chunks chunks = chunks_of(10);
	struct fgt_chunk chunk;

	(void)state;
	assert_false(fgt_chunks_take(&chunks, BEGIN + SECOND, BEGIN + LEAST - 1,
				     LEAST, &chunk));
	assert_true(chunks.has_ended);
	assert_false(fgt_chunks_take(&chunks, BEGIN + 100 * SECOND,
				     BEGIN + 50 * SECOND, LEAST, &chunk));
}

static void length_may_change_between_chunks(void **state)
{
	struct fgt_chunks chunks = chunks_of(10);
	struct fgt_chunk chunk;

	(void)state;
	assert_true(fgt_chunks_take(&chunks, BEGIN + 10 * SECOND, 0, LEAST,
				    &chunk));
	chunks.length_ns = 3 * SECOND;
	assert_true(fgt_chunks_take(&chunks, BEGIN + 13 * SECOND, 0, LEAST,
				    &chunk));
	assert_int_equal(chunk.from_ns, BEGIN + 10 * SECOND);
	assert_int_equal(chunk.to_ns, BEGIN + 13 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunk_is_taken_when_its_time_has_passed),
		cmocka_unit_test(chunks_cover_a_life_without_gap_and_overlap),
		cmocka_unit_test(rest_without_two_ticks_is_left_out),
		cmocka_unit_test(length_may_change_between_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
