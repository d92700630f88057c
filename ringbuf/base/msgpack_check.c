/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks once over msgpack bytes with a fixed stack, without allocating. Runs in
 * any thread, before every decoder; must not recurse: the author of the bytes
 * chooses the depth.
 */
#include "ringbuf/base/msgpack_check.h"

#include <errno.h>

/* Deeper than any form of this project; a larger max_depth means this. */
#define DEPTH_MAX 64

/* One header: what follows the type byte. */
struct head {
	uint64_t skip; /* bytes of length field and payload */
	uint64_t children; /* objects inside; a map's pair counts as two */
	int is_container;
};

static uint64_t read_big_endian(const uint8_t *bytes, size_t len)
{
	uint64_t value = 0;

	for (size_t i = 0; i < len; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* Payload whose length stands in width bytes, plus extra bytes before it. */
static int head_of_blob(const uint8_t *rest, size_t left, size_t width,
			size_t extra, struct head *ret_head)
{
	if (left < width)
		return -EBADMSG;
	ret_head->skip = width + extra + read_big_endian(rest, width);
	return 0;
}

static int head_of_container(const uint8_t *rest, size_t left, size_t width,
			     unsigned int per_count, struct head *ret_head)
{
	if (left < width)
		return -EBADMSG;
	ret_head->skip = width;
	ret_head->children = read_big_endian(rest, width) * per_count;
	ret_head->is_container = 1;
	return 0;
}

/* The formats 0xc0 … 0xdf of the msgpack specification. */
static int head_of_marked(uint8_t type, const uint8_t *rest, size_t left,
			  struct head *ret_head)
{
	switch (type) {
	case 0xc0: /* nil */
	case 0xc2: /* false */
	case 0xc3: /* true */
		return 0;
	case 0xc4: /* bin 8, 16, 32 */
	case 0xc5:
	case 0xc6:
		return head_of_blob(rest, left, (size_t)1 << (type - 0xc4), 0,
				    ret_head);
	case 0xc7: /* ext 8, 16, 32: one type byte before the payload */
	case 0xc8:
	case 0xc9:
		return head_of_blob(rest, left, (size_t)1 << (type - 0xc7), 1,
				    ret_head);
	case 0xca: /* float 32, 64 */
	case 0xcb:
		ret_head->skip = (uint64_t)4 << (type - 0xca);
		return 0;
	case 0xcc: /* uint 8 … 64 */
	case 0xcd:
	case 0xce:
	case 0xcf:
		ret_head->skip = (uint64_t)1 << (type - 0xcc);
		return 0;
	case 0xd0: /* int 8 … 64 */
	case 0xd1:
	case 0xd2:
	case 0xd3:
		ret_head->skip = (uint64_t)1 << (type - 0xd0);
		return 0;
	case 0xd4: /* fixext 1 … 16 */
	case 0xd5:
	case 0xd6:
	case 0xd7:
	case 0xd8:
		ret_head->skip = 1 + ((uint64_t)1 << (type - 0xd4));
		return 0;
	case 0xd9: /* str 8, 16, 32 */
	case 0xda:
	case 0xdb:
		return head_of_blob(rest, left, (size_t)1 << (type - 0xd9), 0,
				    ret_head);
	case 0xdc: /* array 16, 32 */
	case 0xdd:
		return head_of_container(rest, left, (size_t)2 << (type - 0xdc),
					 1, ret_head);
	case 0xde: /* map 16, 32 */
	case 0xdf:
		return head_of_container(rest, left, (size_t)2 << (type - 0xde),
					 2, ret_head);
	default: /* 0xc1: never used */
		return -EBADMSG;
	}
}

static int head_of(uint8_t type, const uint8_t *rest, size_t left,
		   struct head *ret_head)
{
	*ret_head = (struct head){ 0 };
	if (type < 0x80 || type >= 0xe0) /* fixint */
		return 0;
	if (type < 0xa0) { /* fixmap, fixarray */
		ret_head->children = type & 0x0f;
		if (type < 0x90)
			ret_head->children *= 2;
		ret_head->is_container = 1;
		return 0;
	}
	if (type < 0xc0) { /* fixstr */
		ret_head->skip = type & 0x1f;
		return 0;
	}
	return head_of_marked(type, rest, left, ret_head);
}

int fgt_msgpack_check(const uint8_t *bytes, size_t len, unsigned int max_depth)
{
	uint64_t
		open[DEPTH_MAX]; /* objects that are left, per open container */
	uint64_t owed = 1; /* all of them: each takes a byte at least */
	unsigned int depth = 0;
	size_t at = 0;

	if (max_depth > DEPTH_MAX)
		max_depth = DEPTH_MAX;
	while (owed) {
		struct head head;

		if (at >= len ||
		    head_of(bytes[at], bytes + at + 1, len - at - 1, &head))
			return -EBADMSG;
		at++;
		owed--;
		if (head.skip > len - at)
			return -EBADMSG;
		at += (size_t)head.skip;
		if (depth)
			open[depth - 1]--;
		if (head.is_container) {
			if (depth == max_depth)
				return -EBADMSG;
			open[depth++] = head.children;
			owed += head.children;
		}
		if (owed > len - at)
			return -EBADMSG;
		while (depth && !open[depth - 1])
			depth--;
	}
	return at == len ? 0 : -EBADMSG;
}
