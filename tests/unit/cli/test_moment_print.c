/* SPDX-License-Identifier: Apache-2.0 */
/* The text and the JSON of a moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/output/moment_print.h"
#include "tests/unit/ringbuf/slice_fixture.h"

static struct fgt_moment *make(struct fgt_ring_slice **ret_slice)
{
	static const char *const names[] = { "a", "b", "c" };
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;ask;recv");
	struct fgt_moment *moment;

	for (int32_t i = 0; i < 3; i++) {
		char text[16];

		fixture_run(slice, fixture_thread(slice, 4242 + i, names[i]), 0,
			    10, stack, FIXTURE_EPOLL);
		snprintf(text, sizeof(text), "pipe:[%d]", 70 + i);
		if (i < 2)
			fixture_wait(slice, FGT_WAIT_DESCRIPTOR, 0, text)
				->number = 3 + i;
	}
	slice->runs[2].wait = 2;
	assert_int_equal(fgt_moment_new(slice, UINT64_MAX, 0, NULL, &moment),
			 0);
	assert_int_equal(moment->group_count, 1);
	*ret_slice = slice;
	return moment;
}

static void each_thread_of_a_group_has_its_descriptor(void **state)
{
	struct fgt_ring_slice *slice;
	struct fgt_moment *moment = make(&slice);
	char *text;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	(void)state;
	fgt_moment_print(moment, "now", file);
	fclose(file);
	assert_non_null(strstr(text, "a (tid 4242) epoll_wait: "));
	assert_int_equal(fixture_count(text, "pipe:[70]"), 1);
	assert_int_equal(fixture_count(text, "pipe:[71]"), 2);
	assert_non_null(strstr(text, "× 3, also b (tid 4243): "));
	free(text);
	file = open_memstream(&text, &len);
	assert_int_equal(fgt_moment_print_json(moment, "now", file), 0);
	fclose(file);
	assert_int_equal(fixture_count(text, "pipe:[71]"), 2);
	free(text);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

static void lock_of_a_process_that_is_not_shown_is_named(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;take;flock");
	struct fgt_moment *moment;
	char *text;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	(void)state;
	fixture_run(slice, fixture_thread(slice, 4242, "a"), 0, 10, stack,
		    FIXTURE_EPOLL);
	fixture_wait(slice, FGT_WAIT_DESCRIPTOR, 7, "/x, held by b (pid 7)");
	assert_int_equal(fgt_moment_new(slice, UINT64_MAX, 0, NULL, &moment),
			 0);
	fgt_moment_print(moment, "now", file);
	fclose(file);
	assert_non_null(strstr(text, "Not shown: the process of tid 7"));
	assert_null(strstr(text, "Deadlock"));
	free(text);
	/* Without a name it was a thread of the process. */
	slice->waits[0].kind = FGT_WAIT_MUTEX;
	slice->waits[0].text = 0;
	file = open_memstream(&text, &len);
	fgt_moment_print(moment, "now", file);
	fclose(file);
	assert_non_null(strstr(text, "mutex, held by tid 7, which has ended"));
	assert_null(strstr(text, "Not shown"));
	free(text);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_thread_of_a_group_has_its_descriptor),
		cmocka_unit_test(lock_of_a_process_that_is_not_shown_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
