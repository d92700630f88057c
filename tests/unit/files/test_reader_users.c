/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of agent/files/reader_users. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>

#include "agent/files/reader.h"

#define SECOND_NS UINT64_C(1000000000)

static const struct fgt_open_request plain = { .uid = 1 };
static const struct fgt_open_request trusted = { .is_trusted = true };
static const struct fgt_open_request urgent = { .is_urgent = true };

static int may_ask(uint32_t uid, const struct fgt_open_request *request,
		   uint64_t now_ns)
{
	return fgt_reader_user_may_ask(fgt_reader_user_get(uid, now_ns),
				       request, now_ns);
}

static void files_that_do_not_answer_are_refused_for_longer(void **state)
{
	uint64_t now_ns = SECOND_NS, seconds = 1;

	(void)state;
	for (int i = 0; i < 12; i++) {
		assert_int_equal(may_ask(1, &plain, now_ns), 0);
		assert_int_equal(
			fgt_reader_user_fail(fgt_reader_user_get(1, now_ns),
					     now_ns),
			i == 0);
		now_ns += seconds * SECOND_NS - 1;
		assert_int_equal(may_ask(1, &plain, now_ns), -EBUSY);
		assert_int_equal(may_ask(1, &trusted, now_ns), 0);
		assert_int_equal(may_ask(2, &plain, now_ns), 0);
		now_ns++;
		seconds = seconds < 512 ? seconds * 2 : seconds;
	}
	now_ns += 100 * SECOND_NS;
	assert_true(
		fgt_reader_user_fail(fgt_reader_user_get(1, now_ns), now_ns));
}

static void the_sampler_waits_for_a_part_of_the_time(void **state)
{
	uint64_t now_ns = 5000 * SECOND_NS, waited_ns = 0;

	(void)state;
	for (int i = 0; i < 1000; i++, now_ns += SECOND_NS / 10) {
		if (may_ask(3, &urgent, now_ns) < 0)
			continue;
		fgt_reader_user_spend(fgt_reader_user_get(3, now_ns),
				      SECOND_NS / 6);
		waited_ns += SECOND_NS / 6;
	}
	assert_in_range(waited_ns, 4 * SECOND_NS, 6 * SECOND_NS);
	assert_int_equal(may_ask(3, &plain, now_ns), 0);
}

static void users_that_asked_least_recently_are_forgotten(void **state)
{
	uint64_t now_ns = 9000 * SECOND_NS;

	(void)state;
	fgt_reader_user_fail(fgt_reader_user_get(4, now_ns), now_ns);
	for (uint32_t uid = 100; uid < 200; uid++) {
		assert_int_equal(may_ask(uid, &plain, ++now_ns), 0);
		assert_int_equal(may_ask(4, &plain, ++now_ns), -EBUSY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			files_that_do_not_answer_are_refused_for_longer),
		cmocka_unit_test(the_sampler_waits_for_a_part_of_the_time),
		cmocka_unit_test(users_that_asked_least_recently_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
