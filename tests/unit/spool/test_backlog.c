/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a spool is sent next, and when.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "upload/deliver/spool/backlog.h"

#define SECOND_NS UINT64_C(1000000000)

static struct fgt_backlog backlog;
static uint64_t due_ns;

static int set_up(void **state)
{
	(void)state;
	fgt_backlog_init(&backlog);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fgt_backlog_done(&backlog);
	return 0;
}

static void add(const char *name, uint64_t time)
{
	const struct fgt_backlog_entry entry = { .id = { .time = time },
						 .bytes = 100 };

	assert_int_equal(fgt_backlog_add(&backlog, name, &entry), 0);
	assert_int_equal(fgt_backlog_know(&backlog, name), 0);
}

/* 0: none. */
static uint64_t begin_next(uint64_t now_ns)
{
	struct fgt_backlog_entry *entry =
		fgt_backlog_next(&backlog, now_ns, &due_ns);

	if (!entry)
		return 0;
	fgt_backlog_begin(entry);
	return entry->id.time;
}

static void end(uint64_t time, enum fgt_backlog_end how, uint64_t now_ns,
		unsigned int retry_after_s, uint64_t random)
{
	const struct fgt_spool_id id = { .time = time };
	struct fgt_backlog_entry *entry = fgt_backlog_find(&backlog, &id);

	assert_non_null(entry);
	fgt_backlog_end(entry, how, now_ns, retry_after_s, random, "down");
	if (how == FGT_BACKLOG_ANSWERED)
		fgt_backlog_remove(&backlog, &id);
}

static void oldest_is_sent_first(void **state)
{
	(void)state;
	add("a", 3);
	add("a", 1);
	add("a", 2);
	assert_int_equal(begin_next(0), 1);
	assert_int_equal(begin_next(0), 2);
	assert_int_equal(begin_next(0), 0); /* two at once */
	assert_int_equal(due_ns, FGT_BACKLOG_NEVER);
	end(1, FGT_BACKLOG_ANSWERED, 0, 0, 0);
	assert_int_equal(begin_next(0), 3);
}

static void destination_that_is_down_does_not_delay_another(void **state)
{
	(void)state;
	add("down", 1);
	add("up", 2);
	assert_int_equal(begin_next(0) + begin_next(0), 3);
	end(1, FGT_BACKLOG_AGAIN, 0, 0, 0);
	end(2, FGT_BACKLOG_ANSWERED, 0, 0, 0);
	add("up", 4);
	assert_int_equal(begin_next(0), 4);
	assert_int_equal(begin_next(0), 0);
	assert_int_equal(due_ns, SECOND_NS);
	assert_int_equal(begin_next(SECOND_NS), 1);
}

/* How many. */
static unsigned int begin_all(uint64_t now_ns)
{
	unsigned int count = 0;

	while (begin_next(now_ns))
		count++;
	return count;
}

static void end_badly(const char *name, uint64_t now_ns)
{
	struct fgt_backlog_place *place;
	struct fgt_backlog_entry *entry;

	LIST_FOREACH(place, &backlog.places, link)
		TAILQ_FOREACH(entry, &place->entries, link)
			if (strcmp(place->name, name) == 0 && entry->is_sent) {
				fgt_backlog_end(entry, FGT_BACKLOG_AGAIN,
						now_ns, 0, 0, "down");
				return;
			}
	fail_msg("nothing is sent to %s", name);
}

static void several_that_are_down_delay_no_other(void **state)
{
	(void)state;
	for (uint64_t time = 1; time <= 8; time += 2) {
		add("a", time);
		add("b", time + 1);
	}
	assert_int_equal(begin_all(0), 3); /* they hang */
	add("up", 9);
	assert_int_equal(begin_next(0), 9);
	end(9, FGT_BACKLOG_ANSWERED, 0, 0, 0);
	add("c", 10);
	assert_int_equal(begin_next(0), 10);
	end_badly("a", 0);
	end_badly("b", 0);
	end_badly("c", 0);
	assert_int_equal(begin_all(FGT_BACKLOG_MAX_NS), 1); /* and one of a */
	add("up", 11);
	add("up", 12);
	assert_int_equal(begin_next(FGT_BACKLOG_MAX_NS), 11);
	end(11, FGT_BACKLOG_ANSWERED, 0, 0, 0);
	assert_int_equal(begin_next(FGT_BACKLOG_MAX_NS), 12);
}

static void many_that_begin_to_hang_delay_no_other(void **state)
{
	char name[] = "hangs-a";

	(void)state;
	for (uint64_t i = 0; i < FGT_BACKLOG_FIRST_MAX; i++, name[6]++) {
		add(name, 2 * i + 1);
		add(name, 2 * i + 2);
	}
	assert_in_range(begin_all(0), FGT_BACKLOG_FIRST_MAX,
			FGT_BACKLOG_FIRST_MAX + 3);
	add("up", 99);
	assert_int_equal(begin_next(0), 99);
	end(99, FGT_BACKLOG_ANSWERED, 0, 0, 0);
	add("up", 100);
	assert_int_equal(begin_next(0), 100);
}

