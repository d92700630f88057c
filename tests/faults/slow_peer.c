/* SPDX-License-Identifier: Apache-2.0 */
/* Another process answers late on a TCP connection. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
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

/* Until the service has ended, which alone has the other end of the pipe. */
static void serve(int listener, int service)
{
	struct pollfd waiting[] = { { listener, POLLIN, 0 },
				    { service, POLLIN, 0 } };

	while (poll(waiting, 2, -1) > 0 && !waiting[1].revents) {
		int fd = accept(listener, NULL, NULL);

		if (fork() == 0)
			answer_late(fd);
		close(fd);
	}
	_exit(0);
}

static void prepare(void)
{
	int ends[2], listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(g_address);

	g_address.sin_family = AF_INET;
	g_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (pipe2(ends, O_CLOEXEC) ||
	    bind(listener, (struct sockaddr *)&g_address, len) ||
	    listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&g_address, &len))
		abort();
	if (fork() == 0) {
		close(ends[1]);
		if (fork() == 0)
			serve(listener, ends[0]);
		_exit(0);
	}
	close(listener);
	close(ends[0]);
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
