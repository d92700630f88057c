/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images of the .fgt form, read. Runs in any thread; must not trust a
 * byte.
 */
#include <string.h>

#include "ringbuf/slice/slice_tables.h"

/* An image's keys alone take more; bounds what an array count allocates. */
#define IMAGE_BYTES_MIN 48

static void read_build_id(struct fgt_msgpack_cursor *cursor,
			  struct fgt_slice_image *image)
{
	struct fgt_msgpack_text id = fgt_msgpack_read_bin(cursor);

	if (id.len > sizeof(image->build_id)) {
		fgt_msgpack_refuse(cursor);
		return;
	}
	memcpy(image->build_id, id.bytes, id.len);
	image->build_id_len = (uint32_t)id.len;
}

static void read_image(struct fgt_msgpack_cursor *cursor,
		       struct fgt_slice_image *image)
{
	uint32_t count = fgt_msgpack_read_map(cursor);

	while (count-- && !cursor->error) {
		struct fgt_msgpack_text key = fgt_msgpack_read_str(cursor);

		if (fgt_msgpack_text_is(key, "path"))
			image->path = fgt_read_u32(cursor);
		else if (fgt_msgpack_text_is(key, "build_id"))
			read_build_id(cursor, image);
		else if (fgt_msgpack_text_is(key, "is_deleted"))
			image->is_deleted = fgt_read_u32(cursor);
		else if (fgt_msgpack_text_is(key, "bias"))
			image->bias = fgt_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "start"))
			image->start = fgt_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "end"))
			image->end = fgt_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "dev"))
			image->dev = fgt_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "ino"))
			image->ino = fgt_read_u64(cursor);
		else
			fgt_msgpack_skip(cursor);
	}
}

int fgt_slice_read_images(struct fgt_msgpack_cursor *cursor,
			  struct fgt_ring_slice *slice)
{
	int r;

	r = FGT_READ_TABLE(cursor, 1, IMAGE_BYTES_MIN, slice->images,
			   slice->image_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->image_count; i++)
		read_image(cursor, &slice->images[i]);
	return 0;
}
