/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log: readers get what writers append; no thread waits, every record
 * is counted, and a damaged region does no harm.
 */
#include "ringbuf/spans/span_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/span_kit.h"

static void a_record_comes_back_whole(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	FGT_AUTO(fgt_span_log_free) struct fgt_span_log *reader = NULL;
	struct fgt_span_writer writer = { 0 };
	char value[FGT_LABEL_VALUE_MAX + 1], key[FGT_LABEL_KEY_MAX + 1];
	const struct fgt_span_record label = {
		.kind = FGT_SPAN_LABEL,
		.tid = 5,
		.number = 42,
		.begin_ns = 1,
		.key = key,
		.key_len = FGT_LABEL_KEY_MAX,
		.text = value,
		.text_len = FGT_LABEL_VALUE_MAX,
	};
	struct seen seen = { 0 };

	(void)state;
	memset(value, 'v', sizeof(value));
	memset(key, 'k', sizeof(key));
	append(log, &writer, 41, "exactly8");
	assert_int_equal(fgt_span_log_append(log, &writer, &label), 0);
	assert_int_equal(fgt_span_log_open(fgt_span_log_fd(log), &reader), 0);
	assert_int_equal(fgt_span_log_read(reader, NULL, see, &seen), 0);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.sum, 83);
	assert_int_equal(strlen(seen.text), FGT_LABEL_VALUE_MAX);
	assert_int_equal(fgt_span_log_fd(reader), -1);
}

static void sizes_out_of_range_are_refused(void **state)
{
	struct fgt_span_log *log = NULL;

	(void)state;
	assert_int_equal(fgt_span_log_new(FGT_SPAN_LOG_BYTES_MIN - 1, &log),
			 -EINVAL);
	assert_int_equal(fgt_span_log_new(FGT_SPAN_LOG_BYTES_MAX + 1, &log),
			 -EINVAL);
	assert_null(log);
}

static void a_full_log_drops_the_oldest(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	struct fgt_span_writer writer = { 0 };
	struct fgt_span_log_counts counts;
	struct seen seen = { 0 };

	(void)state;
	for (uint64_t i = 1; i <= 10000; i++)
		append(log, &writer, i, "0123456789");
	fgt_span_log_get_counts(log, &counts);
	assert_int_equal(counts.appended, 10000);
	assert_int_equal(counts.lost, 0);
	assert_int_equal(fgt_span_log_read(log, NULL, see, &seen), 0);
	/* 8 words each, 63 to a chunk, three chunks, the last in part. */
	assert_in_range(seen.count, 2 * 63, 3 * 63);
	/* The newest, without a gap: 10000 and those before it. */
	assert_int_equal(seen.sum, seen.count * 10000 -
					   seen.count * (seen.count - 1) / 2);
}

/* At any beginning of the log. */
static void a_thread_is_read_in_its_order(void **state)
{
	(void)state;
	for (uint64_t last = 50; last < 800; last += 50) {
		FGT_AUTO(fgt_span_log_free)
		struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
		struct fgt_span_writer writer = { 0 };
		struct seen seen = { 0 };

		for (uint64_t i = 1; i <= last; i++)
			append(log, &writer, i, "0123456789");
		assert_int_equal(fgt_span_log_read(log, NULL, see, &seen), 0);
		assert_int_equal(seen.last, last);
	}
}

#define LATER 100000u

/* Appends more during the read. */
struct appender {
	struct fgt_span_log *log;
	struct fgt_span_writer writer;
	bool has_appended;
	struct seen seen;
};

static int see_and_append(void *context, const struct fgt_span_record *record)
{
	struct appender *appender = context;

	for (uint64_t i = 0; i < 150 && !appender->has_appended; i++)
		append(appender->log, &appender->writer, LATER + i,
		       "0123456789");
	appender->has_appended = true;
	return see(&appender->seen, record);
}

static void record_during_a_read_waits_for_the_next(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	FGT_AUTO(fgt_span_reader_free) struct fgt_span_reader *reader = NULL;
	struct fgt_span_writer writer = { 0 };
	struct appender appender = { .log = log };

	(void)state;
	for (uint64_t i = 1; i <= 400; i++)
		append(log, &writer, i, "0123456789");
	assert_int_equal(fgt_span_reader_new(log, &reader), 0);
	assert_int_equal(
		fgt_span_log_read(log, reader, see_and_append, &appender), 0);
	assert_true(appender.seen.count > 0 && appender.seen.last < LATER);
	assert_int_equal(fgt_span_log_read(log, reader, see, &appender.seen),
			 0);
	assert_int_equal(appender.seen.last, LATER + 149);
	assert_int_equal(
		appender.seen.count + fgt_span_reader_missed(log, reader), 550);
}

