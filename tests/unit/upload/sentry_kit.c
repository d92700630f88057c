/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes for the tests of the Sentry format: written whole, looked into
 * as text. Runs in tests only.
 */
#include "tests/unit/upload/sentry_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "upload/format/format.h"

static struct fixture_buffer write_as(const struct fgt_ring_slice *slice,
				      enum fgt_format_kind format,
				      const struct fgt_format_options *options)
{
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_format_write(slice, format, options, &sink), 0);
	return buffer;
}

struct fixture_buffer sentry_write(const struct fgt_ring_slice *slice,
				   const struct fgt_format_options *options)
{
	return write_as(slice, FGT_KIND_SENTRY, options);
}

struct fixture_buffer
sentry_write_chunk(const struct fgt_ring_slice *slice,
		   const struct fgt_format_options *options)
{
	return write_as(slice, FGT_KIND_SENTRY_CHUNK, options);
}

struct sample {
	unsigned long long stack, thread, elapsed_ns;
};

/* Steps over text, which must be there. */
static const char *after(const char *at, const char *text)
{
	assert_memory_equal(at, text, strlen(text));
	return at + strlen(text);
}

static const char *read_number(const char *at, unsigned long long *ret_value)
{
	unsigned long long value = 0;

	for (; *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (unsigned int)(*at - '0');
	*ret_value = value;
	return at;
}

/*
 * Reads the sample at *at and goes to the next; false after the last one. By
 * hand: scanf() and strstr() may look at the rest of the text each time.
 */
static bool next_sample(const char **at, struct sample *ret_sample)
{
	const char *end;

	if (**at == ']')
		return false;
	end = read_number(after(*at, "{\"stack_id\":"), &ret_sample->stack);
	end = read_number(after(end, ",\"thread_id\":\""), &ret_sample->thread);
	end = read_number(after(end, "\",\"elapsed_since_start_ns\":\""),
			  &ret_sample->elapsed_ns);
	end = after(end, "\"}");
	*at = *end == ',' ? end + 1 : end;
	return true;
}

static const char *first_sample(const char *json)
{
	const char *at = strstr(json, "\"samples\":[");

	assert_non_null(at);
	return after(at, "\"samples\":[");
}

void sentry_samples(const char *json, int tid, char *samples, size_t size)
{
	const char *at = first_sample(json);
	struct sample sample;
	size_t used = 0;

	samples[0] = 0;
	while (next_sample(&at, &sample)) {
		if (sample.thread != (unsigned long long)tid)
			continue;
		used += (size_t)snprintf(samples + used, size - used,
					 "%s%llu@%llu", used ? " " : "",
					 sample.stack,
					 sample.elapsed_ns / 1000000);
		assert_true(used < size);
	}
}

unsigned int sentry_count_samples(const char *json, int tid)
{
	const char *at = first_sample(json);
	struct sample sample;
	unsigned int count = 0;

	while (next_sample(&at, &sample))
		count += sample.thread == (unsigned long long)tid;
	return count;
}
