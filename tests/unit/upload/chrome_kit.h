/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of Chrome traces share: a slice's events in one line of text.
 * Header only; for tests.
 */
#ifndef FGT_TESTS_CHROME_KIT_H
#define FGT_TESTS_CHROME_KIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

static inline struct fixture_buffer
write_chrome(const struct fgt_ring_slice *slice,
	     enum fgt_state_frames state_frames)
{
	const struct fgt_format_options options = { .state_frames =
							    state_frames };
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_CHROME, &options, &sink), 0);
	return buffer;
}

#define EVENT_LINE_MAX 512

/* One line without the rest, of which sscanf() would take the length. */
static inline const char *event_line(const char *line,
				     char buffer[EVENT_LINE_MAX])
{
	snprintf(buffer, EVENT_LINE_MAX, "%.*s", (int)strcspn(line, "\n"),
		 line);
	return buffer;
}

/* X's that have not ended yet: those of one change end at once. */
struct whole_events {
	char names[FGT_SLICE_DEPTH_MAX][200];
	double end_us;
	int count;
};

static inline void put_ends(struct whole_events *whole, double ts, char *events,
			    size_t size)
{
	while (whole->count && (ts < 0 || whole->end_us <= ts)) {
		size_t at = strlen(events);

		snprintf(events + at, size - at, "|E %s %.3f",
			 whole->names[--whole->count], whole->end_us / 1000);
	}
}

/* The B, E and X lines as "B name ts|E name ts|…", an X as a B and an E; tracks
 * of tid 0: all. */
static inline void summarise(const char *json, int only_tid, char *events,
			     size_t size)
{
	static struct whole_events whole;
	const char *line = json;
	size_t at;

	events[0] = 0;
	whole.count = 0;
	while ((line = strstr(line, "\n{\"name\":\""))) {
		char name[200], phase, buffer[EVENT_LINE_MAX];
		double ts, dur;
		int pid, tid, found;

		line++;
		found = sscanf(
			event_line(line, buffer),
			"{\"name\":\"%199[^\"]\",\"ph\":\"%c\",\"pid\":%d,"
			"\"tid\":%d,\"ts\":%lf,\"dur\":%lf}",
			name, &phase, &pid, &tid, &ts, &dur);
		if (found < 5 || phase == 'M' || (only_tid && tid != only_tid))
			continue;
		assert_int_equal(pid, 4242);
		assert_int_equal(phase == 'X', found == 6);
		put_ends(&whole, ts, events, size);
		at = strlen(events);
		snprintf(events + at, size - at, "%s%c %s %.3f", at ? "|" : "",
			 phase == 'X' ? 'B' : phase, name, ts / 1000);
		assert_true(strlen(events) + 256 < size);
		if (phase != 'X')
			continue;
		whole.end_us = ts + dur;
		snprintf(whole.names[whole.count++], sizeof(name), "%s", name);
	}
	put_ends(&whole, -1, events, size);
}

static inline void assert_events(struct fgt_ring_slice *slice,
				 enum fgt_state_frames state_frames,
				 const char *expected)
{
	struct fixture_buffer buffer = write_chrome(slice, state_frames);
	char events[4096];

	assert_true(fgt_slice_is_valid(slice));
	summarise(buffer.bytes, 0, events, sizeof(events));
	assert_string_equal(events, expected);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

#endif
