/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice requests from clients in threads, against a real sampler that samples
 * a child of this test; under the thread sanitizer too. The loop runs in the
 * main thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/capture/sampler.h"
#include "agent/daemon/front/front.h"
#include "agent/daemon/slices/slices.h"
#include "agent/protocol/channel.h"
#include "ringbuf/slice/slice_codec.h"

#define FAR_NS	(fgt_loop_now() + UINT64_C(20000000000))
#define CLIENTS 40

struct fixture {
	char directory[64];
	char path[80];
	pid_t child;
	struct fgt_loop *loop;
	struct fgt_listener listener;
	struct fgt_control *control;
	struct fgt_image_cache *cache;
	struct fgt_sampler *sampler;
	struct fgt_symbolizer *symbolizer;
	struct fgt_slices *slices;
	struct fgt_target *target;
	struct fgt_timer timer;
	uint64_t until_ns; /* of requests; 0: now */
};

/* One client and the reply that it received. */
struct asker {
	struct fixture *fixture;
	pthread_t thread;
	int result;
	int32_t pid; /* of the slice's process */
};

static void handle(void *context, struct fgt_control_client *client,
		   const struct fgt_request *asked)
{
	struct fixture *fixture = context;
	const struct fgt_slice_request request = {
		.to_ns = fixture->until_ns ? fixture->until_ns : fgt_loop_now(),
	};
	const struct fgt_gate gate = { .peer.is_root = true };

	(void)asked;
	fgt_slices_submit(fixture->slices, client, fixture->target, &request,
			  &gate);
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static int start_sampling(struct fixture *fixture)
{
	const struct fgt_sampler_options sampling = {
		.ring = { .size_bytes = 4 << 20 },
	};
	const struct fgt_symbolizer_options names = { 0 };
	struct fgt_why why;
	int r = fgt_image_cache_new(&fixture->cache);

	if (r == 0)
		r = fgt_sampler_new(&sampling, fixture->cache,
				    &fixture->sampler);
	if (r == 0)
		r = fgt_symbolizer_new(&names, &fixture->symbolizer);
	if (r == 0)
		r = fgt_sampler_start(fixture->sampler);
	if (r == 0)
		r = fgt_sampler_attach(fixture->sampler, fixture->child, 0,
				       &fixture->target, &why);
	return r;
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct fgt_control_options options = {
		.handle = handle,
		.context = fixture,
		.fronts = { .read = fgt_request_read },
	};
	struct fgt_why why;
	int r;

	*state = fixture;
	strcpy(fixture->directory, "/tmp/fgt-slices-XXXXXX");
	if (!mkdtemp(fixture->directory))
		return -errno;
	snprintf(fixture->path, sizeof(fixture->path), "%s/agent.sock",
		 fixture->directory);
	fixture->child = start_child();
	r = start_sampling(fixture);
	if (r == 0)
		r = fgt_loop_new(&fixture->loop);
	if (r == 0)
		r = fgt_listener_open(fixture->path, true, &fixture->listener,
				      &why);
	if (r == 0)
		r = fgt_slices_new(fixture->loop, fixture->symbolizer,
				   &fixture->slices);
	if (r == 0)
		r = fgt_control_new(fixture->loop, &fixture->listener, &options,
				    &fixture->control);
	return r;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	char path[120];

	fgt_slices_free(fixture->slices);
	fgt_control_free(fixture->control);
	fgt_listener_close(&fixture->listener);
	fgt_loop_free(fixture->loop);
	fgt_target_put(fixture->target);
	fgt_sampler_free(fixture->sampler);
	fgt_symbolizer_free(fixture->symbolizer);
	fgt_image_cache_free(fixture->cache);
	kill(fixture->child, SIGKILL);
	waitpid(fixture->child, NULL, 0);
	snprintf(path, sizeof(path), "%s/agent.lock", fixture->directory);
	unlink(path);
	rmdir(fixture->directory);
	free(fixture);
	return 0;
}

static void stop(void *context)
{
	fgt_loop_stop(context);
}

static void spin(struct fixture *fixture, unsigned int ms)
{
	fixture->timer =
		(struct fgt_timer){ .expired = stop, .context = fixture->loop };
	fgt_loop_arm(fixture->loop, &fixture->timer,
		     fgt_loop_now() + ms * UINT64_C(1000000));
	assert_int_equal(fgt_loop_run(fixture->loop), 0);
}

/* Reads the frames of the file and decodes it. */
static int receive_file(struct asker *asker, const struct fgt_channel *channel)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(free) void *file = NULL;
	size_t total = 0;
	struct fgt_why why;
	int r;

	for (;;) {
		FGT_AUTO(fgt_message_free) struct fgt_message *frame = NULL;
		const uint8_t *bytes;
		size_t len;

		r = fgt_channel_receive(channel, FAR_NS, &frame);
		if (r < 0)
			return r;
		if (fgt_message_get_bin(frame, "data", &bytes, &len) < 0)
			break;
		file = realloc(file, total + len);
		memcpy((uint8_t *)file + total, bytes, len);
		total += len;
	}
	r = fgt_slice_decode(file, total, &slice, &why);
	if (r == 0)
		asker->pid = slice->process.pid;
	return r;
}

