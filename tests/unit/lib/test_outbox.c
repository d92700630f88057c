/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's outbox: bounds, retries, losses. The test passes the backend
 * and the times. Also runs under the thread sanitizer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/transactions/outbox.h"

#define SECOND UINT64_C(1000000000)
#define NOW    (100 * SECOND)

static struct {
	struct fgt_outbox outbox;
	_Atomic unsigned int wakes; /* by fgt_outbox_put() */
	int result; /* of deliver */
	uint64_t not_before_ns; /* that the destination /spool asks for; 0 */
	int cut_result;
	unsigned int deliveries, cuts, lines;
	unsigned int freed;
	const struct fgt_slice *last_slice;
	uint64_t cut_from, cut_to;
	unsigned int lost[FGT_DISCARD_COUNT];
} world;

/* The one thing of the library that the box needs. */
void fgt_slice_free(struct fgt_slice *slice)
{
	if (!slice)
		return;
	free(slice->file.bytes);
	free(slice);
}

static void wake(void)
{
	world.wakes++;
}

static int deliver(const struct fgt_delivery *delivery, struct fgt_why *why)
{
	world.deliveries++;
	world.last_slice = delivery->slice;
	if (strcmp(delivery->destination, "/other") == 0)
		return 0;
	assert_string_equal(delivery->destination, "/spool");
	if (world.not_before_ns)
		*delivery->ret_not_before_ns = world.not_before_ns;
	return world.result ? fgt_why_set(why, world.result, "it is away; wait")
			    : 0;
}

static struct fgt_slice *new_slice(size_t len)
{
	struct fgt_slice *slice = calloc(1, sizeof(*slice));

	assert_non_null(slice);
	slice->file.len_bytes = len;
	slice->file.bytes = calloc(1, 1);
	return slice;
}

static int cut(uint64_t from_ns, uint64_t to_ns, struct fgt_slice **ret_slice)
{
	world.cuts++;
	world.cut_from = from_ns;
	world.cut_to = to_ns;
	if (world.cut_result == 0)
		*ret_slice = new_slice(1000);
	return world.cut_result;
}

static void log_line(void *context, const char *line)
{
	(void)context;
	assert_true(*line);
	world.lines++;
}

static void lost(const char *destination, enum fgt_discard_reason reason,
		 uint32_t count)
{
	assert_string_equal(destination, "/spool");
	world.lost[reason] += count;
}

static const struct fgt_backend plain = { .deliver = deliver, .lost = lost };
static const struct fgt_backend cutting = { .deliver = deliver,
					    .lost = lost,
					    .cut_transaction = cut };
static const struct fgt_transaction_facts facts = {
	.begin_ns = NOW - SECOND, .end_ns = NOW - SECOND / 2
};

static void free_item(struct fgt_outbox_item *item)
{
	assert_null(item->slice);
	world.freed++;
	free(item);
}

static struct fgt_outbox_item *new_item(uint64_t due_ns)
{
	struct fgt_outbox_item *item = calloc(1, sizeof(*item));

	assert_non_null(item);
	item->destination = "/spool";
	item->facts = &facts;
	item->due_ns = due_ns;
	item->free = free_item;
	return item;
}

static int put(uint64_t due_ns)
{
	struct fgt_outbox_item *item = new_item(due_ns);
	int r = fgt_outbox_put(&world.outbox, item);

	if (r < 0)
		free(item);
	return r;
}

static int set_up(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fgt_outbox_init(&world.outbox, wake, log_line);
	fgt_outbox_open(&world.outbox);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fgt_outbox_close(&world.outbox);
	assert_true(fgt_outbox_is_empty(&world.outbox));
	return 0;
}

static uint64_t step(uint64_t now_ns)
{
	return fgt_outbox_step(&world.outbox, &plain, now_ns);
}

