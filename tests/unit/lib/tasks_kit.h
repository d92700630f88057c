/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of tasks and spans share. Header only; for tests.
 */
#ifndef FGT_TESTS_TASKS_KIT_H
#define FGT_TESTS_TASKS_KIT_H

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/library.h"
#include "agent/lib/spans/journal.h"
#include "agent/lib/spans/spans.h"

static inline uint64_t begin_task(const char *name, uint64_t parent)
{
	uint64_t task = 0;

	assert_int_equal(fgt_task_begin(name, parent, &task), 0);
	assert_int_not_equal(task, 0);
	return task;
}

static inline uint64_t begin_span(const char *name, uint64_t parent)
{
	uint64_t span = 0;

	assert_int_equal(fgt_span_begin(name, parent, &span), 0);
	assert_int_not_equal(span, 0);
	return span;
}

static inline void end_task(uint64_t task)
{
	assert_int_equal(fgt_task_end(task), 0);
}

static inline void end_span(uint64_t span)
{
	assert_int_equal(fgt_span_end(span), 0);
}

static inline unsigned int active_tasks(void)
{
	struct fgt_status status = { .size = sizeof(status) };

	assert_int_equal(fgt_get_status(&status), 0);
	return status.active_tasks;
}

/* The last record of that kind and number. */
struct wanted {
	enum fgt_span_kind kind;
	uint64_t number;
	bool is_found;
	struct fgt_span_record record;
	char text[FGT_LABEL_VALUE_MAX + 1], key[FGT_LABEL_KEY_MAX + 1];
};

static inline int look(void *context, const struct fgt_span_record *record)
{
	struct wanted *wanted = context;

	if (record->kind != wanted->kind || record->number != wanted->number)
		return 0;
	wanted->is_found = true;
	wanted->record = *record;
	snprintf(wanted->text, sizeof(wanted->text), "%.*s", record->text_len,
		 record->text);
	snprintf(wanted->key, sizeof(wanted->key), "%.*s", record->key_len,
		 record->key);
	return 0;
}

static inline struct wanted find(enum fgt_span_kind kind, uint64_t number)
{
	struct wanted wanted = { .kind = kind, .number = number };

	(void)fgt_span_log_read(fgt_journal_log(), NULL, look, &wanted);
	return wanted;
}

/* "name#0" of a task, as the log has it. */
static inline void assert_name(uint64_t task, const char *name)
{
	struct wanted wanted = find(FGT_SPAN_TASK_BEGIN, task);

	assert_true(wanted.is_found);
	assert_string_equal(wanted.text, name);
}

static inline uint64_t parent_of(uint64_t task)
{
	struct wanted wanted = find(FGT_SPAN_TASK_BEGIN, task);

	assert_true(wanted.is_found);
	return wanted.record.owner;
}

/* Nothing lives before and after each test. */
static inline int check_clean(void **state)
{
	(void)state;
	assert_int_equal(fgt_task_enter(0), 0);
	assert_int_equal(active_tasks(), 0);
	return 0;
}

/* A test with nothing alive before it and after it. */
#define CLEAN(test)                                                            \
	cmocka_unit_test_setup_teardown(test, check_clean, check_clean)

#endif
