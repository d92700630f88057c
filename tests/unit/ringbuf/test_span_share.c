/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log's memfd is closed and made again; writers and readers are not
 * affected.
 */
#include <errno.h>

#include "tests/unit/ringbuf/span_kit.h"

/* The sum of the numbers, read through the memfd. */
static uint64_t sum_shared(const struct fgt_span_log *log)
{
	FGT_AUTO(fgt_span_log_free) struct fgt_span_log *other = NULL;
	struct seen seen = { 0 };

	assert_int_equal(fgt_span_log_open(fgt_span_log_fd(log), &other), 0);
	assert_int_equal(fgt_span_log_read(other, NULL, see, &seen), 0);
	return seen.sum;
}

static void closed_memfd_is_replaced(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	struct fgt_span_writer writer = { 0 };
	struct fgt_span_log_counts counts;
	int fd;

	(void)state;
	append(log, &writer, 1, "shared");
	fgt_span_log_unshare(log);
	assert_int_equal(fgt_span_log_fd(log), -1);
	append(log, &writer, 2, "alone");
	assert_int_equal(fgt_span_log_share(log), 0);
	assert_int_equal(sum_shared(log), 3);
	append(log, &writer, 4, "shared again");
	assert_int_equal(sum_shared(log), 7);
	/* The writer has not noticed. */
	assert_int_equal(atomic_load(&log->region->next), 1);
	fgt_span_log_get_counts(log, &counts);
	assert_int_equal(counts.appended, 3);
	assert_int_equal(counts.lost, 0);
	fd = fgt_span_log_fd(log);
	assert_int_equal(fgt_span_log_share(log), 0);
	assert_int_equal(fgt_span_log_fd(log), fd);
}

static void a_record_that_never_ends_is_left_alone(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	struct fgt_span_chunk *chunks = log->region->chunks;
	struct fgt_span_writer writer = { 0 };

	(void)state;
	append(log, &writer, 1, "before");
	fgt_span_log_unshare(log);
	atomic_fetch_or(&chunks[1].state, FGT_CHUNK_BUSY);
	assert_int_equal(fgt_span_log_share(log), -EBUSY);
	assert_int_equal(fgt_span_log_fd(log), -1);
	append(log, &writer, 2, "meanwhile");
	atomic_fetch_and(&chunks[1].state, ~FGT_CHUNK_BUSY);
	assert_int_equal(fgt_span_log_share(log), 0);
	assert_int_equal(sum_shared(log), 3);
}

static void the_memfd_comes_and_goes_while_threads_write(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(8 * FGT_SPAN_LOG_CHUNK_BYTES);
	FGT_AUTO(fgt_span_reader_free) struct fgt_span_reader *reader = NULL;
	struct crowd crowd = { .log = log, .running = WRITERS };
	struct fgt_span_log_counts counts;
	uint64_t seen = 0, ignored = 0, shared = 0;

	(void)state;
	assert_int_equal(fgt_span_reader_new(log, &reader), 0);
	start_crowd(&crowd);
	while (atomic_load(&crowd.running) || !shared) {
		FGT_AUTO(fgt_span_log_free) struct fgt_span_log *other = NULL;
		int r;

		fgt_span_log_unshare(log);
		r = fgt_span_log_share(log);
		assert_true(r == 0 || r == -EBUSY);
		(void)fgt_span_log_read(log, reader, check_whole, &seen);
		if (r < 0)
			continue;
		shared++;
		assert_int_equal(
			fgt_span_log_open(fgt_span_log_fd(log), &other), 0);
		(void)fgt_span_log_read(other, NULL, check_whole, &ignored);
	}
	join_crowd(&crowd);
	(void)fgt_span_log_read(log, reader, check_whole, &seen);
	fgt_span_log_get_counts(log, &counts);
	/* Those that were lost while it was made are not all counted. */
	assert_true(counts.appended + counts.lost <= WRITERS * RECORDS);
	assert_int_equal(seen + fgt_span_reader_missed(log, reader),
			 counts.appended);
	assert_true(seen > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_memfd_is_replaced),
		cmocka_unit_test(a_record_that_never_ends_is_left_alone),
		cmocka_unit_test(the_memfd_comes_and_goes_while_threads_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
