/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/service/thread_context.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/unwind/arch/memory.h"

#define POINTER	 0x1000u
#define VECTOR	 0x2000u
#define PART	 0x3000u
#define RECORD	 0x4000u
#define VARIABLE 0x5000u
#define INDEX	 0x6000u

/* The memory of a program; words are 8 bytes each. */
struct program {
	uint64_t head[3], vector[8], index[2], variable;
	uint8_t record[28];
	unsigned int reads, change_at; /* its record changes at that read */
	bool moves; /* … or its variable */
};

static int read_program(void *context, uint64_t address, void *buffer,
			size_t len)
{
	struct program *program = context;
	const struct {
		uint64_t at;
		const void *bytes;
		size_t len;
	} places[] = {
		{ POINTER, program->head, sizeof(program->head) },
		{ VECTOR, program->vector, sizeof(program->vector) },
		{ INDEX, program->index, sizeof(program->index) },
		{ VARIABLE, &program->variable, sizeof(program->variable) },
		{ RECORD, program->record, sizeof(program->record) },
	};

	if (++program->reads == program->change_at && program->moves)
		program->variable = 0;
	else if (program->reads == program->change_at)
		program->record[0] ^= 1;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		uint64_t offset = address - places[i].at;

		if (offset >= places[i].len || len > places[i].len - offset)
			continue;
		memcpy(buffer, (const uint8_t *)places[i].bytes + offset, len);
		return 0;
	}
	return -EFAULT;
}

static struct program publish(void)
{
	struct program program = {
		.head = { POINTER, VECTOR, POINTER },
		.vector = { [4] = PART, [6] = UINT64_MAX },
		.index = { 2, 0x20 },
		.variable = RECORD,
	};

	for (uint8_t i = 0; i < FGT_TRACE_IDS; i++)
		program.record[i] = (uint8_t)(i + 1);
	program.record[24] = 1;
	return program;
}

static int read_context(struct program *program, uint8_t ids[FGT_TRACE_IDS])
{
	const struct fgt_context_memory memory = { read_program, program };

	return fgt_thread_context_read(&memory, VARIABLE, ids);
}

static int find(struct program *program, enum fgt_elf_tls_kind kind,
		uint64_t word, uint64_t *ret_address)
{
	const struct fgt_context_memory memory = { read_program, program };
	const struct fgt_elf_tls tls = { .kind = kind,
					 .offset = (uint64_t)-16 };
	const uint64_t words[2] = { word, word };

	*ret_address = 0;
	return fgt_thread_variable_find(&memory, &tls, words, POINTER,
					ret_address);
}

static void a_context_has_the_ids_of_its_record(void **state)
{
	struct program program = publish();
	uint8_t ids[FGT_TRACE_IDS];

	(void)state;
	assert_int_equal(read_context(&program, ids), 1);
	assert_memory_equal(ids, program.record, sizeof(ids));
}

static void a_record_that_is_not_valid_is_no_context(void **state)
{
	static const uint8_t not_valid[] = { 0, 2, 255 };
	struct program program = publish();
	uint8_t ids[FGT_TRACE_IDS];

	(void)state;
	for (size_t i = 0; i < sizeof(not_valid); i++) {
		program.record[24] = not_valid[i];
		assert_int_equal(read_context(&program, ids), 0);
	}
	program = publish();
	memset(program.record, 0, 16);
	assert_int_equal(read_context(&program, ids), 0);
	program.variable = 0;
	assert_int_equal(read_context(&program, ids), 0);
	program.variable = 16;
	assert_int_equal(read_context(&program, ids), -EFAULT);
}

static void a_context_that_changes_between_reads_is_none(void **state)
{
	uint8_t ids[FGT_TRACE_IDS];

	(void)state;
	for (unsigned int at = 3; at <= 4; at++) {
		struct program program = publish();

		program.change_at = at;
		assert_int_equal(read_context(&program, ids), -EAGAIN);
		program = publish();
		program.change_at = at;
		program.moves = true;
		/* After the last read of the variable it is not seen. */
		assert_int_equal(read_context(&program, ids),
				 at == 3 ? -EAGAIN : 1);
	}
}

