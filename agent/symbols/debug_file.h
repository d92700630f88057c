/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file that holds a stripped image's debugging information: by
 * build id, else by .gnu_debuglink and its checksum.
 */
#ifndef FGT_AGENT_SYMBOLS_DEBUG_FILE_H
#define FGT_AGENT_SYMBOLS_DEBUG_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Where to look; borrowed. */
struct fgt_debug_search {
	const char *const *dirs; /* /usr/lib/debug, … */
	size_t dir_count;
	int root_fd; /* of the target, tried before "/"; -1: none */
};

/*
 * Opens a debug file that belongs to the image. link is the name from
 * .gnu_debuglink with its crc, NULL if there is none; image_path tells the
 * folder to look beside. -ENOENT.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_debug_file_open(const struct fgt_debug_search *search,
			const char *image_path, const uint8_t *build_id,
			size_t build_id_len, const char *link, uint32_t crc,
			int *ret_fd);

#endif
