/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Websocket frames. Runs in the thread of a connection; must not believe a
 * length before the bytes are there.
 */
#include "agent/http/websocket/websocket.h"

#include <errno.h>
#include <nettle/base64.h>
#include <nettle/sha1.h>
#include <string.h>

#include "ringbuf/base/utf8.h"

#define KEY_LEN	    24 /* 16 bytes as base64 */
#define CONTROL_MAX 125 /* bytes of a control frame */
#define IS_LAST	    0x80
#define RESERVED    0x70
#define IS_MASKED   0x80

static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

int fgt_ws_accept(const char *key, char ret_accept[FGT_WS_ACCEPT_SIZE])
{
	struct base64_decode_ctx decode;
	uint8_t digest[SHA1_DIGEST_SIZE], bytes[KEY_LEN];
	struct sha1_ctx sha1;
	size_t len = sizeof(bytes);

	if (strlen(key) != KEY_LEN)
		return -EINVAL;
	base64_decode_init(&decode);
	if (!base64_decode_update(&decode, &len, bytes, KEY_LEN, key) ||
	    !base64_decode_final(&decode) || len != 16)
		return -EINVAL;
	sha1_init(&sha1);
	sha1_update(&sha1, KEY_LEN, (const uint8_t *)key);
	sha1_update(&sha1, sizeof(guid) - 1, (const uint8_t *)guid);
	sha1_digest(&sha1, sizeof(digest), digest);
	base64_encode_raw(ret_accept, sizeof(digest), digest);
	ret_accept[FGT_WS_ACCEPT_SIZE - 1] = '\0';
	return 0;
}

static void put_number(uint8_t *to, uint64_t value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)(value >> 8 * (len - 1 - i));
}

static uint64_t get_number(const uint8_t *from, size_t len)
{
	uint64_t value = 0;

	for (size_t i = 0; i < len; i++)
		value = value << 8 | from[i];
	return value;
}

size_t fgt_ws_head(enum fgt_ws_opcode opcode, size_t len,
		   uint8_t ret_head[FGT_WS_HEAD_MAX])
{
	size_t more = len < 126 ? 0 : len <= UINT16_MAX ? 2 : 8;

	ret_head[0] = (uint8_t)(IS_LAST | opcode);
	ret_head[1] = (uint8_t)(more == 0 ? len : more == 2 ? 126 : 127);
	put_number(ret_head + 2, len, more);
	return 2 + more;
}

void fgt_ws_close_frame(enum fgt_ws_status status, uint8_t ret_frame[4])
{
	ret_frame[0] = IS_LAST | FGT_WS_CLOSE;
	ret_frame[1] = 2;
	put_number(ret_frame + 2, (uint64_t)status, 2);
}

/* ---- Frames of the client ------------------------------------------------ */

static void drop_taken(struct fgt_ws_input *input)
{
	input->len -= input->taken;
	memmove(input->bytes, input->bytes + input->taken, input->len);
	input->taken = 0;
}

/* Of the first two bytes. 0, or the status to close with. */
static int check_head(uint8_t first, uint8_t second)
{
	unsigned int opcode = first & 0x0f;

	if ((first & RESERVED) || !(second & IS_MASKED))
		return FGT_WS_PROTOCOL;
	if (opcode >= FGT_WS_CLOSE)
		return opcode <= FGT_WS_PONG && (first & IS_LAST) &&
				       (second & 0x7f) <= CONTROL_MAX
			       ? 0
			       : FGT_WS_PROTOCOL;
	return opcode <= FGT_WS_BINARY ? 0 : FGT_WS_PROTOCOL;
}

static void unmask(uint8_t *bytes, size_t len, const uint8_t mask[4])
{
	for (size_t i = 0; i < len; i++)
		bytes[i] ^= mask[i % 4];
}

static int check_text(const struct fgt_ws_frame *frame)
{
	const char *text = (const char *)frame->bytes;
	size_t left = frame->len;

	while (left > 0) {
		size_t len = fgt_utf8_len(text, left);

		if (len == 0)
			return FGT_WS_NO_TEXT;
		text += len;
		left -= len;
	}
	return 1;
}

int fgt_ws_take(struct fgt_ws_input *input, struct fgt_ws_frame *ret_frame)
{
	uint8_t *bytes = input->bytes;
	size_t more, head_len;
	uint64_t len;
	int r;

	drop_taken(input);
	if (input->len < 2)
		return 0;
	r = check_head(bytes[0], bytes[1]);
	if (r != 0)
		return r;
	len = bytes[1] & 0x7f;
	more = len == 127 ? 8 : len == 126 ? 2 : 0;
	head_len = 2 + more + 4;
	if (input->len < head_len)
		return 0;
	if (more)
		len = get_number(bytes + 2, more);
	if (len > FGT_WS_FRAME_MAX)
		return FGT_WS_TOO_LARGE;
	if (input->len - head_len < len)
		return 0;
	unmask(bytes + head_len, (size_t)len, bytes + head_len - 4);
	input->taken = head_len + (size_t)len;
	*ret_frame = (struct fgt_ws_frame){
		.opcode = bytes[0] & 0x0f,
		.bytes = bytes + head_len,
		.len = (size_t)len,
	};
	/* A part of a text may end within a character. */
	return ret_frame->opcode == FGT_WS_TEXT && (bytes[0] & IS_LAST)
		       ? check_text(ret_frame)
		       : 1;
}
