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

#define SEND_MS	    10000 /* without progress: the client is too slow */
#define BLOCK_BYTES 16384
#define FRAMES_MAX  64 /* of a client, in half a second */

static int send_all(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		struct pollfd room = { .fd = fd, .events = POLLOUT };
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			if (poll(&room, 1, SEND_MS) == 0)
				return -ETIMEDOUT;
		} else if (n < 0 && errno != EINTR) {
			return -errno;
		}
	}
	return 0;
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
	uint8_t frame[4];
	int r = FGT_WS_TOO_LARGE;

	if (extra_len < sizeof(input.bytes)) {
		memcpy(input.bytes, extra, extra_len);
		input.len = extra_len;
		r = converse(fd, live, &input);
	}
	if (r == -ETIMEDOUT)
		fgt_web_live_note_slow(live);
	if (r > 0) {
		fgt_ws_close_frame((enum fgt_ws_status)r, frame);
		(void)send_all(fd, frame, sizeof(frame));
	}
}
