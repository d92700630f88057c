/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the span log share: a log, records, a reader that sums up,
 * and threads that write. Header only; for tests.
 */
#ifndef FGT_TESTS_UNIT_SPAN_KIT_H
#define FGT_TESTS_UNIT_SPAN_KIT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/spans/span_region.h"

static inline struct fgt_span_log *new_log(size_t size_bytes)
{
	struct fgt_span_log *log;

	assert_int_equal(fgt_span_log_new(size_bytes, &log), 0);
	return log;
}

static inline void append(struct fgt_span_log *log,
			  struct fgt_span_writer *writer, uint64_t number,
			  const char *text)
{
	const struct fgt_span_record record = {
		.kind = FGT_SPAN_BEGIN,
		.tid = 7,
		.number = number,
		.owner = 3,
		.track = 8,
		.parent_track = 9,
		.begin_ns = number * 10,
		.text = text,
		.text_len = (uint8_t)strlen(text),
	};

	assert_int_equal(fgt_span_log_append(log, writer, &record), 0);
}

struct seen {
	uint64_t count, last, sum;
	uint64_t limit; /* refuses after so many; 0: none */
	char text[256];
};

static inline int see(void *context, const struct fgt_span_record *record)
{
	struct seen *seen = context;

	if (seen->limit && seen->count == seen->limit)
		return 1;
	seen->count++;
	seen->last = record->number;
	seen->sum += record->number;
	snprintf(seen->text, sizeof(seen->text), "%.*s", record->text_len,
		 record->text);
	return 0;
}

#define WRITERS 6
#define RECORDS 20000

struct crowd {
	struct fgt_span_log *log;
	atomic_int next, running;
	pthread_t threads[WRITERS];
};

/* Each record's fields follow from its number: a torn one would show. */
static inline void *write_many(void *context)
{
	struct crowd *crowd = context;
	struct fgt_span_writer writer = { 0 };
	uint64_t base = (uint64_t)atomic_fetch_add(&crowd->next, 1) << 32;

	for (uint64_t i = 1; i <= RECORDS; i++) {
		char text[24];
		const struct fgt_span_record record = {
			.kind = FGT_SPAN_END,
			.number = base + i,
			.owner = ~(base + i),
			.begin_ns = (base + i) * 3,
			.end_ns = (base + i) * 5,
			.text = text,
			.text_len = (uint8_t)snprintf(
				text, sizeof(text), "%llx",
				(unsigned long long)(base + i)),
		};

		(void)fgt_span_log_append(crowd->log, &writer, &record);
	}
	atomic_fetch_sub(&crowd->running, 1);
	return NULL;
}

static inline void start_crowd(struct crowd *crowd)
{
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&crowd->threads[i], NULL,
						write_many, crowd),
				 0);
}

static inline void join_crowd(struct crowd *crowd)
{
	for (int i = 0; i < WRITERS; i++)
		pthread_join(crowd->threads[i], NULL);
}

static inline int check_whole(void *context,
			      const struct fgt_span_record *record)
{
	uint64_t *count = context;
	char text[24];

	assert_int_equal(record->kind, FGT_SPAN_END);
	assert_true(record->owner == ~record->number);
	assert_true(record->begin_ns == record->number * 3);
	assert_true(record->end_ns == record->number * 5);
	snprintf(text, sizeof(text), "%llx",
		 (unsigned long long)record->number);
	assert_int_equal(strlen(text), record->text_len);
	assert_memory_equal(text, record->text, record->text_len);
	++*count;
	return 0;
}

#endif
