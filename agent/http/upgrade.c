/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Websockets. Runs in the thread of a connection; every wait is bounded.
 */
#include "agent/http/upgrade.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/http/websocket/websocket.h"
#include "ringbuf/base/clock.h"

#define SEND_NS	    UINT64_C(10000000000) /* for one block */
#define DRAIN_NS    UINT64_C(1000000000) /* for the client to end, too */
#define MS_NS	    UINT64_C(1000000)
#define BLOCK_BYTES 16384
#define FRAMES_MAX  64 /* of a client, in half a second */

/* -ETIMEDOUT: the client is too slow. */
static int wait_for_room(int fd, uint64_t end_ns)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	if (now_ns >= end_ns ||
	    poll(&room, 1, (int)((end_ns - now_ns) / MS_NS) + 1) == 0)
		return -ETIMEDOUT;
	return 0;
}

/* One deadline for all of it: a client that takes a byte now and then would
 * keep its thread for ever. */
static int send_all(int fd, const void *bytes, size_t len)
{
	uint64_t end_ns = fgt_clock_ns(CLOCK_MONOTONIC) + SEND_NS;
	const char *at = bytes;
	int r = 0;

	while (len > 0 && r == 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			r = wait_for_room(fd, end_ns);
		} else if (n < 0 && errno != EINTR) {
			r = -errno;
		}
	}
	return r;
}

/* ---- The client ---------------------------------------------------------- */

static int pong(int fd, const struct fgt_ws_frame *ping)
{
	uint8_t head[FGT_WS_HEAD_MAX];
	size_t len = fgt_ws_head(FGT_WS_PONG, ping->len, head);
	int r = send_all(fd, head, len);

	return r < 0 ? r : send_all(fd, ping->bytes, ping->len);
}

/* 0: go on; a status to close with; a negative errno: the client has gone. */
static int handle(int fd, struct fgt_ws_input *input)
{
	struct fgt_ws_frame frame;

	for (int i = 0; i < FRAMES_MAX; i++) {
		int r = fgt_ws_take(input, &frame);

		if (r != 1)
			return r;
		if (frame.opcode == FGT_WS_CLOSE)
			return FGT_WS_NORMAL;
		if (frame.opcode == FGT_WS_PING) {
			r = pong(fd, &frame);
			if (r < 0)
				return r;
		}
	}
	return FGT_WS_POLICY;
}

/* What has come meanwhile, as handle(). */
static int hear(int fd, struct fgt_ws_input *input)
{
	ssize_t n = recv(fd, input->bytes + input->len,
			 sizeof(input->bytes) - input->len, MSG_DONTWAIT);

	if (n == 0)
		return -ECONNRESET;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	if (n > 0)
		input->len += (size_t)n;
	return handle(fd, input);
}

/* What is not read resets the connection, and some clients then do not see the
 * frame before. */
static void end_with(int fd, int status)
{
	uint64_t now_ns, end_ns = fgt_clock_ns(CLOCK_MONOTONIC) + DRAIN_NS;
	struct pollfd input = { .fd = fd, .events = POLLIN };
	uint8_t frame[4];
	char rest[1024];

	fgt_ws_close_frame((enum fgt_ws_status)status, frame);
	(void)send_all(fd, frame, sizeof(frame));
	(void)shutdown(fd, SHUT_WR);
	while ((now_ns = fgt_clock_ns(CLOCK_MONOTONIC)) < end_ns &&
	       poll(&input, 1, (int)((end_ns - now_ns) / MS_NS) + 1) > 0 &&
	       recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
}

/* ---- The stream ---------------------------------------------------------- */

/* As handle(), and 0 at the end of the stream. */
static int converse(int fd, struct fgt_web_live *live,
		    struct fgt_ws_input *input)
{
	char bytes[BLOCK_BYTES];
	int r = handle(fd, input);

	while (r == 0) {
		ssize_t n = fgt_web_live_read(live, bytes, sizeof(bytes));

		if (n <= 0)
			return (int)n;
		r = send_all(fd, bytes, (size_t)n);
		/* Answers stand between frames. */
		if (r == 0 && fgt_web_live_is_between(live))
			r = hear(fd, input);
	}
	return r;
}

void fgt_web_upgraded(struct fgt_web_live *live, int fd, const char *extra,
		      size_t extra_len)
{
	struct fgt_ws_input input = { .len = 0 };
	int r = FGT_WS_TOO_LARGE;

	if (extra_len < sizeof(input.bytes)) {
		memcpy(input.bytes, extra, extra_len);
		input.len = extra_len;
		r = converse(fd, live, &input);
	}
	if (r == -ETIMEDOUT)
		fgt_web_live_note_slow(live);
	if (r > 0)
		end_with(fd, r);
}
