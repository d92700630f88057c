/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as the target of a request, read for each kind of path, and as Host
 * and Origin: no crash, a reason for each refusal, values within their bounds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/http/guard.h"
#include "agent/http/wish.h"

#define TOKEN "0123456789abcdef0123456789abcdef" /* not in a corpus */

static void check_wish(const struct fgt_web_query *query, unsigned int takes)
{
	const struct fgt_web_defaults defaults = { .seconds = 30 };
	struct fgt_web_wish wish;
	struct fgt_why why = { "" };

	if (fgt_web_wish_read(query, takes, &defaults, &wish, &why) < 0) {
		if (!why.text[0])
			abort();
		return;
	}
	if (wish.hz > FGT_WEB_HZ_MAX || wish.cut.choice.pid < 0 ||
	    wish.cut.tid < 0 ||
	    (wish.cut.choice.pid &&
	     (wish.cut.choice.name || wish.cut.choice.is_all)) ||
	    (unsigned int)wish.format >= FGT_KIND_COUNT)
		abort();
	if (!(takes & FGT_WEB_TAKES_RANGE) &&
	    (wish.cut.range.last_ns < 1000000 ||
	     wish.cut.range.last_ns > UINT64_C(3600000000000)))
		abort();
}

static void check_query(const char *text)
{
	static struct fgt_web_query query;
	struct fgt_why why = { "" };

	if (fgt_web_query_parse(text, &query, &why) < 0) {
		if (!why.text[0])
			abort();
		return;
	}
	if (query.count > FGT_WEB_PARAMETERS_MAX)
		abort();
	for (unsigned int i = 0; i < query.count; i++)
		for (const char *c = query.parameters[i].value; *c; c++)
			if ((unsigned char)*c < 0x20)
				abort();
	for (unsigned int takes = 0; takes < 1024; takes += 73)
		check_wish(&query, takes);
}

static void check_guard(const char *text)
{
	const struct fgt_web_guard guard = { .token = TOKEN, .port = 7071 };
	struct fgt_web_headers headers = { .method = "GET",
					   .version = "HTTP/1.1",
					   .host = text,
					   .host_count = 1 };
	struct fgt_why why;

	(void)fgt_web_guard_check(&guard, &headers, &why);
	headers.host = "localhost:7071";
	headers.origin = text;
	if (fgt_web_guard_check(&guard, &headers, &why) == 0 &&
	    !strstr(text, "7071"))
		abort();
	headers.authorization = text;
	if (fgt_web_guard_knows(&guard, &headers, NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *text = malloc(len + 1);

	if (!text)
		return 0;
	memcpy(text, bytes, len);
	text[len] = '\0';
	check_query(text);
	check_guard(text);
	free(text);
	return 0;
}
