/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the control socket, with real sockets in a new
 * directory. Runs in one thread: clients send, then the loop runs for some ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/protocol/builder.h"
#include "agent/protocol/channel.h"
#include "agent/protocol/message.h"
#include "tests/unit/daemon/control_kit.h"

#define FAR_NS (fgt_loop_now() + UINT64_C(2000000000))

#define BIG_BYTES (8 * 1024 * 1024)

struct fixture {
	struct control_bench bench;
	int requests, gone;
	struct fgt_control_client *parked;
	bool is_poor; /* replies without memory */
};

static void client_gone(void *context)
{
	struct fixture *fixture = context;

	fixture->gone++;
	fixture->parked = NULL;
}

/* A reply that no memory is left to copy. */
static void reply_poorly(struct fgt_control_client *client,
			 struct fgt_builder *builder)
{
	struct rlimit before, low;

	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	low = before;
	low.rlim_cur = BIG_BYTES;
	assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
	fgt_control_reply(client, builder);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

/* attach waits, status is answered with 8 MiB, targets with its own name. */
static void handle(void *context, struct fgt_control_client *client,
		   const struct fgt_request *request)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(free) void *big = calloc(1, BIG_BYTES);
	struct fixture *fixture = context;

	fixture->requests++;
	if (request->verb == FGT_REQUEST_ATTACH) {
		fixture->parked = client;
		fgt_control_park(client, client_gone, fixture);
		return;
	}
	assert_int_equal(fgt_builder_new_reply(&builder), 0);
	fgt_builder_string(builder, "name", "targets");
	fgt_builder_uint(builder, "uid", fgt_control_peer(client)->uid);
	if (request->verb == FGT_REQUEST_STATUS)
		fgt_builder_bin(builder, "data", big, BIG_BYTES);
	if (fixture->is_poor)
		reply_poorly(client, builder);
	else
		fgt_control_reply(client, builder);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	control_bench_open(&fixture->bench,
			   (struct fgt_control_options){ .handle = handle,
							 .context = fixture });
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	control_bench_close(&fixture->bench);
	free(fixture);
	return 0;
}

static int connect_raw(struct fixture *fixture)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, fixture->bench.path);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (void *)&address, sizeof(address)), 0);
	return fd;
}

static struct fgt_channel ask(struct fixture *fixture, const char *verb)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	struct fgt_channel channel = { .fd = -1 };

	assert_int_equal(
		fgt_channel_open(fixture->bench.path, false, FAR_NS, &channel),
		0);
	assert_int_equal(fgt_builder_new_request(verb, &request), 0);
	assert_int_equal(fgt_channel_send(&channel, request, NULL, 0, FAR_NS),
			 0);
	return channel;
}

static void assert_answered(const struct fgt_channel *channel, const char *verb)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	const char *name;

	assert_int_equal(
		fgt_channel_receive_reply(channel, FAR_NS, &reply, NULL), 0);
	assert_int_equal(fgt_message_get_string(reply, "name", &name), 0);
	assert_string_equal(name, verb);
}

/* The error that a raw connection receives; its end must follow. */
static int received_error(int fd)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	uint8_t bytes[1000];
	struct fgt_why why;
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	assert_true(n > 4);
	assert_int_equal(fgt_message_decode(bytes + 4, (size_t)n - 4, &reply),
			 0);
	return fgt_message_check_reply(reply, &why);
}

static void request_gets_a_reply_and_names_its_peer(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel client = { .fd = -1 };
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	uint64_t uid;

	client = ask(fixture, "targets");
	control_spin(&fixture->bench, 20);
	assert_int_equal(fgt_channel_receive(&client, FAR_NS, &reply), 0);
	assert_int_equal(fgt_message_get_uint(reply, "uid", &uid), 0);
	assert_int_equal(uid, geteuid());
	assert_int_equal(fgt_control_count(fixture->bench.control), 0);
}

