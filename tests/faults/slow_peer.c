/* SPDX-License-Identifier: Apache-2.0 */
/* Another process answers late on a TCP connection. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service.h"

static struct sockaddr_in g_address;

static void answer_late(int fd)
{
	char byte;

	while (read(fd, &byte, 1) == 1) {
		usleep(150000);
		if (write(fd, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static void serve(int listener)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fork() == 0)
			answer_late(fd);
		close(fd);
	}
}

static void prepare(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(g_address);

	g_address.sin_family = AF_INET;
	g_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&g_address, len) ||
	    listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&g_address, &len))
		abort();
	if (fork() == 0) {
		if (fork() == 0)
			serve(listener);
		_exit(0);
	}
	close(listener);
}

static STEP void ask_inventory(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char byte = 1;

	if (connect(fd, (struct sockaddr *)&g_address, sizeof(g_address)) ||
	    send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) < 0)
		abort();
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = ask_inventory };

	return run_service(&fault, argc, argv);
}
