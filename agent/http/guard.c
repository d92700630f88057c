/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of requests. Runs in the thread of a connection; must not put a token
 * into a message.
 */
#include "agent/http/guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HTTP_PORT 80 /* where Host has none */

static unsigned int refuse(struct fgt_why *why, unsigned int status,
			   const char *text)
{
	(void)fgt_why_set(why, 0, "%s", text);
	return status;
}

/* ---- Host ---------------------------------------------------------------- */

/* "name:80", "[::1]:80" → its name without brackets and its port. */
static bool split_host(const char *host, char ret_name[FGT_WEB_NAME_LEN + 1],
		       unsigned int *ret_port)
{
	bool has_brackets = host[0] == '[';
	const char *end = has_brackets ? strchr(host, ']') : strchr(host, ':');
	const char *name = host + has_brackets;
	size_t len = end ? (size_t)(end - name) : strlen(name);
	const char *rest = end ? end + has_brackets : name + len;

	if ((has_brackets && !end) || len == 0 || len > FGT_WEB_NAME_LEN)
		return false;
	*ret_port = HTTP_PORT;
	if (*rest) {
		size_t digits = strspn(rest + 1, "0123456789");

		if (*rest != ':' || digits < 1 || digits > 5 ||
		    rest[1 + digits])
			return false;
		*ret_port = (unsigned int)strtoul(rest + 1, NULL, 10);
	}
	memcpy(ret_name, name, len);
	ret_name[len] = '\0';
	return true;
}

/* A number is no name, for which a name server of an attacker could answer. */
static bool is_own_number(const struct fgt_web_guard *guard, const char *name)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, name, &v4) == 1)
		return guard->is_remote || ntohl(v4.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, name, &v6) == 1)
		return guard->is_remote || IN6_IS_ADDR_LOOPBACK(&v6);
	return strcasecmp(name, "localhost") == 0;
}

static bool is_host_known(const struct fgt_web_guard *guard, const char *host)
{
	char name[FGT_WEB_NAME_LEN + 1];
	unsigned int port;

	if (!split_host(host, name, &port))
		return false;
	for (unsigned int i = 0; i < guard->name_count && i < FGT_WEB_NAMES_MAX;
	     i++)
		if (strcasecmp(name, guard->names[i]) == 0)
			return true;
	return port == guard->port && is_own_number(guard, name);
}

/* ---- Origin -------------------------------------------------------------- */

/* The page that calls is of this server. */
static bool is_same_origin(const struct fgt_web_headers *headers)
{
	static const char scheme[] = "http://";

	if (headers->fetch_site &&
	    strcmp(headers->fetch_site, "same-origin") != 0 &&
	    strcmp(headers->fetch_site, "none") != 0)
		return false;
	return !headers->origin ||
	       (strncasecmp(headers->origin, scheme, sizeof(scheme) - 1) == 0 &&
		strcasecmp(headers->origin + sizeof(scheme) - 1,
			   headers->host) == 0);
}

/* ---- All of them --------------------------------------------------------- */

static bool has_body(const struct fgt_web_headers *headers)
{
	return headers->transfer_encoding ||
	       (headers->content_length &&
		strcmp(headers->content_length, "0") != 0);
}

unsigned int fgt_web_guard_check(const struct fgt_web_guard *guard,
				 const struct fgt_web_headers *headers,
				 struct fgt_why *why)
{
	if (strcmp(headers->version, "HTTP/1.1") != 0 &&
	    strcmp(headers->version, "HTTP/1.0") != 0)
		return refuse(why, 505,
			      "unknown version of HTTP: use HTTP/1.1");
	if (strcmp(headers->method, "GET") != 0 &&
	    strcmp(headers->method, "HEAD") != 0)
		return refuse(why, 405, "method not allowed: use GET");
	if (has_body(headers))
		return refuse(why, 400,
			      "a request with a body: send GET without one");
	if (headers->host_count != 1 || !headers->host)
		return refuse(why, 400, "no Host header, or several: send one");
	if (!is_host_known(guard, headers->host))
		return refuse(why, 403,
			      "this Host is not allowed: use the address that "
			      "'fgtrace-agent status' prints, or add the name "
			      "to http.names");
	if (!is_same_origin(headers))
		return refuse(why, 403,
			      "a page of another origin called: open the "
			      "address yourself");
	return 0;
}

/* As long as the right one; the time must not depend on what is equal. */
static bool is_token(const char *right, const char *text)
{
	unsigned char difference = 0;

	if (strlen(text) != FGT_WEB_TOKEN_LEN)
		return false;
	for (unsigned int i = 0; i < FGT_WEB_TOKEN_LEN; i++)
		difference |= (unsigned char)(right[i] ^ text[i]);
	return difference == 0;
}

bool fgt_web_guard_knows(const struct fgt_web_guard *guard,
			 const struct fgt_web_headers *headers,
			 const char *parameter)
{
	static const char scheme[] = "Bearer ";
	const char *text = parameter;

	if (!guard->token[0])
		return true;
	if (headers->authorization) {
		if (strncasecmp(headers->authorization, scheme,
				sizeof(scheme) - 1) != 0)
			return false;
		text = headers->authorization + sizeof(scheme) - 1;
	}
	return text && is_token(guard->token, text);
}
