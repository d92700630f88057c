/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the control socket that stay open, and descriptors that come
 * over it. Runs in one thread: clients send, then the loop runs for some ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/daemon/socket/control_client.h"
#include "agent/protocol/builder.h"
#include "agent/protocol/channel.h"
#include "agent/protocol/message.h"
#include "tests/unit/daemon/control_kit.h"

#define FAR_NS (fgt_loop_now() + UINT64_C(2000000000))

struct fixture {
	struct control_bench bench;
	int first, later, gone, refused;
	uint64_t inodes[2]; /* of descriptors that came, 0 */
	size_t data_len;
	struct fgt_control_client *parked;
};

static void reply(struct fgt_control_client *client, int count)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	assert_int_equal(fgt_builder_new_reply(&builder), 0);
	fgt_builder_int(builder, "count", count);
	fgt_control_reply(client, builder);
}

static void gone(void *context)
{
	struct fixture *fixture = context;

	fixture->gone++;
}

static void parked_gone(void *context)
{
	struct fixture *fixture = context;

	fixture->parked = NULL;
}

static void handle_later(void *context, struct fgt_control_client *client,
			 const struct fgt_request *request)
{
	struct fixture *fixture = context;

	fixture->later++;
	if (request->verb == FGT_REQUEST_DELIVER)
		fixture->data_len = request->deliver.data_len;
	if (request->verb == FGT_REQUEST_BYE) {
		fixture->parked = client;
		fgt_control_park(client, parked_gone, fixture);
		return;
	}
	reply(client, fixture->later);
}

static void take_fds(struct fixture *fixture, struct fgt_control_client *client)
{
	struct stat status;

	for (int i = 0; i < 2; i++) {
		int fd = fgt_control_take_fd(client);

		fixture->inodes[i] = 0;
		if (fd >= 0 && fstat(fd, &status) == 0)
			fixture->inodes[i] = status.st_ino;
		fgt_fd_close(fd);
	}
}

/* slice: the connection is kept; attach: it has its place and waits to be kept;
 * all other clients are not. Later requests: bye waits. */
static void handle(void *context, struct fgt_control_client *client,
		   const struct fgt_request *request)
{
	struct fixture *fixture = context;
	const struct fgt_control_keeper keeper = { .handle = handle_later,
						   .gone = gone,
						   .context = fixture };

	fixture->first++;
	take_fds(fixture, client);
	if (request->verb == FGT_REQUEST_ATTACH &&
	    fgt_control_reserve(client) == 0) {
		fgt_control_park(client, gone, fixture);
		return;
	}
	if (request->verb == FGT_REQUEST_SLICE &&
	    fgt_control_reserve(client) == 0)
		fgt_control_keep(client, &keeper);
	else
		fixture->refused++;
	reply(client, 0);
}

static int open_bench(void **state, unsigned int request_timeout_ms)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	control_bench_open(&fixture->bench,
			   (struct fgt_control_options){
				   .handle = handle,
				   .context = fixture,
				   .request_timeout_ms = request_timeout_ms,
			   });
	return 0;
}

static int set_up(void **state)
{
	return open_bench(state, CONTROL_TIMEOUT_MS);
}

/* For one that this process must itself both send and take in pieces. */
static int set_up_patient(void **state)
{
	return open_bench(state, 60000);
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	control_bench_close(&fixture->bench);
	free(fixture);
	return 0;
}

static struct fgt_channel connect_client(struct fixture *fixture)
{
	struct fgt_channel channel = { .fd = -1 };

	assert_int_equal(
		fgt_channel_open(fixture->bench.path, false, FAR_NS, &channel),
		0);
	return channel;
}

static void send_request(const struct fgt_channel *channel, const char *verb,
			 size_t data_len)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(free) void *data = calloc(1, data_len + 1);

	assert_int_equal(fgt_builder_new_request(verb, &request), 0);
	if (data_len > 0)
		fgt_builder_bin(request, "data", data, data_len);
	assert_int_equal(fgt_channel_send(channel, request, NULL, 0, FAR_NS),
			 0);
}

/* What count the reply holds, or its error. */
static int receive_count(const struct fgt_channel *channel)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	int64_t count = -1000;
	int r = fgt_channel_receive_reply(channel, FAR_NS, &message, NULL);

	if (r < 0)
		return r;
	(void)fgt_message_get_int(message, "count", &count);
	return (int)count;
}

static struct fgt_channel stay(struct fixture *fixture)
{
	struct fgt_channel channel = connect_client(fixture);

	send_request(&channel, "slice", 0);
	control_spin(&fixture->bench, 10);
	assert_int_equal(receive_count(&channel), 0);
	return channel;
}

static void kept_connection_may_send_many_requests(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close)
	struct fgt_channel client = stay(fixture);

	assert_int_equal(fgt_control_count(fixture->bench.control), 0);
	assert_int_equal(fixture->bench.control->kept_count, 1);
	/* Longer than a request may take. */
	control_spin(&fixture->bench, CONTROL_TIMEOUT_MS * 2);
	for (int i = 1; i <= 3; i++) {
		send_request(&client, "confirm", 0);
		control_spin(&fixture->bench, 10);
		assert_int_equal(receive_count(&client), i);
	}
	assert_int_equal(fixture->first, 1);
	assert_int_equal(fixture->gone, 0);
}

