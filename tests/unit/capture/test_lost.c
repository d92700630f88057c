/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are refused after their calls have not returned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "agent/capture/lost.h"

#define S     UINT64_C(1000000000)
#define START (1000 * S)
#define USER  1000

static void lose(struct fgt_losses *losses, int32_t pid, uint32_t uid,
		 uint64_t now_ns)
{
	const struct fgt_lost lost = { pid, 1, uid, now_ns };

	fgt_losses_add(losses, &lost);
}

static void give_back(struct fgt_losses *losses, int32_t pid)
{
	const struct fgt_lost lost = { pid, 1, USER, 0 };

	fgt_losses_remove(losses, &lost);
}

static int check(const struct fgt_losses *losses, int32_t pid, uint32_t uid,
		 uint64_t now_ns)
{
	struct fgt_why why = { "" };
	int rc = fgt_losses_check(losses, pid, 1, uid, now_ns, &why);

	assert_true((rc == 0) == (why.text[0] == '\0'));
	return rc;
}

static void process_is_refused_until_its_call_returns(void **state)
{
	struct fgt_losses losses = { 0 };

	(void)state;
	assert_int_equal(check(&losses, 7, USER, START), 0);
	lose(&losses, 7, USER, START);
	assert_int_equal(check(&losses, 7, USER, START + 7000 * S), -EAGAIN);
	give_back(&losses, 7);
	assert_int_equal(check(&losses, 7, USER, START + 7000 * S), 0);
	assert_int_equal(losses.total, 1);
	assert_int_equal(losses.count, 0);
}

static void pause_doubles_with_each_loss(void **state)
{
	struct fgt_losses losses = { 0 };
	uint64_t now_ns = START;

	(void)state;
	for (uint32_t i = 0; i < 7; i++) {
		uint64_t pause_ns = S << i;

		lose(&losses, 7, USER, now_ns);
		give_back(&losses, 7);
		assert_int_equal(check(&losses, 8, USER, now_ns + pause_ns - 1),
				 -EAGAIN);
		assert_int_equal(check(&losses, 8, USER, now_ns + pause_ns), 0);
		assert_int_equal(check(&losses, 8, USER + 1, now_ns), 0);
		now_ns += pause_ns;
	}
}

static void user_with_too_many_losses_is_excluded_for_an_hour(void **state)
{
	struct fgt_losses losses = { 0 };

	(void)state;
	for (int32_t i = 0; i < (int32_t)FGT_LOST_PER_USER; i++) {
		assert_false(fgt_losses_is_excluded(&losses, USER, START));
		lose(&losses, i, USER, START);
		give_back(&losses, i);
	}
	assert_true(fgt_losses_is_excluded(&losses, USER, START));
	assert_int_equal(check(&losses, 99, USER, START + 3599 * S), -EAGAIN);
	assert_false(fgt_losses_is_excluded(&losses, USER, START + 3600 * S));
	assert_int_equal(check(&losses, 99, USER, START + 3600 * S), 0);
	assert_false(fgt_losses_is_excluded(&losses, USER + 1, START));
}

/* A server that has gone is no malice. */
static void root_is_not_excluded(void **state)
{
	struct fgt_losses losses = { 0 };

	(void)state;
	for (int32_t i = 0; i < 20; i++)
		lose(&losses, i, 0, START);
	assert_false(fgt_losses_is_excluded(&losses, 0, START));
	assert_int_equal(check(&losses, 99, 0, START + 4096 * S), 0);
}

/* What is left over is for root's, which one user with many ids must not take. */
static void users_together_leave_room(void **state)
{
	struct fgt_losses losses = { 0 };

	(void)state;
	for (uint32_t i = 0; i < FGT_LOST_OF_USERS; i++) {
		assert_false(fgt_losses_is_excluded(&losses, USER, START));
		lose(&losses, (int32_t)i, 2 * USER + i, START);
	}
	assert_true(fgt_losses_is_excluded(&losses, USER, START));
	assert_int_equal(check(&losses, 99, USER, START), -EAGAIN);
	assert_int_equal(check(&losses, 99, 0, START), 0);
	while (fgt_losses_has_room(&losses))
		lose(&losses, (int32_t)losses.count, 0, START);
	assert_int_equal(check(&losses, 99, 0, START + 9999 * S), -EAGAIN);
}

static void books_are_bounded(void **state)
{
	struct fgt_losses losses = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 3 * FGT_LOST_USERS; i++) {
		lose(&losses, 7, i + 1, START + i);
		give_back(&losses, 7);
	}
	assert_int_equal(losses.user_count, FGT_LOST_USERS);
	for (uint32_t i = 0; i < FGT_LOST_MAX; i++) {
		assert_true(fgt_losses_has_room(&losses));
		lose(&losses, (int32_t)i, USER, START);
	}
	assert_false(fgt_losses_has_room(&losses));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process_is_refused_until_its_call_returns),
		cmocka_unit_test(pause_doubles_with_each_loss),
		cmocka_unit_test(
			user_with_too_many_losses_is_excluded_for_an_hour),
		cmocka_unit_test(root_is_not_excluded),
		cmocka_unit_test(users_together_leave_room),
		cmocka_unit_test(books_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
