/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which requests are answered at all: the one place that looks at Host,
 * Origin, Sec-Fetch-Site, Authorization and the framing of a request.
 *
 * Every program of this machine reaches the loopback address, and so does every
 * web page that a browser on it shows: the name by which the server was
 * called, the page that calls, and a token are checked (faults H2 to H6, H13).
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_AGENT_HTTP_GUARD_H
#define FGT_AGENT_HTTP_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

#define FGT_WEB_TOKEN_LEN 32 /* hex digits: 128 bits */
#define FGT_WEB_NAMES_MAX 8
#define FGT_WEB_NAME_LEN  255

/* Plain bytes: it travels to the server's process as it is. */
struct fgt_web_guard {
	char token[FGT_WEB_TOKEN_LEN + 1]; /* "": none is needed */
	uint16_t port;
	uint8_t is_remote; /* listens on another address than loopback */
	uint8_t name_count;
	/* Further names by which clients may call the server. */
	char names[FGT_WEB_NAMES_MAX][FGT_WEB_NAME_LEN + 1];
};

/* Of a request; NULL: not there. */
struct fgt_web_headers {
	const char *method, *version;
	const char *host, *origin, *fetch_site, *authorization;
	const char *transfer_encoding, *content_length;
	unsigned int host_count;
	bool has_upgrade;
};

/*
 * All but the token. 0: answer it; else the status, 400, 403, 405 or 505, with
 * why.
 */
unsigned int fgt_web_guard_check(const struct fgt_web_guard *guard,
				 const struct fgt_web_headers *headers,
				 struct fgt_why *why);

/* Is the token that came right? parameter: of the query, or NULL. Takes the
 * same time for all wrong ones. */
bool fgt_web_guard_knows(const struct fgt_web_guard *guard,
			 const struct fgt_web_headers *headers,
			 const char *parameter);

#endif
