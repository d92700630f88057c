/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of events. Runs in the thread of a connection, which it may block.
 */
#include "agent/http/live.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "agent/http/websocket/websocket.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/slice/slice_codec.h"

#define SLICE_MAX_BYTES ((size_t)64 << 20)
#define MS_NS		UINT64_C(1000000)
#define SILENT_MAX	20 /* slices without a tick: the target has ended */

struct fgt_web_live {
	const struct fgt_web_source *source;
	struct fgt_web_cut cut;
	char name[256];
	struct fgt_tail *tail;
	struct fgt_web_live_counters *counters;
	atomic_ullong *reason; /* of its end */
	struct fgt_memory_sink events; /* ready to be sent */
	size_t sent; /* of them */
	uint64_t ready_ns; /* since when they are */
	unsigned int silent; /* slices without ticks, in a row */
	bool has_ended;
	enum fgt_web_framing framing;
};

/* ---- Events -------------------------------------------------------------- */

static int put_line(struct fgt_web_live *live, const void *line, size_t len)
{
	const struct fgt_sink *to = &live->events.sink;
	bool is_frame = live->framing == FGT_WEB_FRAMES;
	uint8_t head[FGT_WS_HEAD_MAX];
	size_t head_len = is_frame ? fgt_ws_head(FGT_WS_TEXT, len, head) : 0;
	int r = is_frame ? fgt_sink_write(to, head, head_len)
			 : fgt_sink_write(to, "data: ", 6);

	if (r == 0)
		r = fgt_sink_write(to, line, len);
	return r < 0 || is_frame ? r : fgt_sink_write(to, "\n\n", 2);
}

/* Each line becomes an event. */
static int put_lines(struct fgt_web_live *live, const uint8_t *bytes,
		     size_t len)
{
	int r = 0;

	while (len > 0 && r == 0) {
		const uint8_t *end = memchr(bytes, '\n', len);
		size_t line_len = end ? (size_t)(end - bytes) : len;

		r = put_line(live, bytes, line_len);
		bytes += line_len + (end != NULL);
		len -= line_len + (end != NULL);
	}
	return r;
}

static int put_slice(struct fgt_web_live *live,
		     const struct fgt_ring_slice *slice)
{
	struct fgt_memory_sink lines;
	int r;

	fgt_memory_sink_init(&lines, SLICE_MAX_BYTES);
	r = fgt_tail_feed(live->tail, slice, &lines.sink);
	if (r == 0)
		r = put_lines(live, lines.bytes, lines.len_bytes);
	fgt_memory_sink_done(&lines);
	return r;
}

/* The last event: why no more follow. */
static void end(struct fgt_web_live *live, atomic_ullong *reason,
		const char *text)
{
	char line[512];
	int len =
		snprintf(line, sizeof(line), "event: end\ndata: %s\n\n", text);

	live->has_ended = true;
	live->reason = reason;
	if (live->framing == FGT_WEB_FRAMES) {
		fgt_ws_close_frame(reason == &live->counters->ended
					   ? FGT_WS_NORMAL
					   : FGT_WS_POLICY,
				   (uint8_t *)line);
		len = 4;
	}
	(void)fgt_sink_write(&live->events.sink, line, (size_t)len);
}

/* ---- Slices -------------------------------------------------------------- */

/* -ENODATA: nothing has happened since. */
static int get_slice(struct fgt_web_live *live, struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_web_source *source = live->source;
	struct fgt_memory_sink bytes;
	int r;

	fgt_tail_range(live->tail, &live->cut.range);
	fgt_memory_sink_init(&bytes, SLICE_MAX_BYTES);
	r = source->cut(source->context, &live->cut, &bytes.sink, why);
	if (r == 0)
		r = fgt_slice_decode(bytes.bytes, bytes.len_bytes, &slice, why);
	fgt_memory_sink_done(&bytes);
	if (r < 0)
		return r;
	/* The same process from now on, whatever starts with its name. */
	live->cut.choice.pid = slice->process.pid;
	live->cut.choice.name = NULL;
	return put_slice(live, slice);
}

static void get_more(struct fgt_web_live *live)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	uint64_t last_ns = fgt_tail_last_ns(live->tail);
	struct fgt_why why = { "" };
	int r;

	if (live->silent == 0 &&
	    now_ns - last_ns > FGT_TAIL_BEHIND_MS * MS_NS) {
		end(live, &live->counters->slow,
		    "the stream is too far behind: connect again");
		return;
	}
	r = get_slice(live, &why);
	if (r == -EBUSY || r == -EAGAIN)
		return; /* the next slice begins where this one would have */
	live->silent = r == -ENODATA ? live->silent + 1 : 0;
	if (r == -ECANCELED) /* the client has gone meanwhile */
		live->has_ended = true;
	else if (live->silent >= SILENT_MAX || r == -ESRCH)
		end(live, &live->counters->ended, "the target has ended");
	else if (r < 0 && r != -ENODATA)
		end(live, &live->counters->failed,
		    why.text[0] ? why.text : strerror(-r));
}

