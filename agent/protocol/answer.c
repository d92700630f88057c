/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads frames of the agent. Runs in any thread; must not allocate nor believe
 * anything.
 */
#include "agent/protocol/answer.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/msgpack_check.h"
#include "ringbuf/base/msgpack_cursor.h"

#define DEPTH_MAX 16
#define ERRNO_MAX 4095
#define HZ_MAX	  1e6

/* Printable: it ends up in the program's log. */
static void copy_text(struct fgt_msgpack_text text, char *to, size_t size)
{
	size_t len = text.len < size ? text.len : size - 1;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text.bytes[i];

		to[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	to[len] = 0;
}

static void read_data(struct fgt_msgpack_cursor *cursor,
		      struct fgt_answer *answer)
{
	struct fgt_msgpack_text data = fgt_msgpack_read_bin(cursor);

	answer->data = (const uint8_t *)data.bytes;
	answer->data_len = data.len;
}

/* Rates may come as integers. */
static void read_hz(struct fgt_msgpack_cursor *cursor,
		    struct fgt_answer *answer)
{
	uint8_t type = fgt_msgpack_cursor_left(cursor)
			       ? cursor->bytes[cursor->at]
			       : 0xc1;

	if (type == 0xca || type == 0xcb)
		answer->hz = fgt_msgpack_read_double(cursor);
	else
		answer->hz = (double)fgt_msgpack_read_uint(cursor, UINT32_MAX);
	if (!(answer->hz >= 0 && answer->hz <= HZ_MAX))
		fgt_msgpack_refuse(cursor);
}

static void read_flag(struct fgt_msgpack_cursor *cursor,
		      struct fgt_msgpack_text key, struct fgt_answer *answer)
{
	bool value = fgt_msgpack_read_bool(cursor);

	if (fgt_msgpack_text_is(key, "end")) {
		answer->is_end = value;
		return;
	}
	answer->has_ok = true;
	answer->is_ok = value;
}

/* False: no number of ours. */
static bool read_number(struct fgt_msgpack_cursor *cursor,
			struct fgt_msgpack_text key, struct fgt_answer *answer)
{
	const struct {
		const char *key;
		uint64_t *value;
	} numbers[] = {
		{ "from_ns", &answer->from_ns },
		{ "to_ns", &answer->to_ns },
		{ "ticks", &answer->ticks },
		{ "threads", &answer->threads },
		{ "len", &answer->len },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (fgt_msgpack_text_is(key, numbers[i].key)) {
			*numbers[i].value =
				fgt_msgpack_read_uint(cursor, UINT64_MAX);
			return true;
		}
	return false;
}

static void read_pair(struct fgt_msgpack_cursor *cursor,
		      struct fgt_answer *answer)
{
	struct fgt_msgpack_text key = fgt_msgpack_read_str(cursor);

	if (read_number(cursor, key, answer))
		return;
	if (fgt_msgpack_text_is(key, "ok") || fgt_msgpack_text_is(key, "end"))
		read_flag(cursor, key, answer);
	else if (fgt_msgpack_text_is(key, "error"))
		answer->error =
			(int)fgt_msgpack_read_int(cursor, -ERRNO_MAX, -1);
	else if (fgt_msgpack_text_is(key, "why"))
		copy_text(fgt_msgpack_read_str(cursor), answer->why,
			  sizeof(answer->why));
	else if (fgt_msgpack_text_is(key, "limitation"))
		copy_text(fgt_msgpack_read_str(cursor), answer->limitation,
			  sizeof(answer->limitation));
	else if (fgt_msgpack_text_is(key, "data"))
		read_data(cursor, answer);
	else if (fgt_msgpack_text_is(key, "hz"))
		read_hz(cursor, answer);
	else
		fgt_msgpack_skip(cursor);
}

int fgt_answer_parse(const uint8_t *bytes, size_t len,
		     struct fgt_answer *ret_answer)
{
	struct fgt_answer answer = { 0 };
	struct fgt_msgpack_cursor cursor;
	uint32_t pairs;

	if (fgt_msgpack_check(bytes, len, DEPTH_MAX) < 0)
		return -EBADMSG;
	fgt_msgpack_cursor_init(&cursor, bytes, len);
	pairs = fgt_msgpack_read_map(&cursor);
	for (uint32_t i = 0; i < pairs && !cursor.error; i++)
		read_pair(&cursor, &answer);
	if (cursor.error)
		return cursor.error;
	*ret_answer = answer;
	return 0;
}
