/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a delivery that comes to nothing before it is sent is counted as: by its
 * destination, and for the next report to Sentry. Cuts are of a real target, a
 * child of this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/capture/sampler.h"
#include "agent/daemon/delivery/delivery_job.h"
#include "agent/daemon/loop/log.h"
#include "tests/unit/daemon/delivery_kit.h"

#define NOBODY	 65534
#define CUT_NS	 UINT64_C(200000000)
#define CHUNK_ID "0123456789abcdef0123456789abcdef"

static struct fgt_image_cache *cache;
static struct fgt_sampler *sampler;
static struct fgt_symbolizer *symbolizer;
static struct fgt_target *target;
static pid_t child;

static int set_up(void **state)
{
	const struct fgt_symbolizer_options names = { 0 };

	assert_int_equal(delivery_set_up(state), 0);
	assert_int_equal(fgt_symbolizer_new(&names, &symbolizer), 0);
	fgt_deliveries_free(delivery_world.deliveries);
	assert_int_equal(fgt_deliveries_new(delivery_world.loop, symbolizer,
					    &delivery_world.deliveries),
			 0);
	delivery_configure(
		"upload:{destinations=({name=\"lab\";directory=\"%s\"})}",
		delivery_world.directory);
	return 0;
}

static int tear_down(void **state)
{
	int r = delivery_tear_down(state);

	fgt_target_put(FGT_TAKE(target));
	fgt_sampler_free(FGT_TAKE(sampler));
	fgt_image_cache_free(FGT_TAKE(cache));
	fgt_symbolizer_free(FGT_TAKE(symbolizer));
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		child = 0;
	}
	return r;
}

static void start_target(void)
{
	const struct fgt_sampler_options sampling = {
		.ring = { .size_bytes = 4 << 20 },
	};
	struct fgt_why why;

	child = fork();
	if (child == 0)
		for (;;)
			pause();
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(fgt_sampler_new(&sampling, cache, &sampler), 0);
	assert_int_equal(fgt_sampler_start(sampler), 0);
	assert_int_equal(fgt_sampler_attach(sampler, child, 0, &target, &why),
			 0);
}

static int route(const struct fgt_delivery_order *order)
{
	const struct fgt_delivery_asker asker = { "lab", geteuid() };
	struct fgt_why why = { "" };

	return fgt_deliveries_route(delivery_world.deliveries, order, &asker,
				    &why);
}

static struct fgt_delivery_order order_of_file(void)
{
	return (struct fgt_delivery_order){
		.uid = geteuid(),
		.gid = getegid(),
		.kind = FGT_DELIVERY_FILE,
		.fds = { { delivery_memfd("x", 1), -1, -1, -1, -1 } },
	};
}

/* From now on; cut when its ticks are there. */
static struct fgt_delivery_order order_of_target(void)
{
	uint64_t now_ns = fgt_loop_now();

	return (struct fgt_delivery_order){
		.uid = geteuid(),
		.gid = getegid(),
		.target = target,
		.gate = { .peer.is_root = true },
		.fds = FGT_DELIVERY_FDS_NONE,
		.from_ns = now_ns,
		.to_ns = now_ns + CUT_NS,
		.not_before_ns = now_ns + 2 * CUT_NS,
	};
}

static struct fgt_delivery_order of_chunk(struct fgt_delivery_order order)
{
	strcpy(order.chunk.profiler_id, CHUNK_ID);
	strcpy(order.chunk.chunk_id, CHUNK_ID);
	return order;
}

/* For the next report: nothing but these. Taken out. */
static void assert_counts(enum fgt_discard_reason reason, uint32_t transactions,
			  enum fgt_sentry_category with, uint32_t count)
{
	const struct fgt_delivery_address lab =
		fgt_delivery_address_of_name(geteuid(), "lab");
	const struct fgt_sentry_discards found = fgt_delivery_limits_take(
		&delivery_world.deliveries->limits, &lab);
	struct fgt_sentry_discards expected = { { { 0 } } };

	expected.counts[reason][FGT_CATEGORY_TRANSACTION] = transactions;
	expected.counts[reason][with] = count;
	assert_memory_equal(&found, &expected, sizeof(found));
}

static void assert_discards(enum fgt_discard_reason reason,
			    uint32_t transactions, uint32_t chunks)
{
	assert_counts(reason, transactions, FGT_CATEGORY_CHUNK, chunks);
}

static void assert_v1_discards(enum fgt_discard_reason reason, uint32_t count)
{
	assert_counts(reason, count, FGT_CATEGORY_PROFILE, count);
}

