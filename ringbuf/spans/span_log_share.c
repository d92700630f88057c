/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log's memfd, closed and made again while threads write to the log.
 * The memory that they use cannot be unmapped, since any thread may be about to
 * append; it can be exchanged for memory that holds the same. Runs in one
 * thread at a time; may wait for a record that is being written.
 */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/spans/span_region.h"

/* A thread that has no CPU may be in the middle of a record. */
#define SHUT_TRIES 10000

void fgt_span_log_unshare(struct fgt_span_log *log)
{
	int fd = fgt_span_log_fd(log);

	log->memfd = -1;
	fgt_fd_close(fd);
}

/* Until it is released, no thread appends to the chunk or takes it: it looks as
 * if a record were being written. */
static bool shut(struct fgt_span_chunk *chunk)
{
	for (int i = 0; i < SHUT_TRIES; i++) {
		uint64_t state = atomic_load_explicit(&chunk->state,
						      memory_order_relaxed);

		/* Acquire: pairs with the release store that ends a record. */
		if (!(state & FGT_CHUNK_BUSY) &&
		    atomic_compare_exchange_strong_explicit(
			    &chunk->state, &state, state | FGT_CHUNK_BUSY,
			    memory_order_acquire, memory_order_relaxed))
			return true;
		sched_yield();
	}
	return false;
}

static void let_go(struct fgt_span_region *region, uint32_t count)
{
	/* Release: no copied word is stored after what is appended now. */
	for (uint32_t i = 0; i < count; i++)
		atomic_fetch_and_explicit(&region->chunks[i].state,
					  ~FGT_CHUNK_BUSY,
					  memory_order_release);
}

static int shut_all(struct fgt_span_region *region, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!shut(&region->chunks[i])) {
			let_go(region, i);
			return -EBUSY;
		}
	return 0;
}

static void copy_word(_Atomic uint64_t *to, _Atomic uint64_t *from)
{
	/* Relaxed: no thread writes to either before the exchange. */
	atomic_store_explicit(to,
			      atomic_load_explicit(from, memory_order_relaxed),
			      memory_order_relaxed);
}

/* Returns the number under which the chunk was handed out, 0: never. */
static uint64_t copy_chunk(struct fgt_span_chunk *to,
			   struct fgt_span_chunk *from)
{
	uint64_t state =
		atomic_load_explicit(&from->state, memory_order_relaxed) &
		~FGT_CHUNK_BUSY;

	if (!state)
		return 0; /* not touched: it takes no memory */
	for (uint32_t i = 0; i < FGT_SPAN_CHUNK_WORDS; i++)
		copy_word(&to->words[i], &from->words[i]);
	atomic_store_explicit(&to->state, state, memory_order_relaxed);
	return fgt_chunk_number(state);
}

/* The log is shut. Writers find all that they knew of it. */
static void copy_all(struct fgt_span_region *to, const struct fgt_span_log *log)
{
	struct fgt_span_region *from = log->region;
	uint64_t next = 0;

	to->magic = from->magic;
	to->version = from->version;
	to->chunk_count = log->chunk_count;
	for (uint32_t i = 0; i < log->chunk_count; i++) {
		uint64_t number = copy_chunk(&to->chunks[i], &from->chunks[i]);

		next = number > next ? number : next;
	}
	/* Numbers handed out since found no chunk. */
	atomic_store_explicit(&to->next, next, memory_order_relaxed);
	copy_word(&to->evicted, &from->evicted);
	copy_word(&to->lost, &from->lost);
}

/* Puts the copy where the log is. */
static int exchange(struct fgt_span_log *log, struct fgt_span_region *copy)
{
	int r = shut_all(log->region, log->chunk_count);

	if (r < 0)
		return r;
	copy_all(copy, log);
	/* In one step for readers and writers. */
	if (mremap(copy, log->len_bytes, log->len_bytes,
		   MREMAP_MAYMOVE | MREMAP_FIXED, log->region) == MAP_FAILED) {
		r = -errno;
		let_go(log->region, log->chunk_count);
	}
	return r;
}

int fgt_span_log_share(struct fgt_span_log *log)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	void *copy;
	int r;

	if (fgt_span_log_fd(log) >= 0)
		return 0;
	r = fgt_memfd_open(FGT_SPAN_MEMFD_NAME, log->len_bytes, &fd);
	if (r < 0)
		return r;
	copy = mmap(NULL, log->len_bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (copy == MAP_FAILED)
		return -errno;
	r = fgt_memfd_seal(fd);
	if (r == 0)
		r = exchange(log, copy);
	if (r < 0) {
		munmap(copy, log->len_bytes);
		return r;
	}
	r = fgt_span_log_adopt(log, fd);
	if (r == 0)
		(void)FGT_TAKE_FD(fd);
	return r;
}