static void item_is_delivered_when_it_is_due(void **state)
{
	(void)state;
	assert_int_equal(step(NOW), FGT_OUTBOX_NEVER);
	assert_int_equal(put(NOW), 0);
	assert_int_equal(step(NOW - 1), NOW);
	assert_int_equal(world.deliveries, 0);
	assert_int_equal(step(NOW), FGT_OUTBOX_NEVER);
	assert_int_equal(world.deliveries, 1);
	assert_int_equal(world.freed, 1);
	assert_int_equal(world.outbox.delivered, 1);
	assert_true(fgt_outbox_is_empty(&world.outbox));
}

static void put_wakes_the_worker_only_when_it_is_due_sooner(void **state)
{
	(void)state;
	assert_int_equal(put(NOW + 5), 0);
	assert_int_equal(world.wakes, 1);
	assert_int_equal(put(NOW + 5), 0);
	assert_int_equal(put(NOW + 9), 0);
	assert_int_equal(world.wakes, 1);
	assert_int_equal(put(NOW + 4), 0);
	assert_int_equal(world.wakes, 2);
	assert_int_equal(step(NOW), NOW + 4);
}

static void item_that_can_wait_wakes_no_thread_until_the_box_fills(void **state)
{
	(void)state;
	for (int i = 0; i < FGT_OUTBOX_PATIENT; i++) {
		struct fgt_outbox_item *item = new_item(NOW + 5);

		item->can_wait = true;
		assert_int_equal(fgt_outbox_put(&world.outbox, item), 0);
	}
	assert_int_equal(world.wakes, 0);
	/* One that cannot wait is not held up by those that can. */
	assert_int_equal(put(NOW + 9), 0);
	assert_int_equal(world.wakes, 1);
	assert_int_equal(step(NOW), NOW + 5);
	assert_int_equal(put(NOW + 4), 0);
	assert_int_equal(world.wakes, 2);
}

static void full_half_of_the_box_wakes_the_worker(void **state)
{
	(void)state;
	for (int i = 0; i <= FGT_OUTBOX_PATIENT; i++) {
		struct fgt_outbox_item *item = new_item(NOW);

		item->can_wait = true;
		assert_int_equal(fgt_outbox_put(&world.outbox, item), 0);
		assert_int_equal(world.wakes, i == FGT_OUTBOX_PATIENT);
	}
}

static void full_box_refuses_items(void **state)
{
	(void)state;
	for (int i = 0; i < FGT_OUTBOX_MAX; i++)
		assert_int_equal(put(NOW), 0);
	assert_int_equal(put(NOW), -ENOBUFS);
	step(NOW);
	assert_int_equal(put(NOW), 0);
	assert_int_equal(put(NOW), -ENOBUFS);
	assert_int_equal(atomic_load(&world.outbox.refused), 2);
}

static void box_refuses_slices_beyond_its_bytes(void **state)
{
	struct fgt_outbox_item *item;

	(void)state;
	for (int i = 0; i < 3; i++) {
		item = new_item(NOW);
		item->slice = new_slice(FGT_OUTBOX_BYTES_MAX / 2);
		assert_int_equal(fgt_outbox_put(&world.outbox, item),
				 i < 2 ? 0 : -ENOBUFS);
	}
	fgt_slice_free(item->slice);
	free(item);
	step(NOW);
	item = new_item(NOW);
	item->slice = new_slice(FGT_OUTBOX_BYTES_MAX / 2);
	assert_int_equal(fgt_outbox_put(&world.outbox, item), 0);
}

/* At once, then after 1, 2, 4 … 64 s. */
static void item_is_retried_after_doubled_delays(void **state)
{
	uint64_t now_ns = NOW;

	(void)state;
	world.result = -EAGAIN;
	assert_int_equal(put(now_ns), 0);
	for (unsigned int i = 1; i < FGT_OUTBOX_TRIES; i++) {
		uint64_t next_ns = step(now_ns);

		assert_int_equal(world.deliveries, i);
		assert_int_equal(next_ns - now_ns, SECOND << (i - 1));
		assert_int_equal(step(next_ns - 1), next_ns);
		assert_int_equal(world.deliveries, i);
		now_ns = next_ns;
	}
	assert_int_equal(step(now_ns), FGT_OUTBOX_NEVER);
	assert_int_equal(world.deliveries, FGT_OUTBOX_TRIES);
	assert_int_equal(world.outbox.undelivered, 1);
	assert_int_equal(world.outbox.delivered, 0);
	assert_int_equal(world.freed, 1);
	assert_int_equal(world.lines, FGT_OUTBOX_TRIES);
	assert_int_equal(world.lost[FGT_DISCARD_NETWORK], 1);
}

