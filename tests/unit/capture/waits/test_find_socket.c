/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where sockets of this very program lead, as the kernel has it. Skipped where
 * BPF is not permitted.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/capture/who_ran/switches.h"

static int open_switches(void **state)
{
	const struct fgt_switch_provider *provider = FGT_SWITCHES_BUILT_IN;
	struct fgt_switches *switches = NULL;
	struct fgt_why why = { "built without" };

	if (!provider || provider->open(&switches, &why) < 0)
		print_message("no BPF here: %s\n", why.text);
	*state = switches;
	return 0;
}

static int close_switches(void **state)
{
	struct fgt_switches *switches = *state;

	if (switches)
		switches->provider->close(switches);
	return 0;
}

static struct fgt_switch_socket find_socket(struct fgt_switches *switches,
					    int fd, uint64_t inode_offset)
{
	struct fgt_switch_socket found = { .descriptor = fd };
	struct stat status;
	int r;

	assert_int_equal(fstat(fd, &status), 0);
	found.inode = status.st_ino + inode_offset;
	found.proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(found.proc_fd >= 0);
	r = switches->provider->find_socket(switches, &found);
	close(found.proc_fd);
	if (r == -ENOENT) /* the kernel refuses this part */
		skip();
	assert_int_equal(r, 0);
	return found;
}

static void a_tcp_socket_has_its_peer(void **state)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	struct fgt_switches *switches = *state;
	struct fgt_switch_socket found;
	int listener, client;

	if (!switches)
		skip();
	listener = socket(AF_INET, SOCK_STREAM, 0);
	client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(
		getsockname(listener, (struct sockaddr *)&address, &len), 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(client, (struct sockaddr *)&address, len), 0);
	found = find_socket(switches, listener, 0);
	assert_int_equal(found.family, AF_INET);
	assert_int_equal(found.state, TCP_LISTEN);
	assert_int_equal(found.local_port, ntohs(address.sin_port));
	found = find_socket(switches, client, 0);
	assert_int_equal(found.protocol, IPPROTO_TCP);
	assert_int_equal(found.state, TCP_ESTABLISHED);
	assert_int_equal(found.remote_port, ntohs(address.sin_port));
	assert_memory_equal(found.remote, &address.sin_addr, 4);
	/* Another one has that number by now. */
	assert_int_equal(find_socket(switches, client, 1).family, 0);
	close(client);
	close(listener);
}

static void a_unix_socket_has_the_name_of_its_server(void **state)
{
	const struct sockaddr_un address = { .sun_family = AF_UNIX,
					     .sun_path = "\0fgt_switches" };
	const socklen_t len = offsetof(struct sockaddr_un, sun_path) + 13;
	struct fgt_switches *switches = *state;
	struct fgt_switch_socket found;
	int pair[2], listener, client;

	if (!switches)
		skip();
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (const void *)&address, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(connect(client, (const void *)&address, len), 0);
	found = find_socket(switches, client, 0);
	assert_int_equal(found.family, AF_UNIX);
	assert_int_equal(found.name_len, 13);
	assert_memory_equal(found.name, address.sun_path, 13);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	found = find_socket(switches, pair[0], 0);
	assert_int_equal(found.name_len, 0);
	assert_true(found.has_peer);
	close(pair[0]);
	close(pair[1]);
	close(client);
	close(listener);
}

static void what_is_no_socket_has_no_peer(void **state)
{
	struct fgt_switches *switches = *state;
	struct fgt_switch_socket none = { .proc_fd = -1, .descriptor = -1 };
	int fds[2];

	if (!switches)
		skip();
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(find_socket(switches, fds[0], 0).family, 0);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(switches->provider->find_socket(switches, &none), 0);
	assert_int_equal(none.family, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tcp_socket_has_its_peer),
		cmocka_unit_test(a_unix_socket_has_the_name_of_its_server),
		cmocka_unit_test(what_is_no_socket_has_no_peer),
	};

	return cmocka_run_group_tests(tests, open_switches, close_switches);
}
