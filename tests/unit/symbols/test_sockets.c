/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of this process, listed by the kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/symbols/sockets.h"
#include "ringbuf/base/owner.h"

#define SOCKETS 4

static struct fgt_ring_slice *slice_of(const char *const *texts, size_t count)
{
	struct fgt_ring_slice *slice = NULL;

	assert_int_equal(fgt_slice_new(&slice), 0);
	slice->waits = calloc(count, sizeof(*slice->waits));
	assert_non_null(slice->waits);
	slice->wait_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		slice->waits[i].kind = FGT_WAIT_DESCRIPTOR;
		assert_int_equal(fgt_strings_intern(&slice->strings, texts[i],
						    strlen(texts[i]),
						    &slice->waits[i].text),
				 0);
	}
	return slice;
}

/* What it is called; caller frees. */
static char *name_of(const int *sockets, size_t count, size_t which)
{
	char texts[SOCKETS][32];
	const char *pointers[SOCKETS];
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_fd_close) int proc_fd = -1;

	for (size_t i = 0; i < count; i++) {
		struct stat status;

		assert_int_equal(fstat(sockets[i], &status), 0);
		snprintf(texts[i], sizeof(texts[i]), "socket:[%llu]",
			 (unsigned long long)status.st_ino);
		pointers[i] = texts[i];
	}
	slice = slice_of(pointers, count);
	proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fgt_sockets_name(slice, proc_fd), 0);
	return strdup(fgt_slice_string(slice, slice->waits[which].object));
}

static int listen_at(int family, struct sockaddr_storage *ret_address)
{
	socklen_t len = sizeof(*ret_address);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)ret_address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)ret_address, &len),
			 0);
	return fd;
}

static int connect_to(const struct sockaddr_storage *address, socklen_t len)
{
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)address, len), 0);
	return fd;
}

/* Both ports are given by the kernel: which is smaller is not known. */
static bool is_name_of_end(const char *name, const char *host, unsigned int own,
			   unsigned int other)
{
	char to[96], from[96];

	if (strchr(host, ':'))
		snprintf(to, sizeof(to), "tcp to [%s]:%u", host, other);
	else
		snprintf(to, sizeof(to), "tcp to %s:%u", host, other);
	snprintf(from, sizeof(from), "tcp from %s at port %u", host, own);
	return strcmp(name, other <= own ? to : from) == 0;
}

static unsigned int port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	getsockname(fd, (struct sockaddr *)&address, &len);
	/* At the same place in both families. */
	return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static void check_tcp(int family, const char *host)
{
	struct sockaddr_storage address = { .ss_family = (sa_family_t)family };
	int sockets[SOCKETS];
	unsigned int ports[2];

	if (family == AF_INET)
		((struct sockaddr_in *)&address)->sin_addr.s_addr =
			htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
	sockets[0] = listen_at(family, &address);
	sockets[1] = connect_to(&address, sizeof(address));
	sockets[2] = accept(sockets[0], NULL, NULL);
	ports[0] = port_of(sockets[0]);
	ports[1] = port_of(sockets[1]);
	for (size_t i = 0; i < 3; i++) {
		char *name = name_of(sockets, 3, i), listens[32];

		snprintf(listens, sizeof(listens), "tcp port %u", ports[0]);
		if (i == 0)
			assert_string_equal(name, listens);
		else if (i == 1)
			assert_true(
				is_name_of_end(name, host, ports[1], ports[0]));
		else
			assert_true(
				is_name_of_end(name, host, ports[0], ports[1]));
		free(name);
	}
	for (size_t i = 0; i < 3; i++)
		close(sockets[i]);
}

static void ends_of_connections_are_named(void **state)
{
	(void)state;
	check_tcp(AF_INET, "127.0.0.1");
	check_tcp(AF_INET6, "::1");
}

static int bind_unix(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* Abstract: not in a file system. */
	memcpy(address.sun_path + 1, name, strlen(name));
	assert_int_equal(
		bind(fd, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				 strlen(name))),
		0);
	return fd;
}

/* A socket whose name is a line of the kernel's list that names another one. */
static int bind_line(int other)
{
	struct stat status;
	char line[108];

	assert_int_equal(fstat(other, &status), 0);
	snprintf(line, sizeof(line),
		 "%d\n0000000000000000: 00000002 00000000 00010000 0001 01 "
		 "%5llu /run/other",
		 getpid(), (unsigned long long)status.st_ino);
	return bind_unix(line);
}