static void request_sent_byte_by_byte_gets_a_reply(void **state)
{
	static const char frame[] =
		"\0\0\0\x11\x82\xa1v\x02\xa4verb\xa7targets";
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int fd = connect_raw(fixture);
	char got[100];

	for (size_t i = 0; i < sizeof(frame) - 1; i++) {
		assert_int_equal(fixture->requests, 0);
		assert_int_equal(send(fd, frame + i, 1, MSG_NOSIGNAL), 1);
		control_spin(&fixture->bench, 1);
	}
	control_spin(&fixture->bench, 5);
	assert_int_equal(fixture->requests, 1);
	assert_true(recv(fd, got, sizeof(got), MSG_DONTWAIT) > 4);
}

static void malformed_frame_gets_an_error_and_ends_the_connection(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int error;
	} zoo[] = {
		{ "\0\0\0\0", 4, -EMSGSIZE },
		{ "\0\x10\0\1", 4, -EMSGSIZE },
		{ "\xff\xff\xff\xff", 4, -EMSGSIZE },
		{ "\0\0\0\5\xdd\5\xf5\xe1\0", 9, -EBADMSG },
		{ "\0\0\0\1\xc1", 5, -EBADMSG },
		{ "\0\0\0\1\x01", 5, -EBADMSG },
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		FGT_AUTO(fgt_fd_close) int fd = connect_raw(fixture);
		char byte;

		assert_int_equal(
			send(fd, zoo[i].bytes, zoo[i].len, MSG_NOSIGNAL),
			zoo[i].len);
		control_spin(&fixture->bench, 5);
		assert_int_equal(received_error(fd), zoo[i].error);
		assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
	}
	assert_int_equal(fixture->requests, 0);
	assert_int_equal(fgt_control_count(fixture->bench.control), 0);
}

static void unfinished_request_times_out(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int silent = connect_raw(fixture);
	FGT_AUTO(fgt_fd_close) int half = connect_raw(fixture);

	assert_int_equal(send(half, "\0\0\1", 3, MSG_NOSIGNAL), 3);
	control_spin(&fixture->bench, 30);
	assert_int_equal(fgt_control_count(fixture->bench.control), 2);
	control_spin(&fixture->bench, CONTROL_TIMEOUT_MS + 100);
	assert_int_equal(received_error(half), -ETIMEDOUT);
	assert_int_equal(received_error(silent), -ETIMEDOUT);
	assert_int_equal(fgt_control_count(fixture->bench.control), 0);
}

static void client_that_never_reads_is_cut(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel never = { .fd = -1 };
	FGT_AUTO(fgt_channel_close) struct fgt_channel other = { .fd = -1 };

	never = ask(fixture, "status");
	control_spin(&fixture->bench, 30);
	assert_int_equal(fgt_control_count(fixture->bench.control), 1);
	other = ask(fixture, "targets");
	control_spin(&fixture->bench, 20);
	assert_answered(&other, "targets");
	control_spin(&fixture->bench, CONTROL_TIMEOUT_MS + 100);
	assert_int_equal(fgt_control_count(fixture->bench.control), 0);
}

static void new_client_replaces_the_oldest_silent_one(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel client = { .fd = -1 };
	enum {
		COUNT = FGT_CONTROL_CLIENTS_MAX + FGT_CONTROL_YOUNG_MAX
	};
	int silent[COUNT];

	for (size_t i = 0; i < COUNT; i++) {
		silent[i] = connect_raw(fixture);
		if (i % 16 == 15) /* the backlog is as long as the limit */
			control_spin(&fixture->bench, 2);
	}
	client = ask(fixture, "targets");
	control_spin(&fixture->bench, 20);
	assert_answered(&client, "targets");
	/* The very first one made room. */
	assert_int_equal(received_error(silent[0]), -EBUSY);
	for (size_t i = 0; i < COUNT; i++)
		close(silent[i]);
	control_spin(&fixture->bench, 20);
	assert_int_equal(fgt_control_count(fixture->bench.control), 0);
}

