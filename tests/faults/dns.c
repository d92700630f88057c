/* SPDX-License-Identifier: Apache-2.0 */
/* The name server does not answer. */
#include <arpa/inet.h>
#include <netdb.h>
#include <resolv.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "service.h"

static struct sockaddr_in g_server;

static void prepare(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(g_server);

	g_server.sin_family = AF_INET;
	g_server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&g_server, len) ||
	    getsockname(fd, (struct sockaddr *)&g_server, &len))
		abort();
}

static STEP void find_host(void)
{
	struct addrinfo *found = NULL;

	res_init();
	_res.nscount = 1;
	_res.nsaddr_list[0] = g_server;
	_res.retrans = 1;
	_res.retry = 1;
	if (getaddrinfo("inventory.example", "80", NULL, &found) == 0)
		freeaddrinfo(found);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = find_host };

	return run_service(&fault, argc, argv);
}
