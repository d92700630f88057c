/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf's ring buffer and records, made by hand: records across the end, and
 * what no kernel would write.
 */
#include "agent/capture/running/perf_buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096u

struct fixture {
	struct perf_event_mmap_page page;
	_Alignas(8) uint8_t data[SIZE];
	uint8_t bounce[65536];
	struct fgt_perf_buffer buffer;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	fixture->buffer.page = &fixture->page;
	fixture->buffer.data = fixture->data;
	fixture->buffer.size = SIZE;
	fixture->buffer.bounce = fixture->bounce;
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

/* Writes in the way of the kernel: byte after byte, round the end. */
static void put(struct fixture *fixture, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		fixture->data[fixture->page.data_head++ % SIZE] =
			((const uint8_t *)bytes)[i];
}

static void put_record(struct fixture *fixture, uint32_t type, uint16_t size,
		       uint8_t fill)
{
	struct perf_event_header header = { .type = type, .size = size };
	uint8_t body[SIZE];

	memset(body, fill, sizeof(body));
	put(fixture, &header, sizeof(header));
	put(fixture, body, size - sizeof(header));
}

static void records_across_the_end_come_in_one_piece(void **state)
{
	struct fixture *fixture = *state;
	bool is_broken;

	for (unsigned int i = 0; i < 5000; i++) {
		uint16_t size = (uint16_t)(8 + i * 8 % 1000);
		const struct perf_event_header *header;

		put_record(fixture, i, size, (uint8_t)i);
		header = fgt_perf_buffer_next(&fixture->buffer, &is_broken);
		assert_non_null(header);
		assert_int_equal(header->type, i);
		assert_int_equal(header->size, size);
		for (uint16_t at = 8; at < size; at++)
			assert_int_equal(((const uint8_t *)header)[at],
					 (uint8_t)i);
		assert_null(fgt_perf_buffer_next(&fixture->buffer, &is_broken));
		assert_false(is_broken);
		fgt_perf_buffer_release(&fixture->buffer);
		assert_int_equal(fixture->page.data_tail,
				 fixture->page.data_head);
	}
}

static void several_records_come_in_their_order(void **state)
{
	struct fixture *fixture = *state;
	bool is_broken;

	for (uint32_t i = 0; i < 40; i++)
		put_record(fixture, i, 64, 0);
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(
			fgt_perf_buffer_next(&fixture->buffer, &is_broken)
				->type,
			i);
	assert_null(fgt_perf_buffer_next(&fixture->buffer, &is_broken));
}

static void malformed_sizes_skip_what_is_there(void **state)
{
	static const uint16_t sizes[] = { 0, 1, 7, 72, 4104, 65535 };
	struct fixture *fixture = *state;
	bool is_broken;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct perf_event_header header = { .type = 9,
						    .size = sizes[i] };
		uint8_t body[56] = { 0 };

		put(fixture, &header, sizeof(header));
		put(fixture, body, sizeof(body));
		assert_null(fgt_perf_buffer_next(&fixture->buffer, &is_broken));
		assert_true(is_broken);
		assert_int_equal(fixture->buffer.tail, fixture->page.data_head);
		put_record(fixture, 3, 64, 0);
		assert_int_equal(
			fgt_perf_buffer_next(&fixture->buffer, &is_broken)
				->type,
			3);
	}
	/* A head that lies: more than the buffer holds. */
	fixture->page.data_head += 2 * SIZE;
	assert_null(fgt_perf_buffer_next(&fixture->buffer, &is_broken));
	assert_true(is_broken);
}

/* ---- Records ----------------------------------------------------------- */

struct record {
	_Alignas(8) uint8_t bytes[2048];
	size_t len;
};

static void add(struct record *record, uint64_t value, size_t len)
{
	memcpy(record->bytes + record->len, &value, len);
	record->len += len;
}

static unsigned int reg_count(void)
{
	return (unsigned int)__builtin_popcountll(fgt_arch_host.perf_regs_mask);
}

static void make_sample(struct record *record, uint64_t abi,
			uint64_t stack_asked, uint64_t stack_copied)
{
	record->len = sizeof(struct perf_event_header);
	add(record, 0xffffffff81000000u, 8); /* ip */
	add(record, 1234, 4);
	add(record, 1240, 4);
	add(record, 777000, 8); /* time */
	add(record, 50123, 8); /* count */
	add(record, abi, 8);
	for (unsigned int i = 0; abi && i < reg_count(); i++)
		add(record, 1000 + i, 8);
	add(record, stack_asked, 8);
	for (uint64_t i = 0; i < stack_asked && i < 1024; i += 8)
		add(record, 0x11 * i, 8);
	if (stack_asked)
		add(record, stack_copied, 8);
}

static const struct perf_event_header *finish(struct record *record,
					      uint16_t misc)
{
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE,
					    .misc = misc,
					    .size = (uint16_t)record->len };

	memcpy(record->bytes, &header, sizeof(header));
	return (const void *)record->bytes;
}