static void *ask(void *argument)
{
	struct asker *asker = argument;
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;

	asker->result =
		fgt_channel_open(asker->fixture->path, false, FAR_NS, &channel);
	if (asker->result == 0)
		asker->result = fgt_builder_new_request("slice", &request);
	if (asker->result == 0)
		asker->result = fgt_channel_call(&channel, request, FAR_NS,
						 &reply, NULL);
	if (asker->result == 0)
		asker->result = receive_file(asker, &channel);
	return NULL;
}

static void start_askers(struct fixture *fixture, struct asker *askers,
			 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		askers[i] = (struct asker){ .fixture = fixture };
		assert_int_equal(pthread_create(&askers[i].thread, NULL, ask,
						&askers[i]),
				 0);
	}
}

static void join_askers(struct asker *askers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		pthread_join(askers[i].thread, NULL);
}

/* Until that many have been answered in one way or another. */
static void spin_until_answered(struct fixture *fixture, uint64_t count)
{
	struct fgt_slices_counters counters;

	do {
		spin(fixture, 10);
		fgt_slices_get_counters(fixture->slices, &counters);
	} while (counters.served + counters.failed + counters.busy < count);
	spin(fixture, 10);
}

static void two_slices_at_once_both_succeed(void **state)
{
	struct fixture *fixture = *state;
	struct asker askers[2];

	spin(fixture, 100);
	start_askers(fixture, askers, 2);
	spin_until_answered(fixture, 2);
	join_askers(askers, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(askers[i].result, 0);
		assert_int_equal(askers[i].pid, fixture->child);
	}
}

static void slice_requests_are_served_or_refused_as_busy(void **state)
{
	struct fixture *fixture = *state;
	struct asker askers[CLIENTS];
	struct fgt_slices_counters counters;
	size_t served = 0;

	spin(fixture, 100);
	start_askers(fixture, askers, CLIENTS);
	spin_until_answered(fixture, CLIENTS);
	join_askers(askers, CLIENTS);
	for (size_t i = 0; i < CLIENTS; i++) {
		served += askers[i].result == 0;
		if (askers[i].result != 0)
			assert_int_equal(askers[i].result, -EBUSY);
	}
	assert_true(served >= FGT_SLICES_AT_WORK);
	fgt_slices_get_counters(fixture->slices, &counters);
	assert_int_equal(counters.served, served);
	assert_int_equal(counters.busy, CLIENTS - served);
	assert_int_equal(counters.active + counters.waiting, 0);
}

static void slice_waits_for_an_end_in_the_future(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_slices_counters counters;
	struct asker asker;

	fixture->until_ns = fgt_loop_now() + 400000000;
	start_askers(fixture, &asker, 1);
	spin(fixture, 200);
	fgt_slices_get_counters(fixture->slices, &counters);
	assert_int_equal(counters.waiting, 1);
	spin_until_answered(fixture, 1);
	assert_true(fgt_loop_now() >= fixture->until_ns);
	join_askers(&asker, 1);
	assert_int_equal(asker.result, 0);
}

static void slice_stops_waiting_when_its_target_ends(void **state)
{
	struct fixture *fixture = *state;
	struct asker asker;

	fixture->until_ns = fgt_loop_now() + UINT64_C(60000000000);
	start_askers(fixture, &asker, 1);
	spin(fixture, 200);
	kill(fixture->child, SIGKILL);
	while (fgt_target_is_alive(fixture->target))
		spin(fixture, 20);
	fgt_slices_refresh(fixture->slices);
	spin_until_answered(fixture, 1);
	join_askers(&asker, 1);
	assert_int_equal(asker.result, 0);
}

static void leaving_sends_away_waiting_slices(void **state)
{
	struct fixture *fixture = *state;
	struct asker asker;

	fixture->until_ns = fgt_loop_now() + UINT64_C(60000000000);
	start_askers(fixture, &asker, 1);
	spin(fixture, 200);
	fgt_slices_leave(fixture->slices);
	spin(fixture, 20);
	join_askers(&asker, 1);
	assert_int_equal(asker.result, -ESHUTDOWN);
}

#define SLICES_TEST(name)                                                      \
	cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SLICES_TEST(two_slices_at_once_both_succeed),
		SLICES_TEST(slice_requests_are_served_or_refused_as_busy),
		SLICES_TEST(slice_waits_for_an_end_in_the_future),
		SLICES_TEST(slice_stops_waiting_when_its_target_ends),
		SLICES_TEST(leaving_sends_away_waiting_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