static void assert_dropped(enum fgt_drop_reason reason, uint64_t count)
{
	const struct fgt_destination_entry *lab = fgt_destinations_find(
		&delivery_world.deliveries->destinations, "lab");

	for (int i = 0; i < FGT_DROP_COUNT; i++)
		assert_int_equal(lab->dropped[i], i == (int)reason ? count : 0);
}

static void never(void *context, const struct fgt_delivery_result *result)
{
	(void)context;
	(void)result;
}

static void full_queue_is_counted_by_category(void **state)
{
	struct fgt_delivery_order order;

	(void)state;
	for (int i = 0; i < FGT_DELIVERIES_PER_DESTINATION; i++) {
		order = order_of_file();
		assert_int_equal(route(&order), 0);
	}
	assert_dropped(FGT_DROP_QUEUE_FULL, 0);
	order = order_of_file();
	assert_int_equal(route(&order), -EBUSY);
	assert_discards(FGT_DISCARD_QUEUE, 1, 1);
	order = of_chunk(order_of_file());
	assert_int_equal(route(&order), -EBUSY);
	assert_discards(FGT_DISCARD_QUEUE, 0, 1);
	assert_dropped(FGT_DROP_QUEUE_FULL, 2);
	/* The spool has it still. */
	order = order_of_file();
	order.settled = never;
	assert_int_equal(route(&order), -EBUSY);
	assert_discards(FGT_DISCARD_QUEUE, 0, 0);
	assert_int_equal(delivery_counters().refused, 3);
}

static void time_that_the_ring_lacks_is_no_data(void **state)
{
	struct fgt_delivery_order order;

	(void)state;
	start_target();
	order = order_of_target();
	order.from_ns = 1;
	order.to_ns = 2;
	assert_int_equal(route(&order), 0);
	delivery_run_until(1);
	assert_discards(FGT_DISCARD_NO_DATA, 1, 1);
	order = of_chunk(order);
	assert_int_equal(route(&order), 0);
	delivery_run_until(2);
	assert_discards(FGT_DISCARD_NO_DATA, 0, 1);
	assert_dropped(FGT_DROP_NO_DATA, 2);
}

static void what_its_user_may_not_see_is_internal(void **state)
{
	struct fgt_delivery_order order;

	(void)state;
	if (geteuid() != 0)
		skip();
	start_target();
	order = order_of_target();
	order.gate.peer = (struct fgt_peer){ .uid = NOBODY, .gid = NOBODY };
	assert_int_equal(route(&order), 0);
	delivery_run_until(1);
	assert_discards(FGT_DISCARD_INTERNAL, 1, 1);
	assert_dropped(FGT_DROP_NO_DATA, 1);
}

static void what_cannot_be_encoded_is_internal(void **state)
{
	struct fgt_delivery_order order = order_of_file();

	(void)state;
	assert_int_equal(route(&order), 0);
	delivery_run_until(1);
	assert_discards(FGT_DISCARD_INTERNAL, 1, 1);
	assert_dropped(FGT_DROP_REJECTED, 1);
}

/* What is queued fills the user's share; the cut is more than that. */
static void cut_without_room_is_a_full_queue(void **state)
{
	struct fgt_delivery_order order = order_of_file();

	(void)state;
	order.not_before_ns = UINT64_MAX;
	assert_int_equal(fallocate(order.fds.fd[FGT_DELIVERY_DATA], 0, 0,
				   FGT_DELIVERIES_BYTES_PER_USER),
			 0);
	assert_int_equal(route(&order), 0);
	start_target();
	order = order_of_target();
	assert_int_equal(route(&order), 0);
	delivery_run_until(1);
	assert_discards(FGT_DISCARD_QUEUE, 1, 1);
	assert_dropped(FGT_DROP_QUEUE_FULL, 1);
	assert_int_equal(delivery_counters().failed, 1);
	assert_int_equal(delivery_counters().waiting, 1);
}

/* Queued; not started before the test does it. */
static struct fgt_delivery_job *queue_file(void)
{
	struct fgt_delivery_order order = order_of_file();
	struct fgt_delivery_job *job, *last = NULL;

	order.not_before_ns = UINT64_MAX;
	assert_int_equal(route(&order), 0);
	TAILQ_FOREACH(job, &delivery_world.deliveries->all, link)
		last = job;
	return last;
}

static void start(struct fgt_delivery_job *job)
{
	fgt_loop_disarm(delivery_world.loop, &job->timer);
	job->state = FGT_JOB_READY;
	fgt_deliveries_start_ready(delivery_world.deliveries);
}

static void report_outlives_a_process_that_does_not_start(void **state)
{
	struct fgt_delivery_job *job = queue_file();
	struct rlimit files, none;

	(void)state;
	fgt_deliveries_discard(delivery_world.deliveries, "lab",
			       FGT_DISCARD_INTERNAL, FGT_CATEGORY_TRANSACTION);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	none = files;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	start(job);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(delivery_counters().failed, 1);
	assert_discards(FGT_DISCARD_INTERNAL, 2, 1);
}