static void item_that_waits_does_not_delay_the_next(void **state)
{
	(void)state;
	world.result = -EAGAIN;
	assert_int_equal(put(NOW), 0);
	step(NOW);
	world.result = 0;
	assert_int_equal(put(NOW), 0);
	assert_int_equal(step(NOW), NOW + SECOND);
	assert_int_equal(world.outbox.delivered, 1);
	assert_int_equal(step(NOW + SECOND), FGT_OUTBOX_NEVER);
	assert_int_equal(world.outbox.delivered, 2);
}

static void destination_is_not_called_in_its_pause(void **state)
{
	struct fgt_outbox_item *other = new_item(NOW + 2);

	(void)state;
	world.result = -EAGAIN;
	world.not_before_ns = NOW + 60 * SECOND;
	assert_int_equal(put(NOW), 0);
	assert_int_equal(put(NOW + 1), 0);
	assert_int_equal(step(NOW), NOW + 1);
	assert_int_equal(world.deliveries, 1);
	/* Neither the second item nor a later one calls it. */
	assert_int_equal(step(NOW + 1), NOW + 60 * SECOND);
	assert_int_equal(put(NOW + 2), 0);
	assert_int_equal(step(NOW + 2), NOW + 60 * SECOND);
	assert_int_equal(world.deliveries, 1);
	/* Another destination has no pause. */
	other->destination = "/other";
	assert_int_equal(fgt_outbox_put(&world.outbox, other), 0);
	assert_int_equal(step(NOW + 2), NOW + 60 * SECOND);
	assert_int_equal(world.outbox.delivered, 1);
	world.result = 0;
	world.not_before_ns = 0;
	for (int i = 0; i < 3; i++)
		step(NOW + 60 * SECOND);
	assert_int_equal(world.outbox.delivered, 4);
	assert_int_equal(world.deliveries, 5);
}

static void item_is_given_up_when_the_pause_is_too_long(void **state)
{
	uint64_t until_ns = NOW + 2 * FGT_OUTBOX_HELD_NS;

	(void)state;
	world.result = -EAGAIN;
	world.not_before_ns = until_ns;
	assert_int_equal(put(NOW), 0);
	assert_int_equal(put(NOW), 0);
	step(NOW);
	assert_int_equal(step(NOW), FGT_OUTBOX_NEVER);
	assert_int_equal(world.deliveries, 1);
	assert_int_equal(world.outbox.undelivered, 2);
	assert_int_equal(world.lost[FGT_DISCARD_NETWORK], 1);
	assert_int_equal(world.lost[FGT_DISCARD_LIMITED], 1);
	world.result = 0;
	assert_int_equal(put(until_ns), 0);
	step(until_ns);
	assert_int_equal(world.outbox.delivered, 1);
}

static void refused_item_is_given_up_at_once(void **state)
{
	(void)state;
	world.result = -EINVAL;
	assert_int_equal(put(NOW), 0);
	assert_int_equal(step(NOW), FGT_OUTBOX_NEVER);
	assert_int_equal(world.outbox.undelivered, 1);
}

static void ring_is_cut_once_before_all_deliveries(void **state)
{
	(void)state;
	world.result = -EAGAIN;
	for (int i = 0; i < 3; i++)
		assert_int_equal(put(NOW), 0);
	fgt_outbox_step(&world.outbox, &cutting, NOW);
	assert_int_equal(world.cuts, 3);
	assert_int_equal(world.deliveries, 1);
	assert_non_null(world.last_slice);
	assert_true(world.cut_from <= facts.begin_ns &&
		    world.cut_to >= facts.end_ns);
	for (int i = 1; i < 20; i++)
		fgt_outbox_step(&world.outbox, &cutting, NOW + i * SECOND);
	assert_int_equal(world.cuts, 3);
	world.result = 0;
	for (int i = 0; i < 3; i++)
		fgt_outbox_step(&world.outbox, &cutting, NOW + 900 * SECOND);
	assert_int_equal(world.outbox.delivered, 3);
	assert_int_equal(world.outbox.bytes, 0);
}