static void a_chunk_is_taken_from_an_idle_owner(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	struct fgt_span_writer idle = { 0 }, busy = { 0 };
	struct seen seen = { 0 };

	(void)state;
	append(log, &idle, 1, "idle");
	for (uint64_t i = 0; i < 500; i++)
		append(log, &busy, 1000, "busy");
	/* Its chunk was taken; it takes another, and its records do not land in
	 * the old one. */
	append(log, &idle, 5, "again");
	assert_int_equal(fgt_span_log_read(log, NULL, see, &seen), 0);
	assert_int_equal((seen.sum - 5) % 1000, 0);
	assert_int_equal((seen.sum - 5) / 1000, seen.count - 1);
}

static void chunk_being_written_is_passed_over(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	struct fgt_span_writer stuck = { 0 }, busy = { 0 };
	struct fgt_span_log_counts counts;
	struct seen seen = { 0 };
	const struct fgt_span_record record = { .kind = FGT_SPAN_MARK };
	struct fgt_span_chunk *chunks = log->region->chunks;

	(void)state;
	append(log, &stuck, 7, "stuck");
	/* A thread that was stopped amidst a record leaves its chunk busy. */
	atomic_fetch_or(&chunks[0].state, FGT_CHUNK_BUSY);
	for (uint64_t i = 0; i < 1000; i++)
		append(log, &busy, 1000, "busy");
	assert_int_equal(fgt_span_log_read(log, NULL, see, &seen), 0);
	assert_int_equal(seen.sum % 1000, 7);
	/* When all of them are: lost, counted, and it does not wait. */
	for (int i = 0; i < 3; i++)
		atomic_fetch_or(&chunks[i].state, FGT_CHUNK_BUSY);
	assert_int_equal(fgt_span_log_append(log, &busy, &record), -ENOBUFS);
	fgt_span_log_get_counts(log, &counts);
	assert_int_equal(counts.lost, 1);
}

static void reader_continues_where_it_was(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	FGT_AUTO(fgt_span_reader_free) struct fgt_span_reader *reader = NULL;
	struct fgt_span_writer writer = { 0 };
	struct seen seen = { .limit = 3 };

	(void)state;
	assert_int_equal(fgt_span_reader_new(log, &reader), 0);
	for (uint64_t i = 1; i <= 5; i++)
		append(log, &writer, i, "x");
	assert_int_equal(fgt_span_log_read(log, reader, see, &seen), 1);
	assert_int_equal(seen.last, 3);
	seen.limit = 0;
	assert_int_equal(fgt_span_log_read(log, reader, see, &seen), 0);
	assert_int_equal(seen.count, 5);
	assert_int_equal(seen.sum, 15);
	assert_int_equal(fgt_span_log_read(log, reader, see, &seen), 0);
	assert_int_equal(seen.count, 5);
	assert_int_equal(fgt_span_reader_missed(log, reader), 0);
}

static void slow_reader_gets_the_count_of_missed_records(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	FGT_AUTO(fgt_span_reader_free) struct fgt_span_reader *reader = NULL;
	struct fgt_span_writer writer = { 0 };
	struct seen seen = { 0 };

	(void)state;
	assert_int_equal(fgt_span_reader_new(log, &reader), 0);
	for (uint64_t i = 1; i <= 2000; i++) {
		append(log, &writer, i, "x");
		if (i % 700 == 0)
			(void)fgt_span_log_read(log, reader, see, &seen);
	}
	(void)fgt_span_log_read(log, reader, see, &seen);
	assert_true(seen.count < 2000);
	assert_int_equal(seen.count + fgt_span_reader_missed(log, reader),
			 2000);
}

/* ---- Threads ------------------------------------------------------------ */

static void readers_see_whole_records_while_threads_write(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(8 * FGT_SPAN_LOG_CHUNK_BYTES);
	FGT_AUTO(fgt_span_reader_free) struct fgt_span_reader *reader = NULL;
	struct crowd crowd = { .log = log, .running = WRITERS };
	struct fgt_span_log_counts counts;
	uint64_t seen = 0, ignored = 0;

	(void)state;
	assert_int_equal(fgt_span_reader_new(log, &reader), 0);
	start_crowd(&crowd);
	while (atomic_load(&crowd.running)) {
		(void)fgt_span_log_read(log, reader, check_whole, &seen);
		(void)fgt_span_log_read(log, NULL, check_whole, &ignored);
	}
	join_crowd(&crowd);
	(void)fgt_span_log_read(log, reader, check_whole, &seen);
	fgt_span_log_get_counts(log, &counts);
	assert_int_equal(counts.appended + counts.lost, WRITERS * RECORDS);
	assert_int_equal(seen + fgt_span_reader_missed(log, reader),
			 counts.appended);
	assert_true(seen > 0);
}

