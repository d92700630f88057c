/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the HTTP server. Runs in any thread; must not ask a name
 * service.
 */
#include "agent/http/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "ringbuf/base/owner.h"

#define BACKLOG 64

static int refuse(const char *text, struct fgt_why *why)
{
	return fgt_why_set(why, -EINVAL,
			   "'%.60s' is no address to listen on: give "
			   "ADDRESS:PORT, such as 127.0.0.1:7071 or [::1]:7071",
			   text);
}

static bool read_port(const char *text, uint16_t *ret_port)
{
	size_t len = strlen(text);
	unsigned long port = 0;

	if (len < 1 || len > 5 || strspn(text, "0123456789") != len)
		return false;
	for (; *text; text++)
		port = port * 10 + (unsigned long)(*text - '0');
	if (port > UINT16_MAX)
		return false;
	*ret_port = (uint16_t)port;
	return true;
}

static bool is_loopback(const struct fgt_web_address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

static bool read_host(const char *host, struct fgt_web_address *address)
{
	size_t len = strlen(host);
	char inner[INET6_ADDRSTRLEN];

	if (len == 0 || strcmp(host, "localhost") == 0)
		host = "127.0.0.1";
	if (host[0] != '[') {
		address->any.sa_family = AF_INET;
		return inet_pton(AF_INET, host, &address->v4.sin_addr) == 1;
	}
	if (len < 3 || host[len - 1] != ']' || len - 2 >= sizeof(inner))
		return false;
	memcpy(inner, host + 1, len - 2);
	inner[len - 2] = '\0';
	address->any.sa_family = AF_INET6;
	return inet_pton(AF_INET6, inner, &address->v6.sin6_addr) == 1;
}

int fgt_web_address_parse(const char *text, struct fgt_web_address *ret_address,
			  struct fgt_why *why)
{
	const char *colon = strrchr(text, ':');
	struct fgt_web_address address = { .is_loopback = false };
	char host[FGT_WEB_ADDRESS_TEXT];
	uint16_t port;

	if (!colon || (size_t)(colon - text) >= sizeof(host) ||
	    !read_port(colon + 1, &port))
		return refuse(text, why);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	if (!read_host(host, &address))
		return refuse(text, why);
	if (address.any.sa_family == AF_INET)
		address.v4.sin_port = htons(port);
	else
		address.v6.sin6_port = htons(port);
	address.is_loopback = is_loopback(&address);
	*ret_address = address;
	return 0;
}

static socklen_t len_of(const struct fgt_web_address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4)
						 : sizeof(address->v6);
}

static int open_socket(const struct fgt_web_address *address, int *ret_fd,
		       struct fgt_web_address *ret_bound)
{
	FGT_AUTO(fgt_fd_close)
	int fd = socket(address->any.sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct fgt_web_address bound = *address;
	socklen_t len = len_of(address);
	const int on = 1;

	if (fd < 0)
		return -errno;
	/* Connections of a former process may still be ending. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->any.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on,
				 sizeof(on));
	if (bind(fd, &address->any, len) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, &bound.any, &len) < 0)
		return -errno;
	*ret_bound = bound;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

int fgt_web_address_listen(const struct fgt_web_address *address, int *ret_fd,
			   struct fgt_web_address *ret_bound,
			   struct fgt_why *why)
{
	char text[FGT_WEB_ADDRESS_TEXT];
	int r = open_socket(address, ret_fd, ret_bound);

	if (r == 0)
		return 0;
	fgt_web_address_write(address, text);
	return fgt_why_set(why, r, "cannot listen on %s: %s: %s", text,
			   strerror(-r),
			   r == -EADDRINUSE ? "end the program that does, or "
					      "choose another port"
			   : r == -EACCES   ? "choose a port above 1023"
					    : "choose an address of this "
					      "machine");
}

uint16_t fgt_web_address_port(const struct fgt_web_address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port
						       : address->v6.sin6_port);
}

void fgt_web_address_write(const struct fgt_web_address *address,
			   char ret_text[FGT_WEB_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "?";
	bool is_v4 = address->any.sa_family == AF_INET;

	if (is_v4)
		inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof(host));
	snprintf(ret_text, FGT_WEB_ADDRESS_TEXT, is_v4 ? "%s:%u" : "[%s]:%u",
		 host, fgt_web_address_port(address));
}
