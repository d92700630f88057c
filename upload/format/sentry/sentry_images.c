/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the images of a slice as Relay wants them in a profile. Runs in any
 * thread.
 */
#include "upload/format/sentry/sentry_images.h"

#include <stdio.h>

/*
 * Debug id of a little-endian ELF file: the build id's first 16 bytes as a UUID
 * whose first three fields have their bytes in reverse order.
 */
static void put_debug_id(struct fgt_json *json,
			 const struct fgt_slice_image *image)
{
	static const unsigned char order[16] = { 3, 2, 1,  0,  5,  4,  7,  6,
						 8, 9, 10, 11, 12, 13, 14, 15 };
	char text[40];
	size_t at = 0;

	for (size_t i = 0; i < 16; i++) {
		unsigned int byte = 0;

		if (order[i] < image->build_id_len)
			byte = image->build_id[order[i]];
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[at++] = '-';
		snprintf(text + at, 3, "%02x", byte);
		at += 2;
	}
	fgt_json_put_string(json, "debug_id", text);
}

/* Type "symbolic" stands for any file; Relay refuses "elf" in a profile. */
void fgt_sentry_images_put(const struct fgt_ring_slice *slice,
			   struct fgt_json *json)
{
	fgt_json_begin_object(json, "debug_meta");
	fgt_json_begin_array(json, "images");
	for (uint32_t i = 0; i < slice->image_count; i++) {
		const struct fgt_slice_image *image = &slice->images[i];

		if (!image->build_id_len || image->end <= image->start)
			continue;
		fgt_json_begin_object(json, NULL);
		fgt_json_put_string(json, "type", "symbolic");
		put_debug_id(json, image);
		fgt_json_put_string(json, "code_file",
				    fgt_slice_string(slice, image->path));
		fgt_json_put_hex_string(json, "image_addr", image->start);
		fgt_json_put_hex_string(json, "image_vmaddr",
					image->start - image->bias);
		fgt_json_put_uint(json, "image_size",
				  image->end - image->start);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
	fgt_json_end_object(json);
}