/* ---- Logs of other processes ------------------------------------------------
 * */

static void a_file_that_could_shrink_is_refused(void **state)
{
	FGT_AUTO(fgt_fd_close)
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fgt_span_log *log = NULL;

	(void)state;
	assert_int_equal(fgt_span_log_open(fd, &log), -EINVAL);
	assert_int_equal(ftruncate(fd, 64 << 10), 0);
	assert_int_equal(fgt_span_log_open(fd, &log), -EINVAL);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	/* Sealed, but no log. */
	assert_int_equal(fgt_span_log_open(fd, &log), -EINVAL);
	assert_int_equal(fgt_span_log_open(-1, &log), -EINVAL);
	assert_null(log);
}

/* The kernel may have no page for its holes: SIGBUS for those who map it. */
static void a_memfd_of_huge_pages_is_refused(void **state)
{
	FGT_AUTO(fgt_fd_close)
	int fd = memfd_create("x",
			      MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct fgt_span_log *log = NULL;

	(void)state;
	if (fd < 0 || ftruncate(fd, 2 << 20) < 0)
		skip(); /* no huge pages here */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_false(fgt_memfd_is_sealed(fd));
	assert_int_equal(fgt_span_log_open(fd, &log), -EINVAL);
}

static void any_damage_is_survived(void **state)
{
	FGT_AUTO(fgt_span_log_free)
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	struct fgt_span_writer writer = { 0 };
	uint64_t random = 1;

	(void)state;
	for (uint64_t i = 0; i < 200; i++)
		append(log, &writer, i, "some text");
	for (int i = 0; i < 20000; i++) {
		_Atomic uint64_t *words = (_Atomic uint64_t *)log->region;
		FGT_AUTO(fgt_span_log_free) struct fgt_span_log *reader = NULL;
		struct seen seen = { 0 };

		random = random * 6364136223846793005u + 1442695040888963407u;
		/* Anything but the fixed part of the header. */
		words[8 + (random >> 33) % (4 * 512 - 8)] = random >>
							    (random & 31);
		assert_int_equal(
			fgt_span_log_open(fgt_span_log_fd(log), &reader), 0);
		(void)fgt_span_log_read(reader, NULL, see, &seen);
		assert_true(seen.count <= 3 * 511);
	}
}

/* A program that becomes a daemon closes all that it has not opened itself,
 * and gets the numbers again. */
static void descriptor_of_another_file_is_left_alone(void **state)
{
	struct fgt_span_log *log = new_log(FGT_SPAN_LOG_BYTES_MIN);
	int fd = fgt_span_log_fd(log), ends[2];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], fd), fd);
	assert_int_equal(fgt_span_log_fd(log), -1);
	fgt_span_log_free(log);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

static void numbers_are_short_texts(void **state)
{
	char text[FGT_NUMBER_TEXT_SIZE];

	(void)state;
	assert_int_equal(fgt_number_text(0, text), 1);
	assert_int_equal(fgt_number_text(FGT_NUMBER_SERIAL_ONE, text), 4);
	assert_int_equal(fgt_number_text(UINT64_MAX, text), 11);
	assert_int_equal(strlen(text), 11);
	assert_null(strpbrk(text, "$."));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_comes_back_whole),
		cmocka_unit_test(sizes_out_of_range_are_refused),
		cmocka_unit_test(a_full_log_drops_the_oldest),
		cmocka_unit_test(a_thread_is_read_in_its_order),
		cmocka_unit_test(record_during_a_read_waits_for_the_next),
		cmocka_unit_test(a_chunk_is_taken_from_an_idle_owner),
		cmocka_unit_test(chunk_being_written_is_passed_over),
		cmocka_unit_test(reader_continues_where_it_was),
		cmocka_unit_test(slow_reader_gets_the_count_of_missed_records),
		cmocka_unit_test(readers_see_whole_records_while_threads_write),
		cmocka_unit_test(a_file_that_could_shrink_is_refused),
		cmocka_unit_test(a_memfd_of_huge_pages_is_refused),
		cmocka_unit_test(any_damage_is_survived),
		cmocka_unit_test(descriptor_of_another_file_is_left_alone),
		cmocka_unit_test(numbers_are_short_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
