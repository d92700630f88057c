/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files that targets have mapped, opened once and shared: descriptor,
 * program headers, build id, unwind sections. Shared by (device, inode), images
 * in memory by their bytes; never by build id, which a file only claims: a
 * hostile target could claim the one of libc and have its tables used for other
 * targets. Read with pread only: a mapping of a file that is truncated sends
 * SIGBUS.
 *
 * MT-Safe, except fgt_image_cache_rows() | AS-Unsafe, except
 * fgt_image_cache_forked()
 */
#ifndef FGT_AGENT_UNWIND_MAPS_IMAGE_FILE_H
#define FGT_AGENT_UNWIND_MAPS_IMAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/elf/elf_file.h"
#include "ringbuf/base/owner.h"

struct fgt_cfi_rows;
struct fgt_cfi_table;
struct fgt_image_file; /* reference counted; MT-Safe get/put */
struct fgt_image_cache;

/* All images of one agent; bounded in number and bytes; thread-safe. */
int fgt_image_cache_new(struct fgt_image_cache **ret_cache);
void fgt_image_cache_free(struct fgt_image_cache *cache);
FGT_DEFINE_AUTO(struct fgt_image_cache *, fgt_image_cache_free);
/* In the child of a fork: closes its files; it is of no use afterwards. */
void fgt_image_cache_forked(const struct fgt_image_cache *cache);

/* The rows of all files by fgt_image_file_serial; freed with the cache. For the
 * sampler thread only. */
struct fgt_cfi_rows *fgt_image_cache_rows(struct fgt_image_cache *cache);

void fgt_image_file_put(struct fgt_image_file *file);

/* Which file: from fstat or from maps. They are equal except on some layered
 * file systems, where a look-up must open the file. */
struct fgt_image_key {
	uint64_t dev, ino;
};

/* The file already open under this key (reference), or -ENOENT. */
int fgt_image_cache_find(struct fgt_image_cache *cache,
			 const struct fgt_image_key *key,
			 struct fgt_image_file **ret_file);

/*
 * Takes over an open regular file (always: it is closed on failure). mapped:
 * the key by which maps knows it. -ENOEXEC not an ELF file for this machine,
 * -EBADMSG broken, -EMFILE all files that are kept are in use, -ENOMEM.
 */
int fgt_image_cache_add(struct fgt_image_cache *cache, int fd,
			const struct fgt_image_key *mapped,
			struct fgt_image_file **ret_file);

/* The same for an image that has no file (vDSO); the bytes are copied. */
int fgt_image_cache_add_bytes(struct fgt_image_cache *cache,
			      const uint8_t *bytes, size_t len,
			      struct fgt_image_file **ret_file);

/* Names the file as long as the cache lives; a changed file gets another. */
uint64_t fgt_image_file_serial(const struct fgt_image_file *file);

const struct fgt_elf *fgt_image_file_elf(const struct fgt_image_file *file);

/*
 * Bytes at an ELF address in a segment that is not writable, through a small
 * cache of pages. Returns how many (0 … len, short at the segment's end).
 */
size_t fgt_image_file_read(struct fgt_image_file *file, uint64_t address,
			   uint8_t *buffer, size_t len);

/* The first bytes of the file. -ENODATA, -errno */
int fgt_image_file_read_head(struct fgt_image_file *file, uint8_t *buffer,
			     size_t len);

/* Unwind rules, loaded at the first call; NULL if it has none. */
const struct fgt_cfi_table *fgt_image_file_cfi(struct fgt_image_file *file);

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
