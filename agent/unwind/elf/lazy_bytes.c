/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pages of a file when they are needed. A mapping of the file would send
 * SIGBUS when the file is truncated. Runs in any thread; a page that was read
 * never changes.
 */
#include "agent/unwind/elf/elf_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE_BYTES 4096u

struct fgt_lazy_bytes {
	struct fgt_elf_source source;
	uint64_t offset; /* of the first byte in the file */
	uint8_t *bytes; /* [len], mapped: untouched pages take no room */
	size_t len;
	struct stat file; /* at first; all zero without one */
	atomic_size_t read_bytes; /* only grows; written under the lock */
	/* Protects reading into bytes; nests inside that of an image cache. */
	pthread_mutex_t lock;
	atomic_bool is_read[]; /* [pages of len]; false to true only */
};

void fgt_lazy_bytes_free(struct fgt_lazy_bytes *lazy)
{
	if (!lazy)
		return;
	if (lazy->bytes)
		munmap(lazy->bytes, lazy->len);
	pthread_mutex_destroy(&lazy->lock);
	free(lazy);
}

int fgt_lazy_bytes_new(const struct fgt_elf_source *source, uint64_t offset,
		       size_t len, struct fgt_lazy_bytes **ret_lazy)
{
	size_t page_count = (len - 1) / PAGE_BYTES + 1;
	FGT_AUTO(fgt_lazy_bytes_free)
	struct fgt_lazy_bytes *lazy =
		calloc(1, sizeof(*lazy) + page_count * sizeof(atomic_bool));
	void *bytes;

	if (!lazy)
		return -ENOMEM;
	pthread_mutex_init(&lazy->lock, NULL);
	lazy->source = *source;
	lazy->offset = offset;
	lazy->len = len;
	/* A page that stays zero takes no memory. */
	if (!source->bytes)
		(void)fstat(source->fd, &lazy->file);
	bytes = mmap(NULL, len, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED)
		return -ENOMEM;
	/* One huge page would take more room than all that is saved here. */
	(void)madvise(bytes, len, MADV_NOHUGEPAGE);
	lazy->bytes = bytes;
	*ret_lazy = FGT_TAKE(lazy);
	return 0;
}

uint8_t *fgt_lazy_bytes_get(struct fgt_lazy_bytes *lazy)
{
	return lazy->bytes;
}

size_t fgt_lazy_bytes_size(const struct fgt_lazy_bytes *lazy)
{
	/* Relaxed: a number for a budget, which orders nothing. */
	return sizeof(*lazy) + lazy->len / PAGE_BYTES +
	       atomic_load_explicit(&lazy->read_bytes, memory_order_relaxed);
}

/* Acquire: pairs with the release of read_pages(). */
static bool is_read(struct fgt_lazy_bytes *lazy, size_t page)
{
	return atomic_load_explicit(&lazy->is_read[page], memory_order_acquire);
}

/*
 * True if the descriptor is still of the same file: a program that closes all
 * descriptors may reuse the number. A file that was overwritten without a
 * change of size counts as the same: the target runs the new bytes, too.
 */
static bool is_same_file(const struct fgt_lazy_bytes *lazy)
{
	const struct stat *then = &lazy->file;
	struct stat now;

	return lazy->source.bytes ||
	       (fstat(lazy->source.fd, &now) == 0 &&
		now.st_dev == then->st_dev && now.st_ino == then->st_ino &&
		now.st_size == then->st_size);
}

/* Pages [first, end), none of which was read. Lock held. */
static bool read_pages(struct fgt_lazy_bytes *lazy, size_t first, size_t end)
{
	size_t at = first * PAGE_BYTES, len = (end - first) * PAGE_BYTES;

	if (len > lazy->len - at)
		len = lazy->len - at;
	if (!is_same_file(lazy) ||
	    fgt_elf_source_read(&lazy->source, lazy->offset + at,
				lazy->bytes + at, len) < 0)
		return false;
	atomic_fetch_add_explicit(&lazy->read_bytes, len, memory_order_relaxed);
	for (size_t page = first; page < end; page++)
		/* Release: pairs with the acquire of is_read(). */
		atomic_store_explicit(&lazy->is_read[page], true,
				      memory_order_release);
	return true;
}

/* Those of [first, end) that are missing, as many at once as can be. */
static bool read_missing(struct fgt_lazy_bytes *lazy, size_t first, size_t end)
{
	bool is_whole = true;

	pthread_mutex_lock(&lazy->lock);
	while (first < end && is_whole) {
		size_t next = first;

		while (next < end && !is_read(lazy, next))
			next++;
		if (next > first)
			is_whole = read_pages(lazy, first, next);
		first = next + 1;
	}
	pthread_mutex_unlock(&lazy->lock);
	return is_whole;
}

bool fgt_lazy_bytes_need(struct fgt_lazy_bytes *lazy, uint64_t at, uint64_t len)
{
	size_t first, end;

	if (at >= lazy->len || !len)
		return true;
	if (len > lazy->len - at)
		len = lazy->len - at;
	first = at / PAGE_BYTES;
	end = (at + len - 1) / PAGE_BYTES + 1;
	while (first < end && is_read(lazy, first))
		first++;
	return first == end || read_missing(lazy, first, end);
}
