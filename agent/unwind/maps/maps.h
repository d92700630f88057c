/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of one target: which PC lies in which image, and where stacks
 * end. An immutable snapshot of /proc/PID/maps; re-read when it is stale.
 *
 * MT-Safe for maps that are only read | AS-Unsafe
 */
#ifndef FGT_AGENT_UNWIND_MAPS_MAPS_H
#define FGT_AGENT_UNWIND_MAPS_MAPS_H

#include "agent/unwind/maps/image_file.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/frame.h"

struct fgt_mapping {
	uint64_t start, end; /* addresses, [start, end) */
	uint64_t offset; /* in the file */
	bool is_executable, is_writable;
	bool is_memory; /* see fgt_maps_is_memory() */
	uint32_t image; /* index in images, FGT_MAPS_NO_IMAGE */
};
#define FGT_MAPS_NO_IMAGE UINT32_MAX
#define FGT_MAPS_CONTEXTS 4

struct fgt_maps_image {
	struct fgt_image image; /* what the ring keeps of it */
	struct fgt_image_file *file; /* NULL: could not be opened */
};

struct fgt_maps {
	uint64_t serial; /* never 0, never used for two maps */
	struct fgt_mapping *mappings; /* sorted, disjoint */
	size_t count, capacity;
	struct fgt_maps_image *images;
	size_t image_count, image_capacity;
	/* Where mappings named OTEL_CTX begin, the first ones of them. */
	uint64_t contexts[FGT_MAPS_CONTEXTS];
	size_t context_count;
	bool is_incomplete; /* a file did not answer, and may when asked later */
	bool is_unanswered; /* … its server (image_server.h), and soon will */
	/* The last image that is not opened since its file system may not, or
	 * did not answer, and the type of that; "": none. */
	size_t refused_image;
	char refused_type[16];
};

/*
 * Reads the maps of a process and opens (through the cache) the ELF files of
 * its executable mappings: by map_files, else below its root, verified by
 * device and inode; the vDSO from its memory. proc_fd is a descriptor of
 * /proc/PID. Files that cannot be opened leave an image without unwind rules
 * (path and addresses known). At most 65,536 mappings are kept.
 * wait_ms: for servers of files (image_server.h); 0: as the sampler may.
 * -ESRCH process gone or a zombie, -EACCES/-EPERM (why names the remedy),
 * -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_maps_read(int proc_fd, int32_t pid, struct fgt_image_cache *cache,
		  unsigned int wait_ms, struct fgt_maps **ret_maps,
		  struct fgt_why *why);
/*
 * The same from the text of a maps file that was read already; the text is not
 * compared with the process again.
 */
int fgt_maps_parse(const char *text, size_t len, int proc_fd, int32_t pid,
		   struct fgt_image_cache *cache, struct fgt_maps **ret_maps);
void fgt_maps_free(struct fgt_maps *maps);
FGT_DEFINE_AUTO(struct fgt_maps *, fgt_maps_free);

/* The mapping that holds an address, NULL if none. */
const struct fgt_mapping *fgt_maps_find(const struct fgt_maps *maps,
					uint64_t address);

/*
 * Is a mapping of this device and inode, as maps and fstat() have them, memory
 * of processes? Anything else is a file, and reading it may take for ever.
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_maps_is_memory(uint64_t dev, uint64_t ino);

/*
 * The mapping that holds an address now, asked of the kernel (Linux 6.11):
 * without flags of access and image. proc_fd: of /proc/PID. -ENOENT there is
 * none, -ENOTTY the kernel cannot be asked; errno of open.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_maps_query(int proc_fd, uint64_t address,
		   struct fgt_mapping *ret_found);

/* True if both list the same executable mappings of the same files. */
bool fgt_maps_is_equal(const struct fgt_maps *a, const struct fgt_maps *b);

#endif
