/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction's facts through a message and back, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "agent/protocol/message.h"
#include "agent/protocol/transaction_facts.h"

#define LENGTH_BYTES 4

static struct fgt_message *finish(struct fgt_builder *builder)
{
	struct fgt_message *message;
	const uint8_t *bytes;
	size_t len;

	assert_int_equal(fgt_builder_finish(builder, &bytes, &len), 0);
	assert_int_equal(fgt_message_decode(bytes + LENGTH_BYTES,
					    len - LENGTH_BYTES, &message),
			 0);
	fgt_builder_free(builder);
	return message;
}

static struct fgt_message *pass(const struct fgt_transaction_facts *facts)
{
	struct fgt_builder *builder;

	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_facts_put(builder, facts);
	return finish(builder);
}

static void facts_come_out_as_they_went_in(void **state)
{
	static struct fgt_facts_room room;
	const struct fgt_tag tags[] = { { "cart", "7" }, { "empty", "" } };
	const struct fgt_thread_run thread_runs[] = { { .tid = 12 },
						      { .tid = 34 },
						      { .tid = 56 } };
	const struct fgt_transaction_facts facts = {
		.name = "GET /cart",
		.op = "http.server",
		.status = "internal_error",
		.level = "fatal",
		.release = "shop@1",
		.environment = "test",
		.event_id = "0123456789abcdef0123456789abcdef",
		.trace_id = "1123456789abcdef0123456789abcdef",
		.span_id = "0123456789abcdef",
		.parent_span_id = "1123456789abcdef",
		.begin_ns = 12345,
		.end_ns = 67890,
		.active_tid = 12,
		.all_threads = 1,
		.tags = tags,
		.tag_count = 2,
		.thread_runs = thread_runs,
		.thread_run_count = 3,
	};
	struct fgt_message *message = pass(&facts);

	(void)state;
	assert_int_equal(fgt_facts_read(message, &room, NULL), 0);
	assert_string_equal(room.facts.name, facts.name);
	assert_string_equal(room.facts.op, facts.op);
	assert_string_equal(room.facts.status, facts.status);
	assert_string_equal(room.facts.level, facts.level);
	assert_string_equal(room.facts.release, facts.release);
	assert_string_equal(room.facts.environment, facts.environment);
	assert_string_equal(room.facts.event_id, facts.event_id);
	assert_string_equal(room.facts.trace_id, facts.trace_id);
	assert_string_equal(room.facts.span_id, facts.span_id);
	assert_string_equal(room.facts.parent_span_id, facts.parent_span_id);
	assert_int_equal(room.facts.begin_ns, 12345);
	assert_int_equal(room.facts.end_ns, 67890);
	assert_int_equal(room.facts.active_tid, 12);
	assert_true(room.facts.all_threads);
	assert_int_equal(room.facts.tag_count, 2);
	assert_string_equal(room.facts.tags[1].key, "empty");
	assert_string_equal(room.facts.tags[0].value, "7");
	assert_int_equal(room.facts.thread_run_count, 3);
	assert_int_equal(room.facts.thread_runs[2].tid, 56);
	fgt_message_free(message);
}

static void no_name_means_no_facts(void **state)
{
	static struct fgt_facts_room room;
	struct fgt_builder *builder;
	struct fgt_message *message;

	(void)state;
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_string(builder, "destination", "/spool");
	message = finish(builder);
	assert_int_equal(fgt_facts_read(message, &room, NULL), -ENOENT);
	fgt_message_free(message);
}

/* Facts of a slice: its maker, and not a word of a transaction. */
static void no_name_leaves_release_and_environment(void **state)
{
	static struct fgt_facts_room room;
	const struct fgt_transaction_facts facts = {
		.release = "shop@1",
		.environment = "test",
		.op = "db",
		.begin_ns = 1,
		.end_ns = 2,
	};
	struct fgt_message *message = pass(&facts);

	(void)state;
	assert_int_equal(fgt_facts_read(message, &room, NULL), 0);
	assert_null(fgt_facts_of_transaction(&room.facts));
	assert_string_equal(room.facts.release, "shop@1");
	assert_string_equal(room.facts.environment, "test");
	assert_null(room.facts.op);
	assert_int_equal(room.facts.end_ns, 0);
	fgt_message_free(message);
}

static void assert_refused(struct fgt_message *message, const char *part)
{
	static struct fgt_facts_room room;
	struct fgt_why why = { "" };

	assert_int_equal(fgt_facts_read(message, &room, &why), -EINVAL);
	if (!strstr(why.text, part))
		fail_msg("'%s' does not name %s", why.text, part);
	fgt_message_free(message);
}

static void wrong_ids_and_times_are_refused(void **state)
{
	static const char *const wrong[] = {
		"0123456789abcdef0123456789abcde", /* short */
		"0123456789ABCDEF0123456789abcdef",
		"00000000000000000000000000000000",
		"0123456789abcdef0123456789abcdeg",
	};
	struct fgt_transaction_facts facts = { .name = "x",
					       .begin_ns = 5,
					       .end_ns = 4 };

	(void)state;
	assert_refused(pass(&facts), "begin_ns");
	facts.end_ns = 5;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memset(facts.trace_id, 0, sizeof(facts.trace_id));
		strcpy(facts.trace_id, wrong[i]);
		assert_refused(pass(&facts), "trace_id");
	}
	facts.trace_id[0] = '\0';
	facts.active_tid = -1;
	assert_refused(pass(&facts), "active_tid");
}

static void long_texts_and_lists_are_refused(void **state)
{
	static struct fgt_tag tags[FGT_TAGS_MAX + 1];
	static struct fgt_thread_run
		thread_runs[FGT_TRANSACTION_THREAD_RUNS + 1];
	static char long_name[FGT_TRANSACTION_NAME + 2];
	struct fgt_transaction_facts facts = { .name = long_name };

	(void)state;
	memset(long_name, 'n', sizeof(long_name) - 1);
	assert_refused(pass(&facts), "name");
	facts.name = "x";
	facts.thread_runs = thread_runs;
	facts.thread_run_count = FGT_TRANSACTION_THREAD_RUNS + 1;
	assert_refused(pass(&facts), "tids");
	facts.thread_run_count = 0;
	for (size_t i = 0; i < FGT_TAGS_MAX + 1; i++)
		tags[i] = (struct fgt_tag){ "k", "v" };
	facts.tags = tags;
	facts.tag_count = FGT_TAGS_MAX + 1;
	assert_refused(pass(&facts), "tags");
	facts.tag_count = 1;
	tags[0].key = "";
	assert_refused(pass(&facts), "tags");
	tags[0] = (struct fgt_tag){ "k", long_name };
	assert_refused(pass(&facts), "tags");
}

static void lists_of_something_else_are_refused(void **state)
{
	struct fgt_builder *builder;

	(void)state;
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_string(builder, "name", "x");
	fgt_builder_int(builder, "tags", 5);
	assert_refused(finish(builder), "tags");
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_string(builder, "name", "x");
	fgt_builder_array_begin(builder, "tids");
	fgt_builder_int(builder, NULL, 5);
	fgt_builder_array_end(builder);
	assert_refused(finish(builder), "tids");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_come_out_as_they_went_in),
		cmocka_unit_test(no_name_means_no_facts),
		cmocka_unit_test(no_name_leaves_release_and_environment),
		cmocka_unit_test(wrong_ids_and_times_are_refused),
		cmocka_unit_test(long_texts_and_lists_are_refused),
		cmocka_unit_test(lists_of_something_else_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