/* ---- The stream ---------------------------------------------------------- */

int fgt_web_live_open(const struct fgt_web_source *source,
		      const struct fgt_web_cut *cut, struct fgt_tail *tail,
		      enum fgt_web_framing framing,
		      struct fgt_web_live_counters *counters,
		      struct fgt_web_live **ret_live, struct fgt_why *why)
{
	FGT_AUTO(fgt_web_live_close)
	struct fgt_web_live *live = calloc(1, sizeof(*live));
	bool is_over;
	int r;

	if (!live) {
		fgt_tail_free(tail);
		return -ENOMEM;
	}
	live->tail = tail;
	live->source = source;
	live->cut = *cut;
	live->framing = framing;
	live->counters = counters;
	is_over = atomic_fetch_add(&counters->active, 1) >= FGT_WEB_LIVE_MAX;
	live->reason = &counters->failed;
	fgt_memory_sink_init(&live->events, 2 * SLICE_MAX_BYTES);
	if (cut->choice.name)
		snprintf(live->name, sizeof(live->name), "%s",
			 cut->choice.name);
	live->cut.choice.name = cut->choice.name ? live->name : NULL;
	if (is_over) {
		live->reason = &counters->refused;
		return fgt_why_set(why, -EBUSY,
				   "limit of %d streams reached: close one",
				   FGT_WEB_LIVE_MAX);
	}
	r = get_slice(live, why);
	if (r < 0)
		return r;
	live->reason = &counters->gone;
	live->ready_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	*ret_live = FGT_TAKE(live);
	return 0;
}

/* -ECANCELED: the client has gone. */
static int wait_a_period(const struct fgt_web_live *live)
{
	struct pollfd client = { .fd = live->cut.client_fd,
				 .events = POLLRDHUP };

	return poll(&client, 1, FGT_TAIL_PERIOD_MS) > 0 ? -ECANCELED : 0;
}

/* A comment or a ping shows that a silent stream lives, and whether the client
 * does. */
static int put_nothing(struct fgt_web_live *live)
{
	uint8_t head[FGT_WS_HEAD_MAX];

	if (live->framing == FGT_WEB_SERVER_SENT)
		return fgt_sink_write(&live->events.sink, ":\n\n", 3);
	return fgt_sink_write(&live->events.sink, head,
			      fgt_ws_head(FGT_WS_PING, 0, head));
}

/* In one slice there may be events for hours of a slow client. */
static bool is_too_slow(const struct fgt_web_live *live)
{
	return fgt_clock_ns(CLOCK_MONOTONIC) - live->ready_ns >
	       FGT_TAIL_BEHIND_MS * MS_NS;
}

static int fill(struct fgt_web_live *live)
{
	int r = 0;

	live->events.len_bytes = live->sent = 0;
	while (live->events.len_bytes == 0 && r == 0) {
		r = wait_a_period(live);
		if (r == 0)
			get_more(live);
		if (r == 0 && live->events.len_bytes == 0)
			r = put_nothing(live);
	}
	live->ready_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	return r;
}

ssize_t fgt_web_live_read(struct fgt_web_live *live, void *bytes, size_t size)
{
	size_t left = live->events.len_bytes - live->sent;
	int r;

	if (left == 0 && live->has_ended)
		return 0;
	if (left > 0 && is_too_slow(live)) {
		fgt_web_live_note_slow(live);
		return -ETIMEDOUT;
	}
	if (left == 0) {
		r = fill(live);
		if (r < 0)
			return r;
		left = live->events.len_bytes;
	}
	if (size > left)
		size = left;
	memcpy(bytes, live->events.bytes + live->sent, size);
	live->sent += size;
	return (ssize_t)size;
}

bool fgt_web_live_is_between(const struct fgt_web_live *live)
{
	return live->sent == live->events.len_bytes;
}

void fgt_web_live_note_slow(struct fgt_web_live *live)
{
	live->reason = &live->counters->slow;
}

void fgt_web_live_close(struct fgt_web_live *live)
{
	if (!live)
		return;
	atomic_fetch_sub(&live->counters->active, 1);
	atomic_fetch_add(live->reason, 1);
	fgt_memory_sink_done(&live->events);
	fgt_tail_free(live->tail);
	free(live);
}
