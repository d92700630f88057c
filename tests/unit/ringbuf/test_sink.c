/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sink in memory: keeps every byte, and not one beyond its bound.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/base/sink.h"

static void bytes_come_back_in_order(void **state)
{
	struct fgt_memory_sink memory;

	(void)state;
	fgt_memory_sink_init(&memory, 1 << 20);
	for (uint32_t i = 0; i < 100000; i++)
		assert_int_equal(fgt_sink_write(&memory.sink, &i, sizeof(i)),
				 0);
	assert_int_equal(memory.len_bytes, 400000);
	for (uint32_t i = 0; i < 100000; i++)
		assert_memory_equal(memory.bytes + i * sizeof(i), &i,
				    sizeof(i));
	fgt_memory_sink_done(&memory);
	assert_null(memory.bytes);
}

static void bound_is_kept_to_the_byte(void **state)
{
	static const char BYTES[200000];
	struct fgt_memory_sink memory;

	(void)state;
	fgt_memory_sink_init(&memory, 200000);
	assert_int_equal(fgt_sink_write(&memory.sink, BYTES, 199999), 0);
	assert_int_equal(fgt_sink_write(&memory.sink, BYTES, 2), -EMSGSIZE);
	assert_int_equal(fgt_sink_write(&memory.sink, BYTES, SIZE_MAX),
			 -EMSGSIZE);
	assert_int_equal(fgt_sink_write(&memory.sink, BYTES, 1), 0);
	assert_int_equal(fgt_sink_write(&memory.sink, BYTES, 0), 0);
	assert_int_equal(memory.len_bytes, 200000);
	fgt_memory_sink_done(&memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_back_in_order),
		cmocka_unit_test(bound_is_kept_to_the_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
