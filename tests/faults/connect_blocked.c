/* SPDX-License-Identifier: Apache-2.0 */
/* A server accepts no connection any more. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service.h"

static struct sockaddr_in g_address;

static void prepare(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(g_address);

	g_address.sin_family = AF_INET;
	g_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&g_address, len) ||
	    listen(listener, 0) ||
	    getsockname(listener, (struct sockaddr *)&g_address, &len))
		abort();
}

static STEP void open_session(void)
{
	const struct timeval most = { 0, 300000 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	if (connect(fd, (struct sockaddr *)&g_address, sizeof(g_address)))
		close(fd);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = open_session };

	return run_service(&fault, argc, argv);
}