static void what_takes_too_long_is_a_network_error(void **state)
{
	struct fgt_delivery_job *job = queue_file();

	(void)state;
	start(job);
	assert_int_equal(job->state, FGT_JOB_SENDS);
	fgt_delivery_job_overrun(job);
	assert_discards(FGT_DISCARD_NETWORK, 1, 1);
}

static void what_is_encoded_does_not_count_as_sent(void **state)
{
	struct fgt_delivery_job *jobs[3];
	struct fgt_delivery_tally tally;

	(void)state;
	for (int i = 0; i < 3; i++) {
		jobs[i] = queue_file();
		jobs[i]->state = FGT_JOB_SENDS;
		jobs[i]->is_kept = i > 0;
	}
	tally = fgt_delivery_job_tally(delivery_world.deliveries,
				       &jobs[0]->address);
	for (int i = 0; i < 3; i++)
		jobs[i]->state = FGT_JOB_WAITS;
	assert_int_equal(tally.sent, 3);
	assert_int_equal(tally.sent_to_destination, 1);
	assert_int_equal(tally.encoded_for_destination, 2);
}

/* Encoding more at once for one destination would keep the others waiting. */
static void four_are_encoded_at_once_for_a_destination(void **state)
{
	struct fgt_delivery_job *jobs[6];
	int started = 0;

	(void)state;
	for (int i = 0; i < 6; i++)
		jobs[i] = queue_file();
	for (int i = 0; i < 6; i++) {
		jobs[i]->is_kept = i < 5;
		start(jobs[i]);
	}
	for (int i = 0; i < 5; i++)
		started += jobs[i]->state == FGT_JOB_SENDS;
	assert_int_equal(started, FGT_DELIVERIES_ENCODED_PER_DESTINATION);
	assert_int_equal(jobs[4]->state, FGT_JOB_READY);
	assert_int_equal(jobs[5]->state, FGT_JOB_SENDS);
}

/* The second payload of a transaction that has arrived, and the first one of
 * one that is only encoded. */
static void
transaction_that_has_arrived_is_not_lost_with_its_chunk(void **state)
{
	struct fgt_delivery_job *job = queue_file();
	const struct fgt_delivery_result result = {
		.error = -ECONNRESET,
		.payloads = 1,
		.category = FGT_CATEGORY_TRANSACTION,
	};

	(void)state;
	fgt_delivery_job_count_discards(job, &result);
	assert_discards(FGT_DISCARD_INTERNAL, 0, 1);
	job->is_kept = true;
	fgt_delivery_job_count_discards(job, &result);
	assert_discards(FGT_DISCARD_INTERNAL, 1, 1);
}

/* Also from the spool, where one entry has both. */
static void with_v1_a_profile_is_lost_with_its_transaction(void **state)
{
	struct fgt_delivery_job *job = queue_file();
	const struct fgt_delivery_kept kept = { .configured = "lab" };

	(void)state;
	delivery_world.deliveries->is_sentry_v1 = true;
	fgt_deliveries_discard(delivery_world.deliveries, "lab",
			       FGT_DISCARD_CACHE, FGT_CATEGORY_TRANSACTION);
	assert_v1_discards(FGT_DISCARD_CACHE, 1);
	fgt_deliveries_discard_kept(delivery_world.deliveries, &kept,
				    FGT_DISCARD_CACHE);
	assert_v1_discards(FGT_DISCARD_CACHE, 1);
	job->settled = never;
	fgt_delivery_job_discard(job, FGT_DISCARD_SEND,
				 FGT_CATEGORY_TRANSACTION);
	assert_v1_discards(FGT_DISCARD_SEND, 1);
	job->settled = NULL;
	fgt_delivery_job_discard(job, FGT_DISCARD_SEND,
				 FGT_CATEGORY_TRANSACTION);
	assert_v1_discards(FGT_DISCARD_SEND, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(full_queue_is_counted_by_category),
		TEST(time_that_the_ring_lacks_is_no_data),
		TEST(what_its_user_may_not_see_is_internal),
		TEST(what_cannot_be_encoded_is_internal),
		TEST(cut_without_room_is_a_full_queue),
		TEST(report_outlives_a_process_that_does_not_start),
		TEST(what_takes_too_long_is_a_network_error),
		TEST(what_is_encoded_does_not_count_as_sent),
		TEST(four_are_encoded_at_once_for_a_destination),
		TEST(transaction_that_has_arrived_is_not_lost_with_its_chunk),
		TEST(with_v1_a_profile_is_lost_with_its_transaction),
	};

	fgt_log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