static void hang_up_of_a_parked_client_calls_gone(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_channel goes = ask(fixture, "attach");
	FGT_AUTO(fgt_channel_close) struct fgt_channel stays = { .fd = -1 };
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	struct fgt_why why;

	control_spin(&fixture->bench, 5);
	fgt_channel_close(&goes);
	control_spin(&fixture->bench, 5);
	assert_int_equal(fixture->gone, 1);
	stays = ask(fixture, "attach");
	/* Longer than a request or a reply may take. */
	control_spin(&fixture->bench, CONTROL_TIMEOUT_MS * 2);
	assert_int_equal(fixture->gone, 1);
	fgt_control_fail(fixture->parked, -ENODATA, "nothing");
	assert_int_equal(fgt_channel_receive(&stays, FAR_NS, &reply), 0);
	assert_int_equal(fgt_message_check_reply(reply, &why), -ENODATA);
	assert_string_equal(why.text, "nothing");
}

static void passed_descriptors_are_dropped(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int fd = connect_raw(fixture);
	FGT_AUTO(fgt_fd_close) int pipe_read = -1;
	union {
		char bytes[CMSG_SPACE(20 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec one = { .iov_base = (char[1]){ 0 }, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &one,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int ends[2], passed[20];
	size_t before;
	char byte;

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	pipe_read = ends[0];
	for (int i = 0; i < 20; i++)
		passed[i] = ends[1];
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(passed));
	memcpy(CMSG_DATA(header), passed, sizeof(passed));
	control_spin(&fixture->bench, 5);
	before = control_count_descriptors();
	assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), 1);
	close(ends[1]);
	control_spin(&fixture->bench, 5);
	/* Nor has the daemon its connection any more. */
	assert_int_equal(control_count_descriptors(), before - 2);
	/* No process holds the write end any more. */
	assert_int_equal(read(pipe_read, &byte, 1), 0);
}

/* Fault T6. */
static void without_descriptors_clients_are_sent_away(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int fd = connect_raw(fixture);
	FGT_AUTO(fgt_channel_close) struct fgt_channel later = { .fd = -1 };
	struct rlimit old, low;
	int taken[40];
	int count = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 40;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	while ((taken[count] = dup(fd)) >= 0)
		count++;
	control_spin(&fixture->bench, 20);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	while (count > 0)
		close(taken[--count]);
	assert_int_equal(received_error(fd), -EBUSY);
	later = ask(fixture, "targets");
	control_spin(&fixture->bench, 200); /* it rests for 100 ms */
	assert_answered(&later, "targets");
}

static void leaving_sends_away_clients_without_a_request(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_fd_close) int fd = connect_raw(fixture);
	FGT_AUTO(fgt_channel_close) struct fgt_channel parked = { .fd = -1 };

	parked = ask(fixture, "attach");
	control_spin(&fixture->bench, 10);
	fgt_control_leave(fixture->bench.control);
	assert_int_equal(received_error(fd), -ESHUTDOWN);
	assert_int_equal(fgt_control_count(fixture->bench.control), 1);
}

static void reply_without_memory_is_an_error(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel client = { .fd = -1 };
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* their allocators end the process */
#endif
	fixture->is_poor = true;
	client = ask(fixture, "status");
	control_spin(&fixture->bench, 10);
	assert_int_equal(
		fgt_channel_receive_reply(&client, FAR_NS, &reply, NULL),
		-ENOMEM);
}

#define CONTROL_TEST(name)                                                     \
	cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONTROL_TEST(request_gets_a_reply_and_names_its_peer),
		CONTROL_TEST(request_sent_byte_by_byte_gets_a_reply),
		CONTROL_TEST(
			malformed_frame_gets_an_error_and_ends_the_connection),
		CONTROL_TEST(unfinished_request_times_out),
		CONTROL_TEST(client_that_never_reads_is_cut),
		CONTROL_TEST(new_client_replaces_the_oldest_silent_one),
		CONTROL_TEST(hang_up_of_a_parked_client_calls_gone),
		CONTROL_TEST(passed_descriptors_are_dropped),
		CONTROL_TEST(without_descriptors_clients_are_sent_away),
		CONTROL_TEST(leaving_sends_away_clients_without_a_request),
		CONTROL_TEST(reply_without_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
