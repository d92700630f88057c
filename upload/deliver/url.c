/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses URLs. Any thread; must not accept text that curl would read in another
 * way, nor print a part that may be a secret.
 */
#include "upload/deliver/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_url_text(const char *text)
{
	size_t len = strnlen(text, FGT_URL_MAX);

	if (!len || len == FGT_URL_MAX)
		return false;
	for (; *text; text++)
		if (*text <= 0x20 || *text >= 0x7f || *text == '\\')
			return false;
	return true;
}

static bool copy_part(char *to, size_t size, const char *from, size_t len)
{
	if (len >= size)
		return false;
	memcpy(to, from, len);
	to[len] = 0;
	return true;
}

static bool is_name(const char *host)
{
	size_t len = strspn(host, "0123456789-._abcdefghijklmnopqrstuvwxyz"
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return len && !host[len] && *host != '.' && *host != '-';
}

/* Checks the host and sets is_loopback; brackets only around IPv6. */
static bool check_host(struct fgt_url *url)
{
	char bare[INET6_ADDRSTRLEN];
	struct in6_addr v6;
	struct in_addr v4;
	size_t len = strlen(url->host);

	if (*url->host == '[') {
		if (len < 3 ||
		    !copy_part(bare, sizeof(bare), url->host + 1, len - 2) ||
		    inet_pton(AF_INET6, bare, &v6) != 1)
			return false;
		url->is_loopback = IN6_IS_ADDR_LOOPBACK(&v6);
		return true;
	}
	if (!is_name(url->host))
		return false;
	url->is_loopback = !strcasecmp(url->host, "localhost") ||
			   (inet_pton(AF_INET, url->host, &v4) == 1 &&
			    ntohl(v4.s_addr) >> 24 == 127);
	return true;
}

/* text[len], behind which no digit comes. */
static bool parse_port(const char *text, size_t len, unsigned int *ret_port)
{
	if (!len || len > 5 || strspn(text, "0123456789") != len)
		return false;
	*ret_port = (unsigned int)strtoul(text, NULL, 10);
	return *ret_port >= 1 && *ret_port <= 65535;
}

/* [userinfo@]host[:port] */
static int parse_authority(const char *text, size_t len, struct fgt_url *url,
			   struct fgt_why *why)
{
	const char *at = memrchr(text, '@', len);
	const char *host = at ? at + 1 : text;
	size_t left = len - (size_t)(host - text);
	const char *bracket = left && *host == '[' ? memchr(host, ']', left)
						   : NULL;
	const char *from = bracket ? bracket : host;
	const char *colon = memchr(from, ':', left - (size_t)(from - host));
	size_t host_len = colon ? (size_t)(colon - host) : left;

	url->has_userinfo = at != NULL;
	if (at && (memchr(text, '@', (size_t)(at - text)) ||
		   !copy_part(url->userinfo, sizeof(url->userinfo), text,
			      (size_t)(at - text))))
		return fgt_why_set(why, -EINVAL,
				   "the part before @ is malformed");
	if (bracket && bracket != host + host_len - 1)
		return fgt_why_set(why, -EINVAL, "the host is malformed");
	if (!copy_part(url->host, sizeof(url->host), host, host_len) ||
	    !check_host(url))
		return fgt_why_set(why, -EINVAL,
				   "the host is missing or malformed");
	if (colon && !parse_port(colon + 1, left - host_len - 1, &url->port))
		return fgt_why_set(why, -EINVAL,
				   "the port is not a number from 1 to 65535");
	return 0;
}

int fgt_url_parse(const char *text, struct fgt_url *ret_url,
		  struct fgt_why *why)
{
	struct fgt_url url = { .port = 0 };
	size_t scheme_len, authority_len;
	int error;

	if (!is_url_text(text))
		return fgt_why_set(why, -EINVAL,
				   "empty, longer than %d bytes, or with a "
				   "blank, control or non-ASCII character",
				   FGT_URL_MAX - 1);
	url.is_https = !strncasecmp(text, "https://", 8);
	if (!url.is_https && strncasecmp(text, "http://", 7) != 0)
		return fgt_why_set(why, -EINVAL,
				   "the scheme must be http:// or https://");
	scheme_len = url.is_https ? 8 : 7;
	text += scheme_len;
	authority_len = strcspn(text, "/?#");
	error = parse_authority(text, authority_len, &url, why);
	if (error)
		return error;
	url.path = text + authority_len;
	*ret_url = url;
	return 0;
}
