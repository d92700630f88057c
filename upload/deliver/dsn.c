/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentry DSNs. Any thread; must never put the key or the DSN into a message,
 * nor leave a copy of the file in memory.
 */
#include "upload/deliver/dsn.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upload/deliver/trusted_file.h"
#include "upload/deliver/url.h"

#define DSN_FILE_MAX	   4096
#define KEY_DIGITS	   32
#define PROJECT_DIGITS_MAX 20
#define COPY_IT		   "; copy it from the project's settings"

static bool is_public_key(const char *text, size_t len)
{
	return len == KEY_DIGITS &&
	       strspn(text, "0123456789abcdefABCDEF") == len;
}

/* It is written into a header between commas. */
static bool is_secret_key(const char *text)
{
	size_t len = strspn(text, "0123456789-_abcdefghijklmnopqrstuvwxyz"
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return !text[len] && len < sizeof(((struct fgt_dsn *)NULL)->secret_key);
}

/* key[:secret] */
static int parse_keys(const char *userinfo, struct fgt_dsn *dsn,
		      struct fgt_why *why)
{
	size_t key_len = strcspn(userinfo, ":");
	const char *secret = userinfo + key_len + (userinfo[key_len] == ':');

	if (!is_public_key(userinfo, key_len))
		return fgt_why_set(why, -EINVAL,
				   "DSN: the public key (before @) is not 32 "
				   "hexadecimal digits" COPY_IT);
	if (!is_secret_key(secret))
		return fgt_why_set(why, -EINVAL,
				   "DSN: the secret key (between : and @) is "
				   "malformed; new DSNs have none");
	memcpy(dsn->public_key, userinfo, key_len);
	dsn->public_key[key_len] = 0;
	snprintf(dsn->secret_key, sizeof(dsn->secret_key), "%s", secret);
	return 0;
}

/* Path before the project and the project's digits, both inside of path. */
static int split_path(const char *path, size_t *ret_prefix_len,
		      const char **ret_project, size_t *ret_project_len,
		      struct fgt_why *why)
{
	size_t len = strcspn(path, "?#");
	size_t digits = 0;

	while (len && path[len - 1] == '/')
		len--;
	while (digits < len && isdigit((unsigned char)path[len - digits - 1]))
		digits++;
	if (!digits || digits > PROJECT_DIGITS_MAX || digits == len ||
	    path[len - digits - 1] != '/')
		return fgt_why_set(why, -EINVAL,
				   "DSN: the project id (last part of the "
				   "path) is not a number" COPY_IT);
	*ret_project = path + len - digits;
	*ret_project_len = digits;
	*ret_prefix_len = len - digits - 1;
	return 0;
}

/* host[:port] */
static void format_host(const struct fgt_url *url, char *ret_host, size_t size)
{
	if (url->port)
		snprintf(ret_host, size, "%s:%u", url->host, url->port);
	else
		snprintf(ret_host, size, "%s", url->host);
}

static int compose(const struct fgt_url *url, struct fgt_dsn *dsn,
		   struct fgt_why *why)
{
	const char *scheme = url->is_https ? "https" : "http";
	const char *project;
	size_t project_len, prefix_len;
	char host[sizeof(url->host) + 12];
	int error =
		split_path(url->path, &prefix_len, &project, &project_len, why);
	int len;

	if (error)
		return error;
	format_host(url, host, sizeof(host));
	/* Each of the three texts is at most this long. */
	len = snprintf(dsn->url, sizeof(dsn->url),
		       "%s://%s%.*s/api/%.*s/envelope/", scheme, host,
		       (int)prefix_len, url->path, (int)project_len, project);
	if (len < 0 || (size_t)len + KEY_DIGITS >= sizeof(dsn->url))
		return fgt_why_set(why, -EINVAL, "DSN: too long" COPY_IT);
	snprintf(dsn->redacted, sizeof(dsn->redacted), "%s://***@%s%.*s/%.*s",
		 scheme, host, (int)prefix_len, url->path, (int)project_len,
		 project);
	snprintf(dsn->clean, sizeof(dsn->clean), "%s://%s@%s%.*s/%.*s", scheme,
		 dsn->public_key, host, (int)prefix_len, url->path,
		 (int)project_len, project);
	dsn->is_loopback = url->is_loopback;
	/* Messages show host and path. */
	if (strcasestr(dsn->redacted, dsn->public_key) ||
	    (*dsn->secret_key && strcasestr(url->path, dsn->secret_key)))
		return fgt_why_set(
			why, -EINVAL,
			"DSN: a key stands in its path or host" COPY_IT);
	return 0;
}

static int parse_trimmed(const char *text, bool is_http_allowed,
			 struct fgt_dsn *dsn, struct fgt_why *why)
{
	struct fgt_why part;
	struct fgt_url url;
	int error;

	if (!*text)
		return fgt_why_set(why, -EINVAL,
				   "DSN: empty; write the DSN of the project "
				   "into it");
	if (fgt_url_parse(text, &url, &part) < 0)
		return fgt_why_set(why, -EINVAL, "DSN: %s" COPY_IT, part.text);
	if (!url.is_https && !url.is_loopback && !is_http_allowed)
		error = fgt_why_set(why, -EINVAL,
				    "DSN: plain http to another machine; use "
				    "https, or set upload.allow_http = true");
	else
		error = parse_keys(url.has_userinfo ? url.userinfo : "", dsn,
				   why);
	if (!error)
		error = compose(&url, dsn, why);
	explicit_bzero(&url, sizeof(url));
	return error;
}

int fgt_dsn_parse(const char *text, bool is_http_allowed,
		  struct fgt_dsn *ret_dsn, struct fgt_why *why)
{
	static const char *const BLANKS = " \t\r\n\f\v";
	/* Not on the stack: a thread of a program may have a small one. */
	struct {
		char trimmed[DSN_FILE_MAX + 1];
		struct fgt_dsn dsn;
	} * room;
	size_t len;
	int error;

	text += strspn(text, BLANKS);
	len = strnlen(text, sizeof(room->trimmed));
	if (len == sizeof(room->trimmed))
		return fgt_why_set(why, -EINVAL, "DSN: too long" COPY_IT);
	while (len && strchr(BLANKS, text[len - 1]))
		len--;
	room = calloc(1, sizeof(*room));
	if (!room)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	memcpy(room->trimmed, text, len);
	error = parse_trimmed(room->trimmed, is_http_allowed, &room->dsn, why);
	if (!error)
		*ret_dsn = room->dsn;
	explicit_bzero(room, sizeof(*room));
	free(room);
	return error;
}

/* The first line, in place. */
static int parse_file(char *bytes, size_t len, const char *name,
		      bool is_http_allowed, struct fgt_dsn *ret_dsn,
		      struct fgt_why *why)
{
	char *newline = memchr(bytes, '\n', len);
	struct fgt_why part;
	int error;

	if (newline)
		len = (size_t)(newline - bytes);
	bytes[len] = 0;
	if (strlen(bytes) != len)
		return fgt_why_set(why, -EINVAL,
				   "%s: holds a NUL byte; write the DSN as "
				   "plain text",
				   name);
	error = fgt_dsn_parse(bytes, is_http_allowed, ret_dsn, &part);
	if (error)
		fgt_why_set(why, error, "%s: %s", name, part.text);
	return error;
}

int fgt_dsn_read_file(const char *path, bool is_http_allowed,
		      struct fgt_dsn *ret_dsn, struct fgt_why *why)
{
	static const struct fgt_trust trust = {
		.max_bytes = DSN_FILE_MAX,
		.max_text = "4 KiB; a DSN file holds one line",
		.refused_mode = 07,
		.mode_text = "every user can read the key; chmod 640 or 600",
	};
	char bytes[DSN_FILE_MAX + 1];
	size_t len;
	int error = fgt_trusted_file_read(path, &trust, bytes, &len, why);

	if (!error)
		error = parse_file(bytes, len, fgt_trusted_file_name(path),
				   is_http_allowed, ret_dsn, why);
	explicit_bzero(bytes, sizeof(bytes));
	return error;
}
