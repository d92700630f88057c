/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files that targets have mapped, opened once and shared by build id or
 * (device, inode): descriptor, program headers, build id, unwind sections.
 * Read with pread only: a mapped file that is truncated would kill us.
 */
#ifndef FGT_AGENT_UNWIND_IMAGE_FILE_H
#define FGT_AGENT_UNWIND_IMAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/frame.h"
#include "ringbuf/owner.h"

struct fgt_image_file; /* reference counted; MT-Safe get/put */
struct fgt_image_cache;

/* All images of one agent; bounded in number and bytes; thread-safe. */
int fgt_image_cache_new(struct fgt_image_cache **ret_cache);
void fgt_image_cache_free(struct fgt_image_cache *cache);
FGT_DEFINE_AUTO(struct fgt_image_cache *, fgt_image_cache_free);

void fgt_image_file_put(struct fgt_image_file *file);

/*
 * A new descriptor (caller closes) of the very file that was mapped as image,
 * kept open since it was first seen, so also after the file was deleted and
 * the target died. Found by build id, else by (dev, ino). -ENOENT.
 * The vDSO has no file: -ENOENT.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_image_cache_open_fd(struct fgt_image_cache *cache,
			    const uint8_t *build_id, size_t build_id_len,
			    uint64_t dev, uint64_t ino, int *ret_fd);

#endif
