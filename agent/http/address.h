/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the HTTP server listens: text to address, address to socket. Of libc
 * only: the configuration checks addresses with it.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_ADDRESS_H
#define FGT_AGENT_HTTP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

#define FGT_WEB_ADDRESS_TEXT 64 /* "[address]:port" with its NUL */

struct fgt_web_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	bool is_loopback;
};

/*
 * "127.0.0.1:7071", "[::1]:7071", "localhost:7071"; ":7071" is 127.0.0.1.
 * Addresses are numbers: no name is looked up. Port 0 is any free one. -EINVAL
 * with why, which begins with the text.
 */
int fgt_web_address_parse(const char *text, struct fgt_web_address *ret_address,
			  struct fgt_why *why);

/*
 * A socket that listens there, and the address that it got. -EADDRINUSE,
 * -EACCES, -EADDRNOTAVAIL and other errno of bind(2), with why.
 */
int fgt_web_address_listen(const struct fgt_web_address *address, int *ret_fd,
			   struct fgt_web_address *ret_bound,
			   struct fgt_why *why);

/* "127.0.0.1:7071", "[::1]:7071". */
void fgt_web_address_write(const struct fgt_web_address *address,
			   char ret_text[FGT_WEB_ADDRESS_TEXT]);
uint16_t fgt_web_address_port(const struct fgt_web_address *address);

#endif
