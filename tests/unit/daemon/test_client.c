/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side against a socket that this test holds: connect errors,
 * deadlines, hostile replies. Runs in one thread: the kernel's buffers hold
 * what either side says.
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

#include "agent/protocol/client.h"

struct fixture {
	char directory[64];
	char path[80];
	int listener;
};

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

static void missing_agent_is_told(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_client *client = NULL;
	struct fgt_why why = { "" };
	char path[200];

	assert_int_equal(fgt_client_open(fixture->path, 1000, &client, &why),
			 -ENOENT);
	assert_non_null(strstr(why.text, "no agent listens on"));
	bind_to(fixture); /* but do not listen */
	assert_int_equal(fgt_client_open(fixture->path, 1000, &client, &why),
			 -ECONNREFUSED);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	assert_int_equal(fgt_client_open(path, 1000, &client, &why),
			 -ENAMETOOLONG);
	assert_null(client);
}

static int answer(struct fixture *fixture, const void *bytes, size_t len,
		  struct fgt_client **ret_client)
{
	struct fgt_why why;
	int fd;

	assert_int_equal(fgt_client_open(fixture->path, 1000, ret_client, &why),
			 0);
	fd = accept4(fixture->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
	return fd;
}

static void request_and_reply_pass(void **state)
{
	static const char ok[] = "\0\0\0\x0b\x83\xa1v\x01\xa2ok\xc3\xa1n\x07";
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_client_close) struct fgt_client *client = NULL;
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_why why;
	char got[64];
	int64_t n;

	bind_to(fixture);
	listen(fixture->listener, 4);
	fd = answer(fixture, ok, sizeof(ok) - 1, &client);
	assert_int_equal(fgt_client_request_new("status", &request), 0);
	assert_int_equal(fgt_client_call(client, request, &reply, &why), 0);
	assert_int_equal(fgt_message_get_int(reply, "n", &n), 0);
	assert_int_equal(n, 7);
	assert_int_equal(recv(fd, got, sizeof(got), 0), 24);
	assert_memory_equal(got, "\0\0\0\x14", 4);
}

static void errors_of_the_agent_are_mapped(void **state)
{
	/* {"v":2,"ok":false,"error":-61,"why":"gone"} then {"v":2,"ok":true} */
	static const char both[] = "\0\0\0\x19\x84\xa1v\x02\xa2ok\xc2"
				   "\xa5"
				   "error\xd0\xc3\xa3why\xa4gone"
				   "\0\0\0\x08\x82\xa1v\x02\xa2ok\xc3";
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_client_close) struct fgt_client *client = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *first = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *second = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_why why;

	bind_to(fixture);
	listen(fixture->listener, 4);
	fd = answer(fixture, both, sizeof(both) - 1, &client);
	assert_int_equal(fgt_client_receive(client, &first, &why), 0);
	assert_int_equal(fgt_client_check(first, &why), -ENODATA);
	assert_string_equal(why.text, "gone");
	assert_int_equal(fgt_client_receive(client, &second, &why), 0);
	assert_int_equal(fgt_client_check(second, &why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why.text, "version 2"));
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

	bind_to(fixture);
	listen(fixture->listener, 4);
	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		FGT_AUTO(fgt_client_close) struct fgt_client *client = NULL;
		FGT_AUTO(fgt_fd_close) int fd = -1;
		struct fgt_message *reply = NULL;
		struct fgt_why why;

		fd = answer(fixture, zoo[i].bytes, zoo[i].len, &client);
		fgt_client_set_timeout(client, 50);
		assert_int_equal(fgt_client_receive(client, &reply, &why),
				 zoo[i].error);
		assert_null(reply);
	}
}

static void closed_connection_is_told(void **state)
{
	struct fixture *fixture = *state;
	FGT_AUTO(fgt_client_close) struct fgt_client *client = NULL;
	struct fgt_message *reply = NULL;
	struct fgt_why why;

	bind_to(fixture);
	listen(fixture->listener, 4);
	close(answer(fixture, "\0\0", 2, &client));
	assert_int_equal(fgt_client_receive(client, &reply, &why), -ECONNRESET);
	assert_non_null(strstr(why.text, "closed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(missing_agent_is_told, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(request_and_reply_pass, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(errors_of_the_agent_are_mapped,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(hostile_replies_are_refused,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(closed_connection_is_told,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
