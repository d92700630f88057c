/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses and reports of destinations; what was accepted last is known when it
 * is asked for again.
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

#define SECOND_NS UINT64_C(1000000000)

static void longer_pause_of_a_category_stays(void **state)
{
	static struct fgt_delivery_limits limits;
	const struct fgt_delivery_address one =
		fgt_delivery_address_of(1000, "https://a");
	const struct fgt_delivery_address two =
		fgt_delivery_address_of(1000, "https://b");
	struct fgt_ratelimits asked = { { 0 } };

	(void)state;
	assert_int_equal(fgt_delivery_limits_until(&limits, &one), 0);
	asked.seconds[FGT_CATEGORY_CHUNK] = 60;
	fgt_delivery_limits_extend(&limits, &one, &asked, SECOND_NS);
	assert_int_equal(fgt_delivery_limits_mask(&limits, &one, SECOND_NS),
			 1 << FGT_CATEGORY_CHUNK);
	assert_int_equal(fgt_delivery_limits_until(&limits, &one), 0);
	/* No answer to the next one: a short pause of everything. */
	fgt_delivery_limits_set(&limits, &one, 5 * SECOND_NS);
	assert_int_equal(fgt_delivery_limits_until(&limits, &one),
			 5 * SECOND_NS);
	assert_int_equal(
		fgt_delivery_limits_mask(&limits, &one, 10 * SECOND_NS),
		1 << FGT_CATEGORY_CHUNK);
	assert_int_equal(
		fgt_delivery_limits_mask(&limits, &one, 61 * SECOND_NS), 0);
	assert_int_equal(fgt_delivery_limits_mask(&limits, &two, SECOND_NS), 0);
}

static void reports_are_taken_once_and_restored(void **state)
{
	static struct fgt_delivery_limits limits;
	const struct fgt_delivery_address one =
		fgt_delivery_address_of(1000, "https://a");
	struct fgt_sentry_discards taken;

	(void)state;
	for (int i = 0; i < 3; i++)
		fgt_delivery_limits_discard(&limits, &one, FGT_DISCARD_NETWORK,
					    FGT_CATEGORY_CHUNK);
	/* Of a child that means harm. */
	fgt_delivery_limits_discard(&limits, &one, FGT_DISCARD_SEND, 4711);
	taken = fgt_delivery_limits_take(&limits, &one);
	assert_int_equal(taken.counts[FGT_DISCARD_NETWORK][FGT_CATEGORY_CHUNK],
			 3);
	assert_false(fgt_sentry_discards_are_any(
		&(struct fgt_sentry_discards){ { { 0 } } }));
	fgt_delivery_limits_discard(&limits, &one, FGT_DISCARD_NETWORK,
				    FGT_CATEGORY_CHUNK);
	fgt_delivery_limits_restore(&limits, &one, &taken);
	taken = fgt_delivery_limits_take(&limits, &one);
	assert_int_equal(taken.counts[FGT_DISCARD_NETWORK][FGT_CATEGORY_CHUNK],
			 4);
	taken = fgt_delivery_limits_take(&limits, &one);
	assert_false(fgt_sentry_discards_are_any(&taken));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newest_ids_are_known),
		cmocka_unit_test(empty_id_is_never_known),
		cmocka_unit_test(same_id_is_new_to_another_destination),
		cmocka_unit_test(longer_pause_of_a_category_stays),
		cmocka_unit_test(reports_are_taken_once_and_restored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
