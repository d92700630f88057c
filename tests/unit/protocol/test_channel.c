/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side against a socket that this test holds: connect errors,
 * deadlines, hostile replies. Runs in one thread: the kernel's buffers hold
 * what either side sends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/protocol/channel.h"
#include "agent/protocol/protocol.h"
#include "ringbuf/base/clock.h"

#define SECOND_NS UINT64_C(1000000000)
#define SOON_NS	  UINT64_C(50000000)

struct fixture {
	char directory[64];
	char path[80];
	int listener;
};

static uint64_t after(uint64_t ns)
{
	return fgt_clock_ns(CLOCK_MONOTONIC) + ns;
}

static void bind_to(struct fixture *fixture)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, fixture->path);
	fixture->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fixture->listener >= 0);
	assert_int_equal(
		bind(fixture->listener, (void *)&address, sizeof(address)), 0);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	strcpy(fixture->directory, "/tmp/fgt-client-XXXXXX");
	if (!mkdtemp(fixture->directory))
		return -errno;
	snprintf(fixture->path, sizeof(fixture->path), "%s/agent.sock",
		 fixture->directory);
	fixture->listener = -1;
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	fgt_fd_close(fixture->listener);
	unlink(fixture->path);
	rmdir(fixture->directory);
	free(fixture);
	return 0;
}

static void absent_agent_is_an_error_that_names_the_remedy(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_channel channel = { .fd = -1 };
	struct fgt_why why = { "" };
	char path[200];

	assert_int_equal(fgt_channel_open(fixture->path, false,
					  after(SECOND_NS), &channel),
			 -ENOENT);
	(void)fgt_channel_explain(-ENOENT, fixture->path, &why);
	assert_non_null(strstr(why.text, "no agent listens on"));
	assert_non_null(strstr(why.text, "--socket"));
	bind_to(fixture); /* but do not listen */
	assert_int_equal(fgt_channel_open(fixture->path, false,
					  after(SECOND_NS), &channel),
			 -ECONNREFUSED);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	assert_int_equal(
		fgt_channel_open(path, false, after(SECOND_NS), &channel),
		-ENAMETOOLONG);
	assert_int_equal(channel.fd, -1);
}

/* The agent's end of a new connection, on which it has sent bytes already. */
static int answer(struct fixture *fixture, const void *bytes, size_t len,
		  struct fgt_channel *ret_channel)
{
	int fd;

	assert_int_equal(fgt_channel_open(fixture->path, true, after(SECOND_NS),
					  ret_channel),
			 0);
	fd = accept4(fixture->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
	return fd;
}

static void listen_to(struct fixture *fixture)
{
	bind_to(fixture);
	assert_int_equal(listen(fixture->listener, 4), 0);
}

static void request_and_reply_pass(void **state)
{
	static const char ok[] = "\0\0\0\x0b\x83\xa1v\x02\xa2ok\xc3\xa1n\x07";
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_why why;
	char got[64];
	int64_t n;

	listen_to(fixture);
	fd = answer(fixture, ok, sizeof(ok) - 1, &channel);
	assert_int_equal(fgt_builder_new_request("status", &request), 0);
	assert_int_equal(fgt_channel_call(&channel, request, after(SECOND_NS),
					  &reply, &why),
			 0);
	assert_int_equal(fgt_message_get_int(reply, "n", &n), 0);
	assert_int_equal(n, 7);
	assert_int_equal(recv(fd, got, sizeof(got), 0), 24);
	assert_memory_equal(got, "\0\0\0\x14", 4);
}

static void error_of_the_agent_is_returned_with_its_reason(void **state)
{
	/* {"v":2,"ok":false,"error":-61,"why":"gone"} */
	static const char gone[] = "\0\0\0\x19\x84\xa1v\x02\xa2ok\xc2"
				   "\xa5"
				   "error\xd0\xc3\xa3why\xa4gone";
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_why why;

	listen_to(fixture);
	fd = answer(fixture, gone, sizeof(gone) - 1, &channel);
	assert_int_equal(fgt_channel_receive_reply(&channel, after(SECOND_NS),
						   &reply, &why),
			 -ENODATA);
	assert_string_equal(why.text, "gone");
	assert_non_null(reply);
}

static void hostile_replies_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int error;
	} zoo[] = {
		{ "\xff\xff\xff\xff", 4, -EBADMSG },
		{ "\0\0\0\0", 4, -EBADMSG },
		{ "\0\0\0\x05\xdd\x05\xf5\xe1\0", 9, -EBADMSG },
		{ "\0\0\0\x05\x81", 5, -ETIMEDOUT },
		{ "\0", 1, -ETIMEDOUT },
	};
	struct fixture *fixture = *state;

	listen_to(fixture);
	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		FGT_AUTO(fgt_channel_close)
		struct fgt_channel channel = { .fd = -1 };
		FGT_AUTO(fgt_fd_close) int fd = -1;
		struct fgt_message *reply = NULL;

		fd = answer(fixture, zoo[i].bytes, zoo[i].len, &channel);
		assert_int_equal(
			fgt_channel_receive(&channel, after(SOON_NS), &reply),
			zoo[i].error);
		assert_null(reply);
	}
}