static void a_sample_is_taken_apart(void **state)
{
	struct record record;
	struct fgt_running_sample sample;
	const struct perf_event_header *header;
	uint64_t sp;

	(void)state;
	make_sample(&record, PERF_SAMPLE_REGS_ABI_64, 512, 256);
	header = finish(&record, PERF_RECORD_MISC_KERNEL);
	assert_int_equal(fgt_perf_sample_parse(header, &fgt_arch_host, &sample),
			 0);
	assert_int_equal(fgt_perf_sample_pid(header), 1234);
	assert_int_equal(sample.pid, 1234);
	assert_int_equal(sample.tid, 1240);
	assert_int_equal(sample.time_ns, 777000);
	assert_int_equal(sample.count_ns, 50123);
	assert_true(sample.is_kernel);
	assert_true(sample.has_regs);
	assert_true(fgt_regs_get(&sample.regs, fgt_arch_host.sp, &sp));
	assert_in_range(sp, 1000, 1000 + reg_count());
	assert_int_equal(sample.stack_len, 256);
	assert_int_equal(sample.stack[8], 0x88);
}

static void samples_have_no_registers_without_those_of_the_user(void **state)
{
	struct record record;
	struct fgt_running_sample sample;

	(void)state;
	make_sample(&record, PERF_SAMPLE_REGS_ABI_NONE, 0, 0);
	assert_int_equal(
		fgt_perf_sample_parse(finish(&record, PERF_RECORD_MISC_USER),
				      &fgt_arch_host, &sample),
		0);
	assert_false(sample.has_regs);
	assert_false(sample.is_kernel);
	make_sample(&record, PERF_SAMPLE_REGS_ABI_32, 64, 64);
	assert_int_equal(
		fgt_perf_sample_parse(finish(&record, PERF_RECORD_MISC_USER),
				      &fgt_arch_host, &sample),
		0);
	assert_false(sample.has_regs);
}

static void samples_of_threads_without_a_number_are_refused(void **state)
{
	const size_t tid_at = sizeof(struct perf_event_header) + 12;
	struct record record;
	struct fgt_running_sample sample;

	(void)state;
	for (int32_t tid = -1; tid <= 1; tid++) {
		make_sample(&record, PERF_SAMPLE_REGS_ABI_NONE, 0, 0);
		memcpy(record.bytes + tid_at, &tid, sizeof(tid));
		assert_int_equal(fgt_perf_sample_parse(finish(&record, 0),
						       &fgt_arch_host, &sample),
				 tid == 1 ? 0 : -ESRCH);
	}
}

static void a_sample_cut_anywhere_is_refused(void **state)
{
	struct record record;
	struct fgt_running_sample sample;

	(void)state;
	make_sample(&record, PERF_SAMPLE_REGS_ABI_64, 64, 64);
	for (size_t len = sizeof(struct perf_event_header); len < record.len;
	     len++) {
		struct perf_event_header *copy = malloc(len);
		struct perf_event_header header = { .size = (uint16_t)len };

		memcpy(copy, record.bytes, len);
		memcpy(copy, &header, sizeof(header));
		assert_int_equal(
			fgt_perf_sample_parse(copy, &fgt_arch_host, &sample),
			-EBADMSG);
		free(copy);
	}
}

static void stack_sizes_that_lie_are_refused(void **state)
{
	struct record record;
	struct fgt_running_sample sample;

	(void)state;
	make_sample(&record, PERF_SAMPLE_REGS_ABI_64, 64, 65);
	assert_int_equal(fgt_perf_sample_parse(finish(&record, 0),
					       &fgt_arch_host, &sample),
			 -EBADMSG);
	make_sample(&record, PERF_SAMPLE_REGS_ABI_64, UINT64_MAX, 8);
	assert_int_equal(fgt_perf_sample_parse(finish(&record, 0),
					       &fgt_arch_host, &sample),
			 -EBADMSG);
}

static void tasks_of_each_kind_name_their_thread(void **state)
{
	struct {
		struct perf_event_header header;
		int32_t ids[4];
	} record = { .header = { .type = PERF_RECORD_FORK, .size = 24 },
		     .ids = { 10, 1, 12, 1 } };
	struct fgt_running_task task;

	(void)state;
	assert_int_equal(fgt_perf_task_parse(&record.header, &task), 0);
	assert_int_equal(task.pid, 10);
	assert_int_equal(task.tid, 12);
	record.header.type = PERF_RECORD_COMM;
	record.header.misc = PERF_RECORD_MISC_COMM_EXEC;
	record.ids[1] = 11;
	assert_int_equal(fgt_perf_task_parse(&record.header, &task), 0);
	assert_int_equal(task.tid, 11);
	assert_true(task.is_exec);
	record.header.size = 12;
	assert_int_equal(fgt_perf_task_parse(&record.header, &task), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			records_across_the_end_come_in_one_piece, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			several_records_come_in_their_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			malformed_sizes_skip_what_is_there, set_up, tear_down),
		cmocka_unit_test(a_sample_is_taken_apart),
		cmocka_unit_test(
			samples_have_no_registers_without_those_of_the_user),
		cmocka_unit_test(
			samples_of_threads_without_a_number_are_refused),
		cmocka_unit_test(a_sample_cut_anywhere_is_refused),
		cmocka_unit_test(stack_sizes_that_lie_are_refused),
		cmocka_unit_test(tasks_of_each_kind_name_their_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
