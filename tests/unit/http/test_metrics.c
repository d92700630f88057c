/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of a reply to `status`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/metrics.h"
#include "agent/protocol/builder.h"
#include "agent/protocol/protocol.h"

#define TORN_OF_REDIS                                                          \
	"fgtrace_target_samples_total{pid=\"12\",name=\"redis\","              \
	"result=\"dropped\",reason=\"torn\"} 3\n"

static char text[65536];

static void put_target(struct fgt_builder *builder, int pid, const char *name,
		       bool is_alive)
{
	fgt_builder_map_begin(builder, NULL);
	fgt_builder_int(builder, "pid", pid);
	fgt_builder_string(builder, "name", name);
	fgt_builder_bool(builder, "alive", is_alive);
	fgt_builder_uint(builder, "samples_running", 12);
	fgt_builder_uint(builder, "torn", 3);
	fgt_builder_double(builder, "cpu_percent", 0.5);
	fgt_builder_uint(builder, "oldest_ns", 1000000000);
	fgt_builder_uint(builder, "newest_ns", 31500000000);
	fgt_builder_map_end(builder);
}

static void write_metrics(struct fgt_builder *builder)
{
	struct fgt_message *message;
	struct fgt_memory_sink memory;
	const uint8_t *bytes;
	size_t len;

	assert_int_equal(fgt_builder_finish(builder, &bytes, &len), 0);
	assert_int_equal(fgt_message_decode(bytes + FGT_PROTOCOL_LENGTH_BYTES,
					    len - FGT_PROTOCOL_LENGTH_BYTES,
					    &message),
			 0);
	fgt_memory_sink_init(&memory, sizeof(text) - 1);
	assert_int_equal(fgt_metrics_write(message, &memory.sink), 0);
	memcpy(text, memory.bytes, memory.len_bytes);
	text[memory.len_bytes] = '\0';
	fgt_memory_sink_done(&memory);
	fgt_message_free(message);
}

static void assert_has(const char *line)
{
	if (!strstr(text, line))
		fail_msg("no line %s in %s", line, text);
}

static void figures_become_metrics(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const char *found;

	(void)state;
	assert_int_equal(fgt_builder_new_reply(&builder), 0);
	fgt_builder_string(builder, "version", "1.2");
	fgt_builder_uint(builder, "cpu_ns", 1500000000);
	fgt_builder_uint(builder, "slices_busy", 4);
	fgt_builder_array_begin(builder, "targets");
	put_target(builder, 12, "redis", true);
	put_target(builder, 13, "a\"b\\c\nd\xff", true);
	put_target(builder, 12, "redis", false);
	fgt_builder_array_end(builder);
	write_metrics(builder);
	assert_has("\nfgtrace_build_info{version=\"1.2\"} 1\n");
	assert_has("# TYPE fgtrace_process_cpu_seconds_total counter\n"
		   "fgtrace_process_cpu_seconds_total 1.5\n");
	assert_has("\nfgtrace_slices_total{result=\"busy\"} 4\n");
	assert_has("\nfgtrace_target_samples_total{pid=\"12\",name=\"redis\","
		   "result=\"stored\",reason=\"running\"} 12\n");
	assert_has("name=\"a\\\"b\\\\c\\nd?\"");
	assert_has("\nfgtrace_target_ring_covered_seconds{pid=\"12\",name="
		   "\"redis\"} 30.5\n");
	assert_has("fgtrace_target_sampling_cpu_ratio{pid=\"12\",name="
		   "\"redis\"} 0.005\n");
	/* The one that has ended has the same labels: it is left out. */
	found = strstr(text, TORN_OF_REDIS);
	assert_non_null(found);
	assert_null(strstr(found + 1, TORN_OF_REDIS));
}

static void destinations_and_spool_have_rows(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)state;
	assert_int_equal(fgt_builder_new_reply(&builder), 0);
	fgt_builder_uint(builder, "spool_entries", 3);
	fgt_builder_uint(builder, "spool_oldest_ns", 2500000000);
	fgt_builder_uint(builder, "spool_dropped_disk_full", 2);
	fgt_builder_uint(builder, "spool_unwritten", 5);
	fgt_builder_uint(builder, "spool_last_error_ns", 1500000000);
	fgt_builder_array_begin(builder, "destinations");
	fgt_builder_map_begin(builder, NULL);
	fgt_builder_string(builder, "name", "la\"b");
	fgt_builder_string(builder, "kind", "http");
	fgt_builder_uint(builder, "delivered", 7);
	fgt_builder_uint(builder, "spooled", 3);
	fgt_builder_uint(builder, "dropped_too_large", 1);
	fgt_builder_map_end(builder);
	fgt_builder_array_end(builder);
	write_metrics(builder);
	assert_has("\nfgtrace_spool_entries 3\n");
	assert_has("\nfgtrace_spool_oldest_seconds 2.5\n");
	assert_has("\nfgtrace_spool_unwritten 5\n");
	assert_has("\nfgtrace_spool_last_error_timestamp_seconds 1.5\n");
	assert_has("\nfgtrace_spool_dropped_total{reason=\"disk_full\"} 2\n");
	assert_has("\nfgtrace_destination_delivered_total{destination="
		   "\"la\\\"b\",kind=\"http\"} 7\n");
	assert_has("kind=\"http\",place=\"spool\"} 3\n");
	assert_has("kind=\"http\",reason=\"too_large\"} 1\n");
}

static void reply_of_another_agent_is_no_error(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)state;
	assert_int_equal(fgt_builder_new_reply(&builder), 0);
	fgt_builder_string(builder, "cpu_ns", "many");
	fgt_builder_string(builder, "targets", "none");
	write_metrics(builder);
	assert_null(strstr(text, "\nfgtrace_process_cpu_seconds_total "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_become_metrics),
		cmocka_unit_test(destinations_and_spool_have_rows),
		cmocka_unit_test(reply_of_another_agent_is_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
