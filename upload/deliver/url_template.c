/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills in variables of URLs. Any thread; must not let a value change the
 * host or add a part to the path, nor print a URL, whose query may be a secret.
 */
#include "upload/deliver/url_template.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/nearest.h"
#include "upload/deliver/url.h"

#define VALUE_MAX sizeof(((struct fgt_payload_head *)NULL)->name)
#define WORD_MAX  32

struct variable {
	const char *name;
	void (*write)(const struct fgt_payload_head *head,
		      char value[VALUE_MAX]);
};

static void write_host(const struct fgt_payload_head *head,
		       char value[VALUE_MAX])
{
	snprintf(value, VALUE_MAX, "%s", head->host);
}

static void write_pid(const struct fgt_payload_head *head,
		      char value[VALUE_MAX])
{
	snprintf(value, VALUE_MAX, "%d", (int)head->pid);
}

static void write_name(const struct fgt_payload_head *head,
		       char value[VALUE_MAX])
{
	snprintf(value, VALUE_MAX, "%s", head->name);
}

static void write_time(const struct fgt_payload_head *head,
		       char value[VALUE_MAX])
{
	const time_t seconds = (time_t)(head->from_wall_ns / 1000000000u);
	struct tm utc;
	size_t len;

	gmtime_r(&seconds, &utc);
	len = strftime(value, VALUE_MAX, "%Y%m%dT%H%M%S", &utc);
	snprintf(value + len, VALUE_MAX - len, ".%03uZ",
		 (unsigned int)(head->from_wall_ns / 1000000 % 1000));
}

static void write_format(const struct fgt_payload_head *head,
			 char value[VALUE_MAX])
{
	snprintf(value, VALUE_MAX, "%s", head->format);
}

static void write_seq(const struct fgt_payload_head *head,
		      char value[VALUE_MAX])
{
	snprintf(value, VALUE_MAX, "%llu", (unsigned long long)head->sequence);
}

static const struct variable variables[] = {
	{ "host", write_host },	    { "pid", write_pid },
	{ "name", write_name },	    { "time", write_time },
	{ "format", write_format }, { "seq", write_seq },
};
#define VARIABLES (sizeof(variables) / sizeof(variables[0]))

static const struct variable *find(const char *name, size_t len)
{
	for (size_t i = 0; i < VARIABLES; i++)
		if (strlen(variables[i].name) == len &&
		    !strncmp(variables[i].name, name, len))
			return &variables[i];
	return NULL;
}

static int refuse_unknown(const char *name, size_t len, struct fgt_why *why)
{
	struct fgt_nearest nearest;
	char word[WORD_MAX];

	snprintf(word, sizeof(word), "%.*s", (int)len, name);
	fgt_nearest_init(&nearest, word);
	for (size_t i = 0; i < VARIABLES; i++)
		fgt_nearest_offer(&nearest, variables[i].name);
	if (nearest.best)
		return fgt_why_set(why, -EINVAL,
				   "unknown variable {%s}; did you mean "
				   "{%s}?",
				   word, nearest.best);
	return fgt_why_set(why, -EINVAL,
			   "unknown variable {%s}; known are {host} {pid} "
			   "{name} {time} {format} {seq}",
			   word);
}

/* The variable that begins at text, a brace. */
static int read_variable(const char *text, const char **ret_end,
			 const struct variable **ret_variable,
			 struct fgt_why *why)
{
	size_t len = strcspn(text + 1, "{}");
	const struct variable *variable;

	if (*text == '}' || text[1 + len] != '}')
		return fgt_why_set(why, -EINVAL,
				   "a brace without its other half; write a "
				   "brace itself as %%7B or %%7D");
	variable = find(text + 1, len);
	if (!variable)
		return refuse_unknown(text + 1, len, why);
	*ret_variable = variable;
	*ret_end = text + len + 2;
	return 0;
}

static bool is_unreserved(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("-._~", c));
}

int fgt_url_append(char *url, size_t size, const char *text)
{
	size_t len = strlen(url);

	for (; *text; text++) {
		if (len + 4 > size)
			return -ENAMETOOLONG;
		if (is_unreserved(*text))
			url[len++] = *text;
		else
			len += (size_t)sprintf(url + len, "%%%02X",
					       (unsigned char)*text);
		url[len] = 0;
	}
	return 0;
}

/* A value that is "." or ".." alone would be a step in the path. */
static int append_value(char *url, size_t size, const char *value)
{
	if (!strcmp(value, ".") || !strcmp(value, ".."))
		return fgt_url_append(url, size, "_");
	return fgt_url_append(url, size, *value ? value : "_");
}

int fgt_url_template_expand(const char *text,
			    const struct fgt_payload_head *head, char *ret_url,
			    size_t size, struct fgt_why *why)
{
	const struct variable *variable;
	char value[VALUE_MAX];
	size_t len;
	int r;

	*ret_url = 0;
	while (*text) {
		size_t plain = strcspn(text, "{}");

		len = strlen(ret_url);
		if (len + plain >= size)
			return fgt_why_set(why, -ENAMETOOLONG,
					   "the URL is longer than %zu bytes; "
					   "use fewer variables",
					   size - 1);
		memcpy(ret_url + len, text, plain);
		ret_url[len + plain] = 0;
		text += plain;
		if (!*text)
			break;
		r = read_variable(text, &text, &variable, why);
		if (r < 0)
			return r;
		variable->write(head, value);
		if (append_value(ret_url, size, value) < 0)
			return fgt_why_set(why, -ENAMETOOLONG,
					   "the URL is longer than %zu bytes; "
					   "use fewer variables",
					   size - 1);
	}
	return 0;
}

int fgt_url_template_check(const char *text, bool is_http_allowed,
			   struct fgt_why *why)
{
	const struct fgt_payload_head head = { .host = "host", .name = "name" };
	const char *authority = strstr(text, "://");
	char url[FGT_URL_MAX];
	struct fgt_url parts;
	struct fgt_why part;
	int r;

	if (authority &&
	    strcspn(authority + 3, "{}") < strcspn(authority + 3, "/?#"))
		return fgt_why_set(why, -EINVAL,
				   "URL: a variable stands in the host; use "
				   "them behind the first / only");
	r = fgt_url_template_expand(text, &head, url, sizeof(url), &part);
	if (r == 0)
		r = fgt_url_parse(url, &parts, &part);
	explicit_bzero(url, sizeof(url));
	if (r < 0)
		return fgt_why_set(why, -EINVAL, "URL: %s", part.text);
	explicit_bzero(parts.userinfo, sizeof(parts.userinfo));
	if (parts.has_userinfo)
		return fgt_why_set(why, -EINVAL,
				   "URL: holds a user or password; put an "
				   "Authorization line into headers_file");
	if (!parts.is_https && !parts.is_loopback && !is_http_allowed)
		return fgt_why_set(why, -EINVAL,
				   "URL: plain http to another machine; use "
				   "https, or set upload.allow_http = true");
	return 0;
}