static void requests_of_a_kept_connection_are_answered_in_order(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close)
	struct fgt_channel client = stay(fixture);

	send_request(&client, "bye", 0);
	send_request(&client, "confirm", 0);
	control_spin(&fixture->bench, 20);
	assert_int_equal(fixture->later, 1);
	assert_non_null(fixture->parked);
	reply(fixture->parked, 77);
	control_spin(&fixture->bench, 20);
	assert_int_equal(receive_count(&client), 77);
	assert_int_equal(receive_count(&client), 2);
}

static void end_of_a_kept_connection_is_reported_once(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_channel client = stay(fixture);

	fgt_channel_close(&client);
	control_spin(&fixture->bench, 20);
	assert_int_equal(fixture->gone, 1);
	assert_int_equal(fixture->bench.control->kept_count, 0);
	client = stay(fixture);
	send_request(&client, "bye", 0);
	control_spin(&fixture->bench, 20);
	fgt_channel_close(&client);
	control_spin(&fixture->bench, 20);
	assert_null(fixture->parked);
	assert_int_equal(fixture->gone, 2);
}

static void half_a_request_of_a_kept_connection_times_out(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel client = stay(fixture);

	assert_int_equal(fixture->bench.control->kept_count, 1);
	assert_int_equal(send(client.fd, "\0\0", 2, MSG_NOSIGNAL), 2);
	control_spin(&fixture->bench, CONTROL_TIMEOUT_MS * 2);
	assert_int_equal(fixture->bench.control->kept_count, 0);
	assert_int_equal(fixture->gone, 1);
}

static void malformed_request_ends_a_kept_connection(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close)
	struct fgt_channel client = stay(fixture);
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;

	/* A map in which a key comes twice. */
	assert_int_equal(fgt_builder_new_request("confirm", &request), 0);
	fgt_builder_int(request, "v", 1);
	assert_int_equal(fgt_channel_send(&client, request, NULL, 0, FAR_NS),
			 0);
	control_spin(&fixture->bench, 20);
	assert_int_equal(receive_count(&client), -EBADMSG);
	assert_int_equal(fixture->later, 0);
	assert_int_equal(fixture->gone, 1);
}

static void many_kept_connections_leave_room_for_others(void **state)
{
	enum {
		COUNT = FGT_CONTROL_CLIENTS_MAX + 20
	};
	struct fixture *fixture = *state;
	struct fgt_channel kept[COUNT];
	FGT_AUTO(fgt_channel_close) struct fgt_channel other = { .fd = -1 };

	for (int i = 0; i < COUNT; i++)
		kept[i] = stay(fixture);
	assert_int_equal(fixture->bench.control->kept_count, COUNT);
	other = connect_client(fixture);
	send_request(&other, "targets", 0);
	control_spin(&fixture->bench, 10);
	assert_int_equal(receive_count(&other), 0);
	for (int i = 0; i < COUNT; i++)
		fgt_channel_close(&kept[i]);
	control_spin(&fixture->bench, 50);
	assert_int_equal(fixture->gone, COUNT);
	assert_int_equal(fixture->refused, 1); /* the other one */
}

static void waiting_connections_leave_room_for_others(void **state)
{
	enum {
		COUNT = FGT_CONTROL_KEPT_PER_USER
	};
	struct fixture *fixture = *state;
	struct fgt_channel waiting[COUNT];
	FGT_AUTO(fgt_channel_close) struct fgt_channel other = { .fd = -1 };

	for (int i = 0; i < COUNT; i++) {
		waiting[i] = connect_client(fixture);
		send_request(&waiting[i], "attach", 0);
		control_spin(&fixture->bench, 1);
	}
	assert_int_equal(fixture->bench.control->kept_count, COUNT);
	assert_int_equal(fgt_control_count(fixture->bench.control), 0);
	other = connect_client(fixture);
	send_request(&other, "targets", 0);
	control_spin(&fixture->bench, 10);
	assert_int_equal(receive_count(&other), 0);
	assert_int_equal(fixture->gone, 0);
	for (int i = 0; i < COUNT; i++)
		fgt_channel_close(&waiting[i]);
	control_spin(&fixture->bench, 50);
	assert_int_equal(fixture->gone, COUNT);
	assert_int_equal(fixture->bench.control->kept_count, 0);
}

