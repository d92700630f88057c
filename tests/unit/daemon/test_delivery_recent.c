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

static void newest_ids_are_known(void **state)
{
	static struct fgt_delivery_recent recent;
	char id[33];

	(void)state;
	for (unsigned int i = 0; i <= FGT_DELIVERY_RECENT_MAX; i++) {
		snprintf(id, sizeof(id), "%032x", i);
		assert_false(fgt_delivery_recent_has(&recent, PID, id));
		fgt_delivery_recent_add(&recent, PID, id);
		assert_true(fgt_delivery_recent_has(&recent, PID, id));
	}
	assert_false(fgt_delivery_recent_has(&recent, PID + 1, id));
	snprintf(id, sizeof(id), "%032x", 1);
	assert_true(fgt_delivery_recent_has(&recent, PID, id));
	snprintf(id, sizeof(id), "%032x", 0);
	assert_false(fgt_delivery_recent_has(&recent, PID, id));
}

static void empty_id_is_never_known(void **state)
{
	static struct fgt_delivery_recent recent;

	(void)state;
	fgt_delivery_recent_add(&recent, PID, "");
	assert_false(fgt_delivery_recent_has(&recent, PID, ""));
	assert_false(fgt_delivery_recent_has(&recent, 0, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newest_ids_are_known),
		cmocka_unit_test(empty_id_is_never_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
