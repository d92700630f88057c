/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries. Runs in the thread of a connection; must not read beyond the NUL.
 */
#include "agent/http/query.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -EINVAL;
}

static bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

/* Decodes in place. -EINVAL. */
static int decode(char *text, struct fgt_why *why)
{
	char *to = text;

	for (; *text; to++) {
		bool is_escape = *text == '%';
		int high = is_escape ? digit_of(text[1]) : 0;
		int low = is_escape && high >= 0 ? digit_of(text[2]) : 0;

		if (high < 0 || low < 0)
			return fgt_why_set(why, -EINVAL,
					   "bad query: %% without two hex "
					   "digits: write %%25 for it");
		*to = is_escape	     ? (char)(high * 16 + low)
		      : *text == '+' ? ' '
				     : *text;
		if (is_control((unsigned char)*to))
			return fgt_why_set(why, -EINVAL,
					   "bad query: a control character: "
					   "leave it out");
		text += is_escape ? 3 : 1;
	}
	*to = '\0';
	return 0;
}

static const struct fgt_web_parameter *find(const struct fgt_web_query *query,
					    const char *name)
{
	for (unsigned int i = 0; i < query->count; i++)
		if (strcmp(query->parameters[i].name, name) == 0)
			return &query->parameters[i];
	return NULL;
}

static int add(struct fgt_web_query *query, char *text, struct fgt_why *why)
{
	char *value = strchr(text, '=');
	int r;

	if (value)
		*value++ = '\0';
	else
		value = text + strlen(text);
	r = decode(text, why);
	if (r == 0)
		r = decode(value, why);
	if (r < 0)
		return r;
	if (!text[0])
		return fgt_why_set(why, -EINVAL,
				   "bad query: a parameter without a name: "
				   "write name=value");
	if (find(query, text))
		return fgt_why_set(why, -EINVAL,
				   "bad %.40s: it is there twice: give it once",
				   text);
	if (query->count == FGT_WEB_PARAMETERS_MAX)
		return fgt_why_set(why, -EINVAL,
				   "bad query: more than %d parameters: give "
				   "fewer",
				   FGT_WEB_PARAMETERS_MAX);
	query->parameters[query->count++] =
		(struct fgt_web_parameter){ text, value };
	return 0;
}

int fgt_web_query_parse(const char *target, struct fgt_web_query *ret_query,
			struct fgt_why *why)
{
	struct fgt_web_query *query = ret_query;
	size_t len = strnlen(target, FGT_WEB_TARGET_MAX + 1);
	char *rest, *part;
	int r = 0;

	query->count = 0;
	if (len > FGT_WEB_TARGET_MAX)
		return fgt_why_set(why, -E2BIG,
				   "the target is longer than %d bytes: "
				   "shorten it",
				   FGT_WEB_TARGET_MAX);
	if (target[0] != '/')
		return fgt_why_set(why, -EINVAL,
				   "the target is no path: begin it with /");
	memcpy(query->text, target, len + 1);
	query->path = query->text;
	rest = strchr(query->text, '?');
	if (rest)
		*rest++ = '\0';
	while (r == 0 && (part = strsep(&rest, "&")))
		if (*part)
			r = add(query, part, why);
	return r;
}

const char *fgt_web_query_get(const struct fgt_web_query *query,
			      const char *name)
{
	const struct fgt_web_parameter *parameter = find(query, name);

	return parameter && parameter->value[0] ? parameter->value : NULL;
}