static void expect_name(int socket, const char *name)
{
	char *found = name_of(&socket, 1, 0);

	assert_string_equal(found, name);
	free(found);
}

static void sockets_without_names_get_none_of_others(void **state)
{
	int pair[2], liars[2];
	const struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);

	(void)state;
	assert_true(netlink >= 0);
	assert_int_equal(bind(netlink, (const struct sockaddr *)&address,
			      sizeof(address)),
			 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	liars[0] = bind_line(pair[0]);
	liars[1] = bind_line(netlink);
	expect_name(pair[0], "unix socketpair");
	expect_name(netlink, "netlink");
	close(pair[0]);
	close(pair[1]);
	close(netlink);
	close(liars[0]);
	close(liars[1]);
}

/* None of them is in a list of the kernel but by the forged line. */
static void sockets_in_no_list_get_none_of_others(void **state)
{
	static const struct {
		int family, type;
	} kinds[] = { { AF_VSOCK, SOCK_STREAM },
		      { AF_ALG, SOCK_SEQPACKET },
		      { AF_INET, SOCK_RAW } };
	unsigned int tried = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		int fd = socket(kinds[i].family, kinds[i].type | SOCK_CLOEXEC,
				kinds[i].family == AF_INET ? IPPROTO_ICMP : 0);
		int liar;

		if (fd < 0)
			continue; /* not in this kernel, or not permitted */
		tried++;
		liar = bind_line(fd);
		expect_name(fd, "");
		close(liar);
		close(fd);
	}
	if (tried == 0)
		skip();
}

static void unix_sockets_are_named(void **state)
{
	char name[64], text[80];
	int sockets[2];

	(void)state;
	snprintf(name, sizeof(name), "fgt-sockets-%d\n", getpid());
	sockets[0] = bind_unix(name);
	sockets[1] = bind_line(sockets[0]);
	snprintf(text, sizeof(text), "unix @fgt-sockets-%d?", getpid());
	expect_name(sockets[0], text);
	close(sockets[0]);
	close(sockets[1]);
}

static void client_has_the_name_of_the_server(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(address);
	int server = bind_unix("fgt-sockets-peer"), accepted;
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(getsockname(server, (void *)&address, &len), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(connect(client, (void *)&address, len), 0);
	accepted = accept(server, NULL, NULL);
	assert_true(accepted >= 0);
	expect_name(client, "unix @fgt-sockets-peer");
	close(accepted);
	close(client);
	close(server);
}

static void others_keep_what_they_have(void **state)
{
	static const char *const texts[] = { "pipe:[1]", "/tmp/x", "socket:[]",
					     "socket:[1]" };
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = slice_of(texts, 4);
	FGT_AUTO(fgt_fd_close)
	int proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_int_equal(fgt_sockets_name(slice, proc_fd), 0);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(slice->waits[i].object, 0);
	assert_int_equal(fgt_sockets_name(slice, -1), 0);
}

/* Among other descriptors of a poll. */
static void sockets_of_polls_are_named(void **state)
{
	struct sockaddr_storage address = { .ss_family = AF_INET };
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_fd_close)
	int proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	FGT_AUTO(fgt_fd_close) int fd = listen_at(AF_INET, &address);
	char text[128], wanted[128];
	const char *texts[] = { text,
				"descriptors 3 (pipe), 4 (x socket:[7])" };
	struct stat status;

	(void)state;
	assert_int_equal(fstat(fd, &status), 0);
	snprintf(text, sizeof(text),
		 "descriptors 3 (pipe), 5 (socket:[%llu]), 6 (socket:[1])",
		 (unsigned long long)status.st_ino);
	snprintf(wanted, sizeof(wanted),
		 "descriptors 3 (pipe), 5 (tcp port %u), 6 (socket:[1])",
		 port_of(fd));
	slice = slice_of(texts, 2);
	slice->waits[0].kind = slice->waits[1].kind = FGT_WAIT_EVENTS;
	assert_int_equal(fgt_sockets_name(slice, proc_fd), 0);
	assert_string_equal(fgt_slice_string(slice, slice->waits[0].object),
			    wanted);
	assert_int_equal(slice->waits[1].object, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_of_connections_are_named),
		cmocka_unit_test(sockets_in_no_list_get_none_of_others),
		cmocka_unit_test(sockets_without_names_get_none_of_others),
		cmocka_unit_test(unix_sockets_are_named),
		cmocka_unit_test(client_has_the_name_of_the_server),
		cmocka_unit_test(others_keep_what_they_have),
		cmocka_unit_test(sockets_of_polls_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
