/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes for the tests of the Sentry format: written whole, looked into
 * as text. Runs in tests only.
 */
#include "sentry_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

/* The samples of a profile as "stack@ms stack@ms …" for one thread. */
void sentry_samples(const char *json, int tid, char *samples, size_t size)
{
	const char *at = strstr(json, "\"samples\":[");
	size_t used = 0;

	assert_non_null(at);
	samples[0] = 0;
	while ((at = strstr(at, "{\"stack_id\":"))) {
		unsigned long long elapsed;
		unsigned int stack;
		int thread;

		assert_int_equal(sscanf(at++,
					"{\"stack_id\":%u,\"thread_id\":\"%d\","
					"\"elapsed_since_start_ns\":\"%llu\"}",
					&stack, &thread, &elapsed),
				 3);
		if (thread != tid)
			continue;
		used += (size_t)snprintf(samples + used, size - used,
					 "%s%u@%llu", used ? " " : "", stack,
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
