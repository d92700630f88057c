/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files that targets have mapped, opened once and shared: descriptor,
 * program headers, build id, unwind sections. Shared by (device, inode), images
 * in memory by their bytes, among the processes of one user; never by build id,
 * which a file only claims: a hostile target could claim the one of libc and
 * have its tables used for other targets. Where the files belong to other users
 * than this process, a server reads them (image_server.h). Read with pread
 * only: a mapping of a file that is truncated sends SIGBUS.
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

#define FGT_IMAGE_PAGE_BYTES 4096u

/* All images of one agent; bounded in number and bytes; thread-safe. */
int fgt_image_cache_new(struct fgt_image_cache **ret_cache);
void fgt_image_cache_free(struct fgt_image_cache *cache);
FGT_DEFINE_AUTO(struct fgt_image_cache *, fgt_image_cache_free);
/* In the child of a fork: closes its files; it is of no use afterwards. */
void fgt_image_cache_forked(const struct fgt_image_cache *cache);

/* For less than the 256 MiB of unwind rules that it begins with, or so many
 * again. */
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
	/* Who mapped it (fgt_maps_user()); 0 where this process reads the files
	 * itself. */
	uint64_t user;
};

/* Are its files another process's to read, apart for each user? */
bool fgt_image_cache_is_served(const struct fgt_image_cache *cache);

/* The file already open under this key (reference), or -ENOENT. */
int fgt_image_cache_find(struct fgt_image_cache *cache,
			 const struct fgt_image_key *key,
			 struct fgt_image_file **ret_file);

/*
 * Takes over an open regular file (always: it is closed on failure). mapped:
 * the key by which maps knows it. wait_ms: for a server's answer, 0: as briefly
 * as the sampler may. -ENOEXEC not an ELF file for this machine, -EBADMSG
 * broken, -EMFILE all files that are kept are in use, -EINPROGRESS its server
 * has not answered, -ENOMEM.
 */
int fgt_image_cache_add(struct fgt_image_cache *cache, int fd,
			const struct fgt_image_key *mapped,
			unsigned int wait_ms, struct fgt_image_file **ret_file);

/* The same for an image that has no file (vDSO); the bytes are copied. */
int fgt_image_cache_add_bytes(struct fgt_image_cache *cache,
			      const uint8_t *bytes, size_t len, uint64_t user,
			      unsigned int wait_ms,
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

/* A page by its number, past the cache; the last one is shorter. wait_ms as
 * above. -ENODATA, -EAGAIN, -errno */
int fgt_image_file_read_page(struct fgt_image_file *file, unsigned int wait_ms,
			     uint64_t number, uint8_t *bytes,
			     uint32_t *ret_len);

/* The first page of the file. -ENODATA, -EAGAIN, -errno */
int fgt_image_file_read_head(struct fgt_image_file *file, unsigned int wait_ms,
			     uint8_t buffer[FGT_IMAGE_PAGE_BYTES]);

/*
 * The unwind rule of an ELF address, which holds until the next call for any
 * file of the cache: tables take the room of those that were unused for
 * longest. -ENOENT it has none, -EBADMSG the rule is broken, -EIO the file
 * cannot be read now, or there is no room for its rules now, -EAGAIN its server
 * has not answered yet.
 *
 * MT-Unsafe: the sampler thread only | AS-Unsafe
 */
int fgt_image_file_find_rule(struct fgt_image_file *file, uint64_t address,
			     struct fgt_cfi_rule *ret_rule);

/* The function of an address. Errors and thread: as above. */
struct fgt_image_function {
	uint64_t start, end; /* ELF addresses */
	bool is_signal_frame;
	uint32_t saved; /* fgt_cfi_rule_count_saved(), if has_saved */
};
int fgt_image_file_find_function(struct fgt_image_file *file, uint64_t address,
				 bool has_saved,
				 struct fgt_image_function *ret_function);

struct fgt_cfi_row;
/* Makes *row that of a root if the code around that address begins a stack,
 * which rules do not know. */
void fgt_image_file_fix_row(struct fgt_image_file *file, uint64_t address,
			    struct fgt_cfi_row *row);

/*
 * The row of an address from the file's server. 0: *ret_row can be kept;
 * -EAGAIN, -EIO: it is to be used once. -ENOSYS: there is no server. Thread: as
 * above.
 */
int fgt_image_file_find_row(struct fgt_image_file *file, uint64_t address,
			    struct fgt_cfi_row *ret_row);

/* How many answers have not come in time, so far: a stack is cut where it
 * changes. For the sampler thread only. */
const uint64_t *fgt_image_cache_late(const struct fgt_image_cache *cache);
void fgt_image_file_count_late(struct fgt_image_file *file);

/*
 * A new descriptor (caller closes) of the very file that was mapped as image,
 * kept open since it was first seen, so also after the file was deleted and
 * the target died. Found by build id, else by (dev, ino). -ENOENT.
 * The vDSO has no file: -ENOENT. With servers, only what a process with that
 * real or effective uid (key->user) had mapped.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_image_cache_open_fd(struct fgt_image_cache *cache,
			    const uint8_t *build_id, size_t build_id_len,
			    const struct fgt_image_key *key, int *ret_fd);

#endif
