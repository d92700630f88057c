/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The websocket protocol (RFC 6455), as far as a server needs it that sends
 * text and takes none: handshake, frames that it sends, frames that it gets.
 * Knows no socket.
 *
 * MT-Safe for different inputs | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_WEBSOCKET_WEBSOCKET_H
#define FGT_AGENT_HTTP_WEBSOCKET_WEBSOCKET_H

#include <stddef.h>
#include <stdint.h>

#define FGT_WS_ACCEPT_SIZE 29 /* with its NUL */
#define FGT_WS_HEAD_MAX	   10
#define FGT_WS_FRAME_MAX   4096 /* bytes that a client may send in one */

enum fgt_ws_opcode {
	FGT_WS_CONTINUED = 0,
	FGT_WS_TEXT = 1,
	FGT_WS_BINARY = 2,
	FGT_WS_CLOSE = 8,
	FGT_WS_PING = 9,
	FGT_WS_PONG = 10,
};

/* Section 7.4.1. */
enum fgt_ws_status {
	FGT_WS_NORMAL = 1000,
	FGT_WS_PROTOCOL = 1002, /* what came is no frame of a client */
	FGT_WS_NO_TEXT = 1007, /* text that is not UTF-8 */
	FGT_WS_POLICY = 1008,
	FGT_WS_TOO_LARGE = 1009,
};

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key. -EINVAL: the key is not 16
 * bytes as base64. */
int fgt_ws_accept(const char *key, char ret_accept[FGT_WS_ACCEPT_SIZE]);

/* Of a whole frame of len bytes, which follow it. Returns its length. */
size_t fgt_ws_head(enum fgt_ws_opcode opcode, size_t len,
		   uint8_t ret_head[FGT_WS_HEAD_MAX]);

/* A close frame, whole: 4 bytes. */
void fgt_ws_close_frame(enum fgt_ws_status status, uint8_t ret_frame[4]);

/* What came and is not taken yet. Zero at first. */
struct fgt_ws_input {
	uint8_t bytes[FGT_WS_FRAME_MAX + 14];
	size_t len;
	size_t taken; /* of the frame that was returned last */
};

struct fgt_ws_frame {
	uint32_t opcode;
	const uint8_t *bytes; /* in the input, unmasked, until the next call */
	size_t len;
};

/*
 * The next frame. 1: there is one; 0: read more into bytes[len]; else the
 * status to close with.
 */
int fgt_ws_take(struct fgt_ws_input *input, struct fgt_ws_frame *ret_frame);

#endif