static void pauses_grow_up_to_a_bound(void **state)
{
	uint64_t now_ns = 0, longest_ns = 0;

	(void)state;
	add("down", 1);
	for (int i = 0; i < 20; i++) {
		uint64_t limit_ns = FGT_BACKLOG_MIN_NS << (i < 7 ? i : 7);

		assert_int_equal(begin_next(now_ns), 1);
		/* The longest pause that there may be: random is -1. */
		end(1, FGT_BACKLOG_AGAIN, now_ns, 0,
		    limit_ns > FGT_BACKLOG_MAX_NS
			    ? FGT_BACKLOG_MAX_NS - SECOND_NS - 1
			    : limit_ns - SECOND_NS - 1);
		assert_int_equal(begin_next(now_ns), 0);
		assert_true(due_ns - now_ns >= longest_ns);
		longest_ns = due_ns - now_ns;
		assert_true(longest_ns < limit_ns);
		now_ns = due_ns;
	}
	assert_int_equal(longest_ns, FGT_BACKLOG_MAX_NS - 1);
	/* It answers: the next pause is short again. */
	assert_int_equal(begin_next(now_ns), 1);
	end(1, FGT_BACKLOG_ANSWERED, now_ns, 0, 0);
	add("down", 2);
	assert_int_equal(begin_next(now_ns), 2);
	end(2, FGT_BACKLOG_AGAIN, now_ns, 0, UINT64_MAX);
	assert_int_equal(begin_next(now_ns), 0);
	assert_true(due_ns - now_ns < FGT_BACKLOG_MIN_NS);
}

static void destination_chooses_a_longer_pause(void **state)
{
	(void)state;
	add("busy", 1);
	assert_int_equal(begin_next(0), 1);
	end(1, FGT_BACKLOG_AGAIN, 0, 86400, 0);
	assert_int_equal(begin_next(0), 0);
	assert_int_equal(due_ns, 86400 * SECOND_NS);
	fgt_backlog_flush(&backlog);
	assert_int_equal(begin_next(0), 1);
}

static void destination_with_failures_gets_one_at_a_time(void **state)
{
	(void)state;
	add("down", 1);
	add("down", 2);
	assert_int_equal(begin_next(0), 1);
	end(1, FGT_BACKLOG_AGAIN, 0, 0, 0);
	/* Not the one that failed: it may be the only one that does. */
	assert_int_equal(begin_next(SECOND_NS), 2);
	assert_int_equal(begin_next(SECOND_NS), 0);
	end(2, FGT_BACKLOG_ANSWERED, SECOND_NS, 0, 0);
	assert_int_equal(begin_next(SECOND_NS), 1);
}

static void destination_that_refuses_waits_for_a_change(void **state)
{
	(void)state;
	add("a", 1);
	assert_int_equal(begin_next(0), 1);
	end(1, FGT_BACKLOG_REFUSED, 0, 0, 0);
	assert_int_equal(begin_next(1000 * FGT_BACKLOG_MAX_NS), 0);
	assert_int_equal(due_ns, FGT_BACKLOG_NEVER);
	fgt_backlog_know_none(&backlog);
	assert_int_equal(fgt_backlog_know(&backlog, "a"), 0);
	assert_int_equal(begin_next(0), 1);
}

static void entries_without_destination_wait(void **state)
{
	(void)state;
	add("a", 1);
	fgt_backlog_know_none(&backlog);
	assert_int_equal(begin_next(0), 0);
	assert_int_equal(due_ns, FGT_BACKLOG_NEVER);
	assert_int_equal(fgt_backlog_know(&backlog, "a"), 0);
	assert_int_equal(begin_next(0), 1);
}

static void entry_that_was_broken_off_is_no_failure(void **state)
{
	(void)state;
	add("a", 1);
	assert_int_equal(begin_next(0), 1);
	end(1, FGT_BACKLOG_BROKEN_OFF, 0, 0, 0);
	assert_int_equal(begin_next(0), 1);
}

static void entry_that_goes_while_it_is_sent_is_forgotten(void **state)
{
	const struct fgt_spool_id id = { .time = 1 };

	(void)state;
	add("a", 1);
	add("a", 2);
	add("a", 3);
	assert_int_equal(begin_next(0), 1);
	fgt_backlog_remove(&backlog, &id);
	assert_null(fgt_backlog_find(&backlog, &id));
	assert_int_equal(begin_next(0), 2);
	assert_int_equal(begin_next(0), 3);
	assert_int_equal(LIST_FIRST(&backlog.places)->count, 2);
	assert_int_equal(LIST_FIRST(&backlog.places)->bytes, 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(oldest_is_sent_first),
		TEST(destination_that_is_down_does_not_delay_another),
		TEST(several_that_are_down_delay_no_other),
		TEST(many_that_begin_to_hang_delay_no_other),
		TEST(pauses_grow_up_to_a_bound),
		TEST(destination_chooses_a_longer_pause),
		TEST(destination_with_failures_gets_one_at_a_time),
		TEST(destination_that_refuses_waits_for_a_change),
		TEST(entries_without_destination_wait),
		TEST(entry_that_was_broken_off_is_no_failure),
		TEST(entry_that_goes_while_it_is_sent_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