static void closed_connection_is_an_error_of_the_reply(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	struct fgt_message *reply = NULL;
	struct fgt_why why = { "" };

	listen_to(fixture);
	close(answer(fixture, "\0\0", 2, &channel));
	assert_int_equal(fgt_builder_new_request("status", &request), 0);
	assert_int_equal(fgt_channel_call(&channel, request, after(SECOND_NS),
					  &reply, &why),
			 -ECONNRESET);
	assert_null(reply);
	assert_string_equal(why.text, "");
	(void)fgt_channel_explain(-ECONNRESET, fixture->path, &why);
	assert_non_null(strstr(why.text, "closed"));
}

/* ---- Files ------------------------------------------------------------- */

#define DATA(text)                                                             \
	"\0\0\0\x0a\x81\xa4"                                                   \
	"data\xc4\2" text
#define END(len)                                                               \
	"\0\0\0\x0b\x82\xa3"                                                   \
	"end\xc3\xa3len" len

static int receive_file(struct fixture *fixture, const char *bytes, size_t len,
			size_t max_bytes, struct fgt_why *why)
{
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_memory_sink memory;
	int r;

	fd = answer(fixture, bytes, len, &channel);
	fgt_memory_sink_init(&memory, max_bytes);
	why->text[0] = 0;
	r = fgt_channel_receive_file(&channel, &memory.sink, SOON_NS,
				     after(SECOND_NS), why);
	if (r == 0) {
		assert_int_equal(memory.len_bytes, 4);
		assert_memory_equal(memory.bytes, "abcd", 4);
	}
	fgt_memory_sink_done(&memory);
	return r;
}

static void file_is_complete_or_an_error(void **state)
{
#define WHOLE(text) text, sizeof(text) - 1
	static const struct {
		const char *bytes;
		size_t len, max_bytes;
		int error;
		bool is_explained;
	} zoo[] = {
		{ WHOLE(DATA("ab") DATA("cd") END("\4")), 100, 0, false },
		{ WHOLE(DATA("ab") DATA("cd") END("\5")), 100, -EBADMSG, true },
		{ WHOLE(DATA("ab")), 100, -ETIMEDOUT, false },
		{ WHOLE(DATA("ab") DATA("cd") END("\4")), 3, -EMSGSIZE, false },
		/* {"x":1}, then {"v":2,"ok":true} where data belongs */
		{ WHOLE(DATA("ab") "\0\0\0\4\x81\xa1x\1"), 100, -EBADMSG,
		  true },
		{ WHOLE(DATA("ab") "\0\0\0\x08\x82\xa1v\2\xa2ok\xc3"), 100,
		  -EBADMSG, true },
		/* {"v":2,"ok":false,"error":-12,"why":"x"} */
		{ WHOLE(DATA("ab") "\0\0\0\x15\x84\xa1v\2\xa2ok\xc2\xa5"
				   "error\xf4\xa3why\xa1x"),
		  100, -ENOMEM, true },
	};
#undef WHOLE
	struct fixture *fixture = *state;
	struct fgt_why why;

	listen_to(fixture);
	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		assert_int_equal(receive_file(fixture, zoo[i].bytes, zoo[i].len,
					      zoo[i].max_bytes, &why),
				 zoo[i].error);
		assert_int_equal(why.text[0] != 0, zoo[i].is_explained);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(absent_agent_is_an_error_that_names_the_remedy),
		TEST(request_and_reply_pass),
		TEST(error_of_the_agent_is_returned_with_its_reason),
		TEST(hostile_replies_are_refused),
		TEST(closed_connection_is_an_error_of_the_reply),
		TEST(file_is_complete_or_an_error),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