static void kept_connections_beyond_the_limit_are_refused(void **state)
{
	enum {
		COUNT = FGT_CONTROL_KEPT_MAX + 1
	};
	struct fixture *fixture = *state;
	struct fgt_channel kept[COUNT];
	int limit = geteuid() == 0 ? FGT_CONTROL_KEPT_MAX
				   : FGT_CONTROL_KEPT_PER_USER;

	for (int i = 0; i < limit; i++) {
		kept[i] = connect_client(fixture);
		send_request(&kept[i], "slice", 0);
		control_spin(&fixture->bench, 1);
		assert_int_equal(receive_count(&kept[i]), 0);
	}
	assert_int_equal(fixture->refused, 0);
	kept[limit] = connect_client(fixture);
	send_request(&kept[limit], "slice", 0);
	control_spin(&fixture->bench, 10);
	assert_int_equal(fixture->refused, 1);
	for (int i = 0; i <= limit; i++)
		fgt_channel_close(&kept[i]);
	control_spin(&fixture->bench, 50);
}

static int sealed_memory(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static uint64_t inode_of(int fd)
{
	struct stat status;

	assert_int_equal(fstat(fd, &status), 0);
	return status.st_ino;
}

/* One request of that verb, which passes descriptors. */
static void pass_with(struct fixture *fixture, const char *verb, const int *fds,
		      unsigned int count)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	struct fgt_channel channel = connect_client(fixture);

	assert_int_equal(fgt_builder_new_request(verb, &request), 0);
	fgt_builder_string(request, "mode", "agent");
	assert_int_equal(
		fgt_channel_send(&channel, request, fds, count, FAR_NS), 0);
	control_spin(&fixture->bench, 20);
	fgt_channel_close(&channel);
	control_spin(&fixture->bench, 10);
}

static void pass(struct fixture *fixture, const int *fds, unsigned int count)
{
	pass_with(fixture, "register", fds, count);
}

static void sealed_memory_arrives_in_order(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int first = sealed_memory();
	FGT_AUTO(fgt_fd_close) int second = sealed_memory();
	size_t before = control_count_descriptors();

	pass(fixture, (int[]){ first, second }, 2);
	assert_int_equal(fixture->first, 1);
	assert_true(fixture->inodes[0] == inode_of(first));
	assert_true(fixture->inodes[1] == inode_of(second));
	assert_int_equal(control_count_descriptors(), before);
}

static void other_descriptors_are_closed(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int sealed = sealed_memory();
	FGT_AUTO(fgt_fd_close)
	int open_to_all = memfd_create("test", MFD_CLOEXEC);
	FGT_AUTO(fgt_fd_close) int device = open("/dev/zero", O_RDONLY);
	size_t before = control_count_descriptors();

	pass(fixture, (int[]){ open_to_all, device }, 2);
	assert_true(fixture->inodes[0] == 0);
	pass(fixture, (int[]){ device, sealed }, 2);
	assert_true(fixture->inodes[0] == inode_of(sealed));
	assert_true(fixture->inodes[1] == 0);
	assert_int_equal(control_count_descriptors(), before);
}

/* There is no room for them: the kernel drops them. */
static void other_requests_bring_no_descriptors(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int sealed = sealed_memory();
	size_t before = control_count_descriptors();

	pass_with(fixture, "regist", (int[]){ sealed }, 1);
	assert_true(fixture->inodes[0] == 0);
	pass_with(fixture, "status", (int[]){ sealed }, 1);
	assert_true(fixture->inodes[0] == 0);
	assert_int_equal(control_count_descriptors(), before);
}

static void large_request_of_a_kept_connection_is_read(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close)
	struct fgt_channel client = stay(fixture);
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	const size_t len = 3 << 20;
	FGT_AUTO(free) void *data = calloc(1, len);
	const uint8_t *bytes;
	size_t frame_len, sent = 0;

	assert_int_equal(fgt_builder_new_request("deliver", &request), 0);
	fgt_builder_string(request, "destination", "/nowhere");
	fgt_builder_bin(request, "data", data, len);
	assert_int_equal(fgt_builder_finish(request, &bytes, &frame_len), 0);
	while (sent < frame_len) {
		ssize_t n = send(client.fd, bytes + sent, frame_len - sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		assert_true(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		control_spin(&fixture->bench, 1);
	}
	control_spin(&fixture->bench, 20);
	assert_int_equal(fixture->later, 1);
	assert_int_equal(fixture->data_len, len);
}

#define KEPT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		KEPT_TEST(kept_connection_may_send_many_requests),
		KEPT_TEST(requests_of_a_kept_connection_are_answered_in_order),
		KEPT_TEST(end_of_a_kept_connection_is_reported_once),
		KEPT_TEST(half_a_request_of_a_kept_connection_times_out),
		KEPT_TEST(malformed_request_ends_a_kept_connection),
		KEPT_TEST(many_kept_connections_leave_room_for_others),
		KEPT_TEST(waiting_connections_leave_room_for_others),
		KEPT_TEST(kept_connections_beyond_the_limit_are_refused),
		KEPT_TEST(sealed_memory_arrives_in_order),
		KEPT_TEST(other_descriptors_are_closed),
		KEPT_TEST(other_requests_bring_no_descriptors),
		cmocka_unit_test_setup_teardown(
			large_request_of_a_kept_connection_is_read,
			set_up_patient, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
