/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the span log of another process. Any thread; must not map the memfd:
 * the kernel would charge its holes to this process, and end it where it has no
 * page for one.
 */
#include "ringbuf/spans/span_log.h"

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/spans/span_region.h"

static int read_at(int memfd, void *to, size_t len, size_t at)
{
	ssize_t n = pread(memfd, to, len, (off_t)at);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EINVAL;
}

static int read_state(int memfd, size_t at, uint64_t *ret_state)
{
	int r = read_at(memfd, ret_state, sizeof(*ret_state), at);

	/* Nothing is read before, or after, it that should not be. */
	atomic_thread_fence(memory_order_seq_cst);
	return r;
}

/* Leaves it empty if it changed hands during the copy. */
static int copy_chunk(int memfd, struct fgt_span_region *to, uint32_t index)
{
	size_t at = fgt_span_region_bytes(index);
	struct fgt_span_chunk *chunk = &to->chunks[index];
	uint64_t state, after;
	int r = read_state(memfd, at, &state);

	if (r < 0 || !state || fgt_chunk_used(state) > FGT_SPAN_CHUNK_WORDS)
		return r;
	r = read_at(memfd, chunk->words,
		    fgt_chunk_used(state) * sizeof(chunk->words[0]),
		    at + offsetof(struct fgt_span_chunk, words));
	if (r == 0)
		r = read_state(memfd, at, &after);
	if (r == 0 && fgt_chunk_number(after) == fgt_chunk_number(state))
		atomic_store_explicit(&chunk->state, state,
				      memory_order_relaxed);
	return r;
}

/* Chunks that were never used are not read: they stay without memory. */
static int copy_all(int memfd, struct fgt_span_log *log)
{
	struct fgt_span_region *region = log->region;
	uint64_t next;
	int r = read_at(memfd, region, sizeof(*region), 0);

	if (r < 0)
		return r;
	if (region->magic != FGT_SPAN_REGION_MAGIC ||
	    region->version != FGT_SPAN_REGION_VERSION ||
	    region->chunk_count != log->chunk_count)
		return -EINVAL;
	next = atomic_load_explicit(&region->next, memory_order_relaxed);
	for (uint32_t i = 0; i < log->chunk_count && i < next && r == 0; i++)
		r = copy_chunk(memfd, region, i);
	return r;
}

int fgt_span_log_open(int memfd, struct fgt_span_log **ret_log)
{
	FGT_AUTO(fgt_span_log_free) struct fgt_span_log *log = NULL;
	struct stat status;
	int r;

	if (!fgt_memfd_is_sealed(memfd) || fstat(memfd, &status) ||
	    status.st_size < (off_t)fgt_span_region_bytes(1) ||
	    status.st_size > (off_t)FGT_SPAN_LOG_BYTES_MAX)
		return -EINVAL;
	/* Chunks by the size of the file, which is sealed; not by its header.
	 */
	r = fgt_span_log_make(
		(uint32_t)((size_t)status.st_size / FGT_SPAN_LOG_CHUNK_BYTES -
			   1),
		&log);
	if (r == 0)
		r = fgt_span_log_map(log);
	if (r == 0)
		r = copy_all(memfd, log);
	if (r == 0)
		*ret_log = FGT_TAKE(log);
	return r;
}
