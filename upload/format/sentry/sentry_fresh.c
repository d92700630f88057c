/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes the header of a stored envelope on its way. Any thread.
 */
#include "upload/format/sentry/sentry_fresh.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/clock.h"

#define HEADER_MAX 4096

struct passage {
	const struct fgt_sentry_fresh *fresh;
	const struct fgt_sink *target;
	bool is_past; /* the first line */
	size_t len;
	char line[HEADER_MAX + 1]; /* what came of it */
};

/* ,"dsn":"…","sent_at":"…" by the writer, without its brackets. */
static int add_members(const struct passage *passage)
{
	struct fgt_memory_sink memory;
	struct fgt_json json;
	int r;

	fgt_memory_sink_init(&memory, HEADER_MAX);
	fgt_json_init(&json, &memory.sink);
	fgt_json_begin_object(&json, NULL);
	if (fgt_sentry_given(passage->fresh->dsn))
		fgt_json_put_string(&json, "dsn", passage->fresh->dsn);
	fgt_json_put_time(&json, "sent_at", fgt_clock_ns(CLOCK_REALTIME));
	fgt_json_end_object(&json);
	r = fgt_json_finish(&json);
	if (r == 0)
		r = fgt_sink_write(passage->target, ",", 1);
	if (r == 0)
		r = fgt_sink_write(passage->target, memory.bytes + 1,
				   memory.len_bytes - 1);
	fgt_memory_sink_done(&memory);
	return r;
}

/* The line is whole: "{…}". */
static int pass_line(struct passage *passage)
{
	size_t len = passage->len;
	int r;

	if (len < 3 || passage->line[0] != '{' || passage->line[len - 1] != '}')
		return -EBADMSG;
	passage->line[len] = '\0';
	if (strstr(passage->line, "\"sent_at\":"))
		return fgt_sink_write(passage->target, passage->line, len);
	r = fgt_sink_write(passage->target, passage->line, len - 1);
	return r < 0 ? r : add_members(passage);
}

static int pass(void *context, const void *bytes, size_t len)
{
	struct passage *passage = context;
	const char *end;
	size_t part;
	int r;

	if (passage->is_past)
		return fgt_sink_write(passage->target, bytes, len);
	end = memchr(bytes, '\n', len);
	part = end ? (size_t)(end - (const char *)bytes) : len;
	if (part > HEADER_MAX - passage->len)
		return -EBADMSG;
	memcpy(passage->line + passage->len, bytes, part);
	passage->len += part;
	if (!end)
		return 0;
	passage->is_past = true;
	r = pass_line(passage);
	return r < 0 ? r : fgt_sink_write(passage->target, end, len - part);
}

static int write_report(const struct fgt_sentry_body *report,
			const struct fgt_sink *sink)
{
	struct fgt_json json;
	uint64_t len;
	int r = fgt_sentry_count_body(report, &len);

	if (r)
		return r;
	fgt_json_init(&json, sink);
	r = fgt_sentry_put_item(&json, "client_report", NULL, report, len);
	return r ? r : fgt_json_finish(&json);
}

static int write_fresh(const void *context, const struct fgt_sink *sink)
{
	const struct fgt_sentry_fresh *fresh = context;
	struct passage passage = { .fresh = fresh, .target = sink };
	const struct fgt_sink way = { pass, &passage };
	int r = fresh->stored->write(fresh->stored->context, &way);

	if (r == 0 && !passage.is_past)
		return -EBADMSG;
	return r == 0 && fresh->report ? write_report(fresh->report, sink) : r;
}

struct fgt_envelope fgt_sentry_fresh(const struct fgt_sentry_fresh *fresh)
{
	return (struct fgt_envelope){ write_fresh, fresh };
}