static void a_variable_is_found_by_each_dialect(void **state)
{
	struct program program = publish();
	uint64_t address;

	(void)state;
	assert_int_equal(find(&program, FGT_ELF_TLS_PROGRAM, 0, &address), 0);
	assert_int_equal(address, POINTER - 16);
	assert_int_equal(
		find(&program, FGT_ELF_TLS_POINTER, (uint64_t)-32, &address),
		0);
	assert_int_equal(address, POINTER - 32);
	assert_int_equal(find(&program, FGT_ELF_TLS_MODULE, 2, &address), 0);
	assert_int_equal(address, PART - 16);
	assert_int_equal(
		find(&program, FGT_ELF_TLS_DESCRIPTOR, (uint64_t)-48, &address),
		0);
	assert_int_equal(address, POINTER - 48);
	assert_int_equal(
		find(&program, FGT_ELF_TLS_DESCRIPTOR, INDEX, &address), 0);
	assert_int_equal(address, PART + 0x20);
}

static void a_module_that_the_thread_has_not_used_comes_later(void **state)
{
	struct program program = publish();
	uint64_t address;

	(void)state;
	assert_int_equal(find(&program, FGT_ELF_TLS_MODULE, 3, &address),
			 -EAGAIN);
	assert_int_equal(find(&program, FGT_ELF_TLS_MODULE, 1, &address),
			 -EAGAIN);
	assert_int_equal(find(&program, FGT_ELF_TLS_MODULE, 0, &address),
			 -EPROTO);
	assert_int_equal(
		find(&program, FGT_ELF_TLS_MODULE, UINT64_MAX, &address),
		-EPROTO);
	assert_int_equal(find(&program, FGT_ELF_TLS_MODULE, 9, &address),
			 -EFAULT);
	assert_int_equal(find(&program, FGT_ELF_TLS_DESCRIPTOR, 16, &address),
			 -EFAULT);
}

#ifdef __x86_64__
static int read_own(void *context, uint64_t address, void *buffer, size_t len)
{
	(void)context;
	return fgt_memory_read(getpid(), address, buffer, len) == (int64_t)len
		       ? 0
		       : -EFAULT;
}

static void *find_own(void *other)
{
	const struct fgt_context_memory memory = { read_own, NULL };
	uint64_t *tid_and_pointer = other;
	uint64_t pointer;

	assert_int_equal(fgt_thread_pointer_find(&memory,
						 (int32_t)tid_and_pointer[0],
						 &pointer),
			 0);
	assert_int_equal(pointer, tid_and_pointer[1]);
	assert_int_equal(fgt_thread_pointer_find(&memory, gettid(), &pointer),
			 0);
	assert_int_equal(pointer, (uintptr_t)pthread_self());
	return NULL;
}

static void the_pointer_of_another_thread_is_found(void **state)
{
	uint64_t own[2] = { (uint64_t)gettid(), (uintptr_t)pthread_self() };
	struct program program = publish();
	const struct fgt_context_memory other = { read_program, &program };
	pthread_t thread;
	uint64_t pointer;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, find_own, own), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(fgt_thread_pointer_find(&other, gettid(), &pointer) < 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_context_has_the_ids_of_its_record),
		cmocka_unit_test(a_record_that_is_not_valid_is_no_context),
		cmocka_unit_test(a_context_that_changes_between_reads_is_none),
		cmocka_unit_test(a_variable_is_found_by_each_dialect),
		cmocka_unit_test(
			a_module_that_the_thread_has_not_used_comes_later),
#ifdef __x86_64__
		cmocka_unit_test(the_pointer_of_another_thread_is_found),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
