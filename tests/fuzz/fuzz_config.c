/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a configuration: no crash, no leak, no end of the process
 * (libFuzzer reports an exit), and what is accepted reads back equal.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config.h"

/* libconfig 1.5 leaks the string that it holds at a syntax error. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:strbuf_append\nleak:libconfig_yylex\n";
}

struct text {
	char *bytes;
	size_t len, capacity;
};

static int append(void *context, const void *bytes, size_t len)
{
	struct text *text = context;

	if (len > text->capacity - text->len) {
		text->capacity = (text->len + len) * 2;
		text->bytes = realloc(text->bytes, text->capacity);
		if (!text->bytes)
			abort();
	}
	memcpy(text->bytes + text->len, bytes, len);
	text->len += len;
	return 0;
}

static void show(const struct fgt_config *config, struct text *text)
{
	const struct fgt_sink sink = { .write = append, .context = text };

	if (fgt_config_show(config, &sink))
		abort();
}

static void check_reads_back(const struct fgt_config *config)
{
	struct text first = { .len = 0 }, second = { .len = 0 };
	struct fgt_config *again = NULL;
	struct fgt_why why;

	show(config, &first);
	if (fgt_config_load_bytes(first.bytes, first.len, "shown", &again,
				  &why))
		abort();
	show(again, &second);
	if (first.len != second.len ||
	    memcmp(first.bytes, second.bytes, first.len) != 0)
		abort();
	fgt_config_free(again);
	free(first.bytes);
	free(second.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_config *config = NULL;
	struct fgt_why why = { .text = "" };
	int error = fgt_config_load_bytes((const char *)bytes, len, "fuzz",
					  &config, &why);

	if (error && (error != -EINVAL || !*why.text))
		abort();
	if (!error)
		check_reads_back(config);
	fgt_config_free(config);
	return 0;
}
