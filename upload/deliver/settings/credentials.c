/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of secrets. Any thread; must not put a byte of them into a
 * message.
 */
#include "upload/deliver/settings/credentials.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/owner.h"
#include "upload/deliver/trusted_file.h"

#define FILE_MAX 16384

static const struct fgt_trust SECRET = {
	.max_bytes = FILE_MAX,
	.max_text = "16 KiB; remove what is not needed",
	.refused_mode = 07,
	.mode_text = "every user can read the secret; chmod 640 or 600",
};

static const struct fgt_trust PUBLIC = {
	.max_bytes = FILE_MAX,
	.max_text = "16 KiB; remove what is not needed",
	.refused_mode = 02,
	.mode_text = "every user may write to it; chmod o-w",
};

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}
FGT_DEFINE_AUTO(char *, free_secret);

int fgt_credentials_find(const char *name, char *buffer, size_t size,
			 struct fgt_why *why)
{
	const char *directory = secure_getenv("CREDENTIALS_DIRECTORY");
	bool is_credential = directory && *directory && !strchr(name, '/');
	int len = snprintf(buffer, size, "%s%s%s",
			   is_credential ? directory : "",
			   is_credential ? "/" : "", name);

	if (len < 0 || (size_t)len >= size)
		return fgt_why_set(why, -ENAMETOOLONG,
				   "%s: the path is longer than %zu bytes; use "
				   "a shorter one",
				   fgt_trusted_file_name(name), size - 1);
	return 0;
}

/* The whole file as text. */
static int read_text(const char *name, const struct fgt_trust *trust,
		     char **ret_text, struct fgt_why *why)
{
	FGT_AUTO(free_secret) char *text = calloc(1, FILE_MAX + 2);
	char path[PATH_MAX];
	size_t len;
	int r = text ? fgt_credentials_find(name, path, sizeof(path), why)
		     : fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);

	if (r == 0)
		r = fgt_trusted_file_read(path, trust, text, &len, why);
	if (r < 0)
		return r;
	text[len] = 0;
	if (strlen(text) != len)
		return fgt_why_set(why, -EINVAL,
				   "%s: holds a NUL byte; write plain text",
				   fgt_trusted_file_name(path));
	*ret_text = FGT_TAKE(text);
	return 0;
}

/* The text without blanks around it; changed in place. */
static char *trim(char *text)
{
	static const char BLANKS[] = " \t\r\n";
	size_t len;

	text += strspn(text, BLANKS);
	len = strlen(text);
	while (len && strchr(BLANKS, text[len - 1]))
		text[--len] = 0;
	return text;
}

int fgt_credentials_read_line(const char *name, char **ret_line,
			      struct fgt_why *why)
{
	FGT_AUTO(free_secret) char *text = NULL;
	char *rest, *line;
	int r = read_text(name, &SECRET, &text, why);

	if (r < 0)
		return r;
	rest = trim(text);
	line = strsep(&rest, "\r\n");
	if (!*line)
		return fgt_why_set(why, -EINVAL,
				   "%s: empty; write one line into it",
				   fgt_trusted_file_name(name));
	line = strdup(line);
	if (!line)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	*ret_line = line;
	return 0;
}

/* ---- Headers ------------------------------------------------------------- */

/* A token of RFC 9110, a colon, and printable ASCII. */
static bool is_header(const char *line)
{
	size_t name_len = strspn(line, "!#$%&'*+-.^_`|~0123456789"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "abcdefghijklmnopqrstuvwxyz");

	if (!name_len || line[name_len] != ':')
		return false;
	for (line += name_len; *line; line++)
		if (*line != '\t' && (*line < 0x20 || *line > 0x7e))
			return false;
	return true;
}

/* What fgtrace and curl write themselves. */
static bool is_taken(const char *line)
{
	static const char *const names[] = {
		"Content-Length:",    "Content-Type:", "Content-Encoding:",
		"Transfer-Encoding:", "Expect:",       "Connection:",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncasecmp(line, names[i], strlen(names[i])))
			return true;
	return false;
}

int fgt_credentials_read_headers(const char *name, char **ret_lines,
				 struct fgt_why *why)
{
	FGT_AUTO(free_secret) char *text = NULL;
	FGT_AUTO(free_secret) char *lines = calloc(1, FILE_MAX + 2);
	int r = lines ? read_text(name, &SECRET, &text, why)
		      : fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	char *rest = text, *line;
	size_t len = 0;