static void item_is_given_up_when_its_range_is_overwritten(void **state)
{
	(void)state;
	world.cut_result = -ENODATA;
	assert_int_equal(put(NOW), 0);
	assert_int_equal(fgt_outbox_step(&world.outbox, &cutting, NOW),
			 FGT_OUTBOX_NEVER);
	assert_int_equal(world.deliveries, 0);
	assert_int_equal(world.outbox.undelivered, 1);
	assert_int_equal(world.lost[FGT_DISCARD_NO_DATA], 1);
}

static void closed_box_gives_up_its_items(void **state)
{
	(void)state;
	assert_int_equal(put(NOW), 0);
	assert_int_equal(put(NOW), 0);
	fgt_outbox_close(&world.outbox);
	assert_int_equal(world.freed, 2);
	assert_int_equal(world.outbox.undelivered, 2);
	assert_int_equal(put(NOW), -ENOTCONN);
	fgt_outbox_open(&world.outbox);
	assert_int_equal(put(NOW), 0);
	assert_int_equal(world.wakes, 2);
}

static int deliver_and_give_up(const struct fgt_delivery *delivery,
			       struct fgt_why *why)
{
	int r = deliver(delivery, why);

	assert_int_equal(fgt_outbox_give_up(&world.outbox), 2);
	assert_int_equal(world.outbox.undelivered, 2);
	return r;
}

static void item_given_up_during_delivery_is_counted_once(void **state)
{
	const struct fgt_backend backend = { .deliver = deliver_and_give_up };

	(void)state;
	assert_int_equal(put(NOW), 0);
	assert_int_equal(put(NOW), 0);
	fgt_outbox_step(&world.outbox, &backend, NOW);
	assert_int_equal(put(NOW), -ENOTCONN);
	assert_int_equal(fgt_outbox_give_up(&world.outbox), 0);
	fgt_outbox_close(&world.outbox);
	assert_int_equal(world.outbox.undelivered, 2);
	assert_int_equal(world.outbox.delivered, 0);
	assert_int_equal(world.freed, 2);
}

static void *put_many(void *unused)
{
	(void)unused;
	for (int i = 0; i < 5000; i++)
		(void)put(NOW);
	return NULL;
}

static void box_loses_no_item_between_threads(void **state)
{
	pthread_t threads[4];
	uint64_t counted;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, put_many, NULL), 0);
	for (int i = 0; i < 20000; i++)
		step(NOW);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	while (!fgt_outbox_is_empty(&world.outbox))
		step(NOW);
	counted = world.outbox.delivered;
	assert_int_equal(counted, world.freed);
	assert_int_equal(counted, world.deliveries);
	assert_true(counted >= FGT_OUTBOX_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(item_is_delivered_when_it_is_due),
		TEST(put_wakes_the_worker_only_when_it_is_due_sooner),
		TEST(item_that_can_wait_wakes_no_thread_until_the_box_fills),
		TEST(full_half_of_the_box_wakes_the_worker),
		TEST(full_box_refuses_items),
		TEST(box_refuses_slices_beyond_its_bytes),
		TEST(item_is_retried_after_doubled_delays),
		TEST(item_that_waits_does_not_delay_the_next),
		TEST(destination_is_not_called_in_its_pause),
		TEST(item_is_given_up_when_the_pause_is_too_long),
		TEST(refused_item_is_given_up_at_once),
		TEST(ring_is_cut_once_before_all_deliveries),
		TEST(item_is_given_up_when_its_range_is_overwritten),
		TEST(closed_box_gives_up_its_items),
		TEST(item_given_up_during_delivery_is_counted_once),
		TEST(box_loses_no_item_between_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
