/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was accepted last is known when it is asked for again.
 */
#include "agent/daemon/delivery/delivery_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#define PID 4711

static struct fgt_delivery_mark mark(int32_t pid, const char *id)
{
	return (struct fgt_delivery_mark){ pid, id, "" };
}

static void add(struct fgt_delivery_recent *recent, int32_t pid, const char *id)
{
	const struct fgt_delivery_mark one = mark(pid, id);

	fgt_delivery_recent_add(recent, &one);
}

static bool has(const struct fgt_delivery_recent *recent, int32_t pid,
		const char *id)
{
	const struct fgt_delivery_mark one = mark(pid, id);

	return fgt_delivery_recent_has(recent, &one);
}

static void newest_ids_are_known(void **state)
{
	static struct fgt_delivery_recent recent;
	char id[33];

	(void)state;
	for (unsigned int i = 0; i <= FGT_DELIVERY_RECENT_MAX; i++) {
		snprintf(id, sizeof(id), "%032x", i);
		assert_false(has(&recent, PID, id));
		add(&recent, PID, id);
		assert_true(has(&recent, PID, id));
	}
	assert_false(has(&recent, PID + 1, id));
	snprintf(id, sizeof(id), "%032x", 1);
	assert_true(has(&recent, PID, id));
	snprintf(id, sizeof(id), "%032x", 0);
	assert_false(has(&recent, PID, id));
}

static void empty_id_is_never_known(void **state)
{
	static struct fgt_delivery_recent recent;

	(void)state;
	add(&recent, PID, "");
	assert_false(has(&recent, PID, ""));
	assert_false(has(&recent, 0, ""));
}

static void same_id_is_new_to_another_destination(void **state)
{
	static struct fgt_delivery_recent recent;
	struct fgt_delivery_mark one = mark(PID, "1");

	(void)state;
	one.configured = "lab";
	fgt_delivery_recent_add(&recent, &one);
	assert_true(fgt_delivery_recent_has(&recent, &one));
	one.configured = "sentry";
	assert_false(fgt_delivery_recent_has(&recent, &one));
	assert_false(has(&recent, PID, "1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newest_ids_are_known),
		cmocka_unit_test(empty_id_is_never_known),
		cmocka_unit_test(same_id_is_new_to_another_destination),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
