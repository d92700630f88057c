/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files that targets have mapped, opened once and shared: descriptor,
 * program headers, build id, unwind sections. Shared by (device, inode), images
 * in memory by their bytes; never by build id, which a file only claims: a
 * hostile target could claim the one of libc and have its tables used for other
 * targets. Read with pread only: a mapping of a file that is truncated sends
 * SIGBUS.
 *
 * MT-Safe, except fgt_image_cache_rows() and fgt_image_file_find_rule() |
 * AS-Unsafe, except fgt_image_cache_forked()
 */
#ifndef FGT_AGENT_UNWIND_MAPS_IMAGE_FILE_H
#define FGT_AGENT_UNWIND_MAPS_IMAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/elf/elf_file.h"
#include "ringbuf/base/owner.h"

struct fgt_cfi_rows;
struct fgt_cfi_rule;
struct fgt_image_file; /* reference counted; MT-Safe get/put */
struct fgt_image_cache;

/* All images of one agent; bounded in number and bytes; thread-safe. */
int fgt_image_cache_new(struct fgt_image_cache **ret_cache);
void fgt_image_cache_free(struct fgt_image_cache *cache);
FGT_DEFINE_AUTO(struct fgt_image_cache *, fgt_image_cache_free);
/* In the child of a fork: closes its files; it is of no use afterwards. */
void fgt_image_cache_forked(const struct fgt_image_cache *cache);

/* Before its first use: for less than 256 MiB of unwind rules. */
void fgt_image_cache_limit_rules(struct fgt_image_cache *cache, uint64_t bytes);

/*
 * Once a second: closes files that no target has mapped for a minute, so that
 * their file systems can be unmounted; deleted ones, and all other files at the
 * latest, after kept_ns, when no ring shows them any more. now_ns:
 * CLOCK_MONOTONIC. Without it files stay open until there are too many.
 */
void fgt_image_cache_tend(struct fgt_image_cache *cache, uint64_t now_ns,
			  uint64_t kept_ns);

struct fgt_image_cache_counters {
	uint64_t files; /* open now */
	uint64_t cfi_bytes; /* of unwind rules in memory now */
	uint64_t given_back; /* tables that made room for other tables */
	uint64_t refused_cfi, refused_files; /* times that there was no room */
};
void fgt_image_cache_get_counters(
	struct fgt_image_cache *cache,
	struct fgt_image_cache_counters *ret_counters);

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

/*
 * The unwind rule of an ELF address, which holds until the next call for any
 * file of the cache: tables take the room of those that were unused for
 * longest. -ENOENT it has none, -EBADMSG the rule is broken, -EIO the file
 * cannot be read now, or there is no room for its rules now.
 *
 * MT-Unsafe: the sampler thread only | AS-Unsafe
 */
int fgt_image_file_find_rule(struct fgt_image_file *file, uint64_t address,
			     struct fgt_cfi_rule *ret_rule);

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
