/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the live file, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "agent/lib/spans/activity.h"

static struct {
	char text[1 << 16];
	size_t len;
} out;

static int keep(void *context, const void *bytes, size_t len)
{
	(void)context;
	assert_true(out.len + len < sizeof(out.text));
	memcpy(out.text + out.len, bytes, len);
	out.len += len;
	out.text[out.len] = 0;
	return 0;
}

static const struct fgt_sink sink = { .write = keep };

static int empty(void **state)
{
	(void)state;
	out.len = 0;
	out.text[0] = 0;
	return 0;
}

static void put(struct fgt_span_record record, const char *key,
		const char *text)
{
	record.key = key;
	record.key_len = (uint8_t)strlen(key);
	record.text = text;
	record.text_len = (uint8_t)strlen(text);
	assert_int_equal(fgt_activity_put(&record, 77, &sink), 0);
}

static void head_opens_an_array(void **state)
{
	(void)state;
	assert_int_equal(fgt_activity_put_head(77, "app", 1500, 0, &sink), 0);
	assert_string_equal(
		out.text,
		"[\n{\"name\":\"process_name\",\"ph\":\"M\",\"ts\":0.000,"
		"\"pid\":77,\"tid\":77,\"args\":{\"name\":\"app\"}},\n"
		"{\"name\":\"clock\",\"ph\":\"M\",\"ts\":0.000,\"pid\":77,"
		"\"tid\":77,\"args\":{\"monotonic_ns\":\"1500\","
		"\"wall_clock\":\"1970-01-01T00:00:00.000000000Z\"}},\n");
}

static void child_task_has_a_name_a_begin_and_an_arrow(void **state)
{
	(void)state;
	put((struct fgt_span_record){ .kind = FGT_SPAN_TASK_BEGIN,
				      .number = 0x40,
				      .track = 5,
				      .parent_track = 3,
				      .begin_ns = 2001 },
	    "", "request#0");
	assert_string_equal(
		out.text,
		"{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":0.000,"
		"\"pid\":77,\"tid\":1073741829,\"args\":{\"name\":"
		"\"request#0\"}},\n"
		"{\"name\":\"request#0\",\"ph\":\"B\",\"ts\":2.001,\"pid\":77,"
		"\"tid\":1073741829,\"args\":{\"id\":\"01\"}},\n"
		"{\"name\":\"child-task\",\"ph\":\"s\",\"ts\":2.001,"
		"\"pid\":77,\"tid\":1073741827,\"cat\":\"task\",\"id\":"
		"\"40\"},\n"
		"{\"name\":\"child-task\",\"ph\":\"f\",\"ts\":2.001,"
		"\"pid\":77,\"tid\":1073741829,\"cat\":\"task\",\"id\":"
		"\"40\",\"bp\":\"e\"},\n");
}

static void end_has_the_time_of_the_end(void **state)
{
	(void)state;
	put((struct fgt_span_record){ .kind = FGT_SPAN_END,
				      .track = 5,
				      .begin_ns = 2001,
				      .end_ns = 3000 },
	    "", "a \"name\"");
	assert_string_equal(out.text,
			    "{\"name\":\"a \\\"name\\\"\",\"ph\":\"E\","
			    "\"ts\":3.000,\"pid\":77,\"tid\":1073741829},\n");
}

static void marks_counters_and_labels_are_events(void **state)
{
	(void)state;
	put((struct fgt_span_record){ .kind = FGT_SPAN_MARK,
				      .tid = 78,
				      .begin_ns = 1000 },
	    "", "mark");
	put((struct fgt_span_record){ .kind = FGT_SPAN_COUNTER,
				      .value = 2.5,
				      .begin_ns = 1000 },
	    "", "queue");
	put((struct fgt_span_record){ .kind = FGT_SPAN_LABEL,
				      .track = 1,
				      .begin_ns = 1000 },
	    "user", "ann");
	assert_string_equal(
		out.text,
		"{\"name\":\"mark\",\"ph\":\"i\",\"ts\":1.000,\"pid\":77,"
		"\"tid\":78,\"s\":\"t\"},\n"
		"{\"name\":\"queue\",\"ph\":\"C\",\"ts\":1.000,\"pid\":77,"
		"\"tid\":77,\"args\":{\"value\":2.5}},\n"
		"{\"name\":\"user\",\"ph\":\"i\",\"ts\":1.000,\"pid\":77,"
		"\"tid\":1073741825,\"s\":\"t\",\"args\":{\"value\":"
		"\"ann\"}},\n");
}

static void rewritten_record_writes_nothing(void **state)
{
	(void)state;
	put((struct fgt_span_record){ .kind = FGT_SPAN_BEGIN,
				      .is_again = true },
	    "", "span");
	assert_int_equal(out.len, 0);
}

static void largest_record_fits(void **state)
{
	char key[FGT_LABEL_KEY_MAX + 1], value[FGT_LABEL_VALUE_MAX + 1];

	(void)state;
	memset(key, 1, sizeof(key));
	memset(value, 1, sizeof(value));
	key[FGT_LABEL_KEY_MAX] = value[FGT_LABEL_VALUE_MAX] = 0;
	put((struct fgt_span_record){ .kind = FGT_SPAN_LABEL,
				      .track = UINT32_MAX,
				      .begin_ns = UINT64_MAX },
	    key, value);
	assert_true(out.len < FGT_ACTIVITY_EVENT_MAX);
	out.len = 0;
	put((struct fgt_span_record){ .kind = FGT_SPAN_TASK_BEGIN,
				      .number = UINT64_MAX,
				      .track = UINT32_MAX,
				      .parent_track = UINT32_MAX,
				      .begin_ns = UINT64_MAX },
	    "", value);
	assert_true(out.len < FGT_ACTIVITY_EVENT_MAX);
}

static void lost_records_are_an_event(void **state)
{
	(void)state;
	assert_int_equal(fgt_activity_put_lost(12, 77, 1000, &sink), 0);
	assert_string_equal(out.text,
			    "{\"name\":\"[events lost]\",\"ph\":\"i\","
			    "\"ts\":1.000,\"pid\":77,\"tid\":77,\"s\":\"g\","
			    "\"args\":{\"lost\":12}},\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(head_opens_an_array, empty),
		cmocka_unit_test_setup(
			child_task_has_a_name_a_begin_and_an_arrow, empty),
		cmocka_unit_test_setup(end_has_the_time_of_the_end, empty),
		cmocka_unit_test_setup(marks_counters_and_labels_are_events,
				       empty),
		cmocka_unit_test_setup(rewritten_record_writes_nothing, empty),
		cmocka_unit_test_setup(largest_record_fits, empty),
		cmocka_unit_test_setup(lost_records_are_an_event, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
