/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory of a target may be read without waiting for a file system: a
 * read of a page of FUSE, or of a server that has gone, never returns, and the
 * sampler would stand still (fault X7).
 *
 * Runs in the sampler's thread. MT-Unsafe | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_STACKS_READABLE_H
#define FGT_AGENT_CAPTURE_STACKS_READABLE_H

#include "agent/capture/threads/process.h"
#include "agent/unwind/maps/maps.h"

struct fgt_readable_range {
	uint64_t start, end;
	uint64_t until_ns; /* asked again after it */
	bool is_memory;
};

/* Mappings that the maps do not have, or have as a file: asked one by one. */
struct fgt_readable {
	struct fgt_readable_range *ranges; /* sorted, disjoint */
	size_t count, capacity;
	bool has_no_query; /* before Linux 6.11 */
	bool is_refused; /* something was, since this was set to false */
};

/*
 * How many of len bytes at an address may be read, from its start on. maps may
 * be NULL. Where the kernel cannot be asked, only what they have is. -ENOENT no
 * mapping; errors of opening the maps.
 */
int64_t fgt_readable_bytes(struct fgt_readable *readable,
			   const struct fgt_process *process,
			   const struct fgt_maps *maps, uint64_t address,
			   size_t len);
void fgt_readable_done(struct fgt_readable *readable);

#endif