	if (r < 0)
		return r;
	for (unsigned int number = 1; (line = strsep(&rest, "\n")); number++) {
		line = trim(line);
		if (!*line || *line == '#')
			continue;
		if (!is_header(line) || is_taken(line))
			return fgt_why_set(
				why, -EINVAL,
				"%s:%u: not a header that can be "
				"added; write Name: value, in ASCII, "
				"other than Content-Type and those "
				"of length and encoding",
				fgt_trusted_file_name(name), number);
		len += (size_t)snprintf(lines + len, FILE_MAX + 2 - len, "%s\n",
					line);
	}
	*ret_lines = FGT_TAKE(lines);
	return 0;
}

/* ---- AWS ----------------------------------------------------------------- */

struct aws_keys {
	const char *id, *secret, *token; /* into the text */
};

static int take_aws_line(char *line, struct aws_keys *keys)
{
	char *value = strchr(line, '=');
	const char **places[] = { &keys->id, &keys->secret, &keys->token };
	static const char *const names[] = { "aws_access_key_id",
					     "aws_secret_access_key",
					     "aws_session_token" };

	if (!value)
		return 0; /* a [profile], or a comment */
	*value++ = 0;
	line = trim(line);
	for (size_t i = 0; i < 3; i++) {
		if (strcmp(line, names[i]) != 0)
			continue;
		if (*places[i])
			return -EEXIST;
		*places[i] = trim(value);
	}
	return 0;
}

static int join_keys(const struct aws_keys *keys, char **ret_keys,
		     char **ret_token)
{
	FGT_AUTO(free_secret) char *joined = NULL;
	char *token = NULL;

	if (asprintf(&joined, "%s:%s", keys->id, keys->secret) < 0) {
		joined = NULL;
		return -ENOMEM;
	}
	if (keys->token) {
		token = strdup(keys->token);
		if (!token)
			return -ENOMEM;
	}
	*ret_keys = FGT_TAKE(joined);
	*ret_token = token;
	return 0;
}

int fgt_credentials_read_aws(const char *name, char **ret_keys,
			     char **ret_token, struct fgt_why *why)
{
	FGT_AUTO(free_secret) char *text = NULL;
	struct aws_keys keys = { NULL, NULL, NULL };
	int r = read_text(name, &SECRET, &text, why);
	char *rest = text, *line;

	if (r < 0)
		return r;
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = take_aws_line(line, &keys);
	if (r < 0)
		return fgt_why_set(why, -EINVAL,
				   "%s: more than one profile; keep one",
				   fgt_trusted_file_name(name));
	if (!keys.id || !*keys.id || strchr(keys.id, ':') || !keys.secret ||
	    !*keys.secret)
		return fgt_why_set(why, -EINVAL,
				   "%s: needs the lines aws_access_key_id = … "
				   "and aws_secret_access_key = …",
				   fgt_trusted_file_name(name));
	r = join_keys(&keys, ret_keys, ret_token);
	return r < 0 ? fgt_why_set(why, r, FGT_NO_MEMORY) : 0;
}

/* ---- Certificates -------------------------------------------------------- */

int fgt_credentials_read_pem(const char *certificate, const char *key,
			     char **ret_pem, struct fgt_why *why)
{
	FGT_AUTO(free_secret) char *first = NULL;
	FGT_AUTO(free_secret) char *second = NULL;
	char *joined;
	int r = read_text(certificate, key ? &PUBLIC : &SECRET, &first, why);

	if (r == 0 && key)
		r = read_text(key, &SECRET, &second, why);
	if (r < 0)
		return r;
	if (!strstr(first, "-----BEGIN CERTIFICATE-----"))
		return fgt_why_set(why, -EINVAL,
				   "%s: no PEM certificate; name a file with "
				   "BEGIN CERTIFICATE",
				   fgt_trusted_file_name(certificate));
	if (!strstr(second ? second : first, "PRIVATE KEY-----"))
		return fgt_why_set(
			why, -EINVAL,
			"%s: no PEM key; name its file in "
			"client_key_file",
			fgt_trusted_file_name(key ? key : certificate));
	/* curl 7.88 crashes where it has to ask for a passphrase. */
	if (strstr(second ? second : first, "BEGIN ENCRYPTED") ||
	    strstr(second ? second : first, "4,ENCRYPTED"))
		return fgt_why_set(
			why, -EINVAL,
			"%s: the key has a passphrase, which cannot be "
			"typed here; remove it with openssl pkey",
			fgt_trusted_file_name(key ? key : certificate));
	if (asprintf(&joined, "%s\n%s", first, second ? second : "") < 0)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	*ret_pem = joined;
	return 0;
}
