/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes for the tests of the Sentry format: written whole, looked into
 * as text. Runs in tests only.
 */
#include "sentry_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "upload/format/format.h"

struct fixture_buffer sentry_write(const struct fgt_slice *slice,
				   const struct fgt_format_options *options)
{
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(
		fgt_format_write(slice, FGT_FORMAT_SENTRY, options, &sink), 0);
	return buffer;
}

unsigned int sentry_count(const char *text, const char *part)
{
	unsigned int count = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		count++;
	}
	return count;
}

/* Steps over text, which must be there. */
static const char *after(const char *at, const char *text)
{
	assert_memory_equal(at, text, strlen(text));
	return at + strlen(text);
}

/* No sscanf(): it measures the rest of the text each time. */
void sentry_samples(const char *json, int tid, char *samples, size_t size)
{
	const char *at = strstr(json, "\"samples\":[");
	size_t used = 0;

	assert_non_null(at);
	samples[0] = 0;
	while ((at = strstr(at, "{\"stack_id\":"))) {
		unsigned long long stack, thread, elapsed;
		char *end;

		stack = strtoull(after(at, "{\"stack_id\":"), &end, 10);
		thread = strtoull(after(end, ",\"thread_id\":\""), &end, 10);
		elapsed =
			strtoull(after(end, "\",\"elapsed_since_start_ns\":\""),
				 &end, 10);
		at = after(end, "\"}");
		if (thread != (unsigned long long)tid)
			continue;
		used += (size_t)snprintf(samples + used, size - used,
					 "%s%llu@%llu", used ? " " : "", stack,
					 elapsed / 1000000);
		assert_true(used < size);
	}
}

unsigned int sentry_count_samples(const char *json, int tid)
{
	char text[64];

	snprintf(text, sizeof(text), "\"thread_id\":\"%d\",\"elapsed", tid);
	return sentry_count(json, text);
}
