/* SPDX-License-Identifier: Apache-2.0 */
#include "ringbuf/base/fd_message.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
	int fd[2];
};

static int set_up(void **state)
{
	static struct pair pair;

	*state = &pair;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.fd);
}

static int tear_down(void **state)
{
	struct pair *pair = *state;

	close(pair->fd[0]);
	close(pair->fd[1]);
	return 0;
}

static ssize_t send_text(const struct pair *pair, const char *text,
			 const int *fds, size_t fd_count)
{
	/* In two parts, which become one message. */
	const struct iovec parts[] = {
		{ (void *)(uintptr_t)text, 1 },
		{ (void *)(uintptr_t)(text + 1), strlen(text) - 1 },
	};

	return fgt_fd_message_send(pair->fd[0], parts, 2, fds, fd_count,
				   MSG_DONTWAIT);
}

static int count_open(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static bool is_same_file(int a, int b)
{
	struct stat of_a, of_b;

	return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 &&
	       of_a.st_ino == of_b.st_ino && of_a.st_dev == of_b.st_dev;
}

static void message_brings_bytes_and_descriptors_in_order(void **state)
{
	const struct pair *pair = *state;
	int sent[2] = { open("/dev/null", O_RDONLY), open("/", O_RDONLY) };
	char text[16];
	const struct iovec part = { text, sizeof(text) };
	int fds[3];

	assert_int_equal(send_text(pair, "hello", sent, 2), 5);
	assert_int_equal(
		fgt_fd_message_receive(pair->fd[1], &part, 1, fds, 3, 0), 5);
	assert_memory_equal(text, "hello", 5);
	assert_true(is_same_file(fds[0], sent[0]));
	assert_true(is_same_file(fds[1], sent[1]));
	assert_int_equal(fds[2], -1);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	for (int i = 0; i < 2; i++) {
		close(sent[i]);
		close(fds[i]);
	}
}

static void descriptors_beyond_the_room_are_not_left_open(void **state)
{
	const struct pair *pair = *state;
	int sent[4] = { 0, 1, 2, 0 };
	char text[16];
	const struct iovec part = { text, sizeof(text) };

	for (size_t room = 0; room <= 4; room++) {
		const int before = count_open();
		int fds[4];

		assert_int_equal(send_text(pair, "many", sent, 4), 4);
		assert_int_equal(fgt_fd_message_receive(pair->fd[1], &part, 1,
							fds, room, 0),
				 4);
		assert_int_equal(count_open(), before + (int)room);
		for (size_t i = 0; i < room; i++)
			assert_int_equal(close(fds[i]), 0);
	}
}

static void message_without_descriptors_gives_none(void **state)
{
	const struct pair *pair = *state;
	char text[16];
	const struct iovec part = { text, sizeof(text) };
	int fd = 77;

	assert_int_equal(send_text(pair, "bare", NULL, 0), 4);
	assert_int_equal(
		fgt_fd_message_receive(pair->fd[1], &part, 1, &fd, 1, 0), 4);
	assert_int_equal(fd, -1);
}

static void errors_are_those_of_the_socket(void **state)
{
	struct pair *pair = *state;
	const int five[FGT_FD_MESSAGE_MAX + 1] = { 0 };
	char text[16];
	const struct iovec part = { text, sizeof(text) };
	int fd = 77;

	assert_int_equal(send_text(pair, "more", five, FGT_FD_MESSAGE_MAX + 1),
			 -EINVAL);
	assert_int_equal(fgt_fd_message_receive(pair->fd[1], &part, 1, &fd, 1,
						MSG_DONTWAIT),
			 -EAGAIN);
	assert_int_equal(fd, -1);
	shutdown(pair->fd[1], SHUT_RDWR);
	assert_int_equal(send_text(pair, "late", NULL, 0), -EPIPE);
	assert_int_equal(
		fgt_fd_message_receive(pair->fd[1], &part, 1, &fd, 1, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			message_brings_bytes_and_descriptors_in_order, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			descriptors_beyond_the_room_are_not_left_open, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			message_without_descriptors_gives_none, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(errors_are_those_of_the_socket,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
