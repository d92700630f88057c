/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind rules of the files of the cache, within a budget of bytes: the tables
 * that were unused for longest are freed, and loaded again at their next use.
 * Runs in the sampler's thread, so no other thread may free a table that has
 * references; must not let one program's large tables take the thread's time.
 */
#include <errno.h>

#include "agent/unwind/arch/arch.h"
#include "agent/unwind/cfi/cfi_rows.h"
#include "agent/unwind/maps/image_cache.h"

/*
 * A file without a search table is read whole and sorted, in milliseconds a
 * MiB, again whenever it has been given back. Large ones together: what fits at
 * first, then as much again in a minute. The files that can be open at once
 * with smaller ones do not fill the budget.
 */
#define LARGE_BYTES ((size_t)64 << 10)
#define REFILL_NS   UINT64_C(60000000000)
/* Of addresses. A server has 768 MiB in all, of which a new table takes 128 at
 * most before another one goes. */
#define ROOM_BYTES ((size_t)512 << 20)
/* Of the code around the end of a call. */
#define BEFORE_BYTES 32u
#define AFTER_BYTES  16u

void fgt_image_cfi_refill(struct fgt_image_cache *cache, uint64_t passed_ns)
{
	uint64_t bytes = cache->cfi_max;

	if (passed_ns < REFILL_NS)
		bytes = (uint64_t)((double)bytes * (double)passed_ns /
				   (double)REFILL_NS);
	if (bytes > cache->cfi_max - cache->whole_bytes)
		bytes = cache->cfi_max - cache->whole_bytes;
	cache->whole_bytes += bytes;
}

/* ---- The order of use ---------------------------------------------------- */

static void unlink_file(struct fgt_image_file *file)
{
	struct fgt_image_cache *cache = file->cache;

	if (file->more_recent)
		file->more_recent->less_recent = file->less_recent;
	else
		cache->most_recent = file->less_recent;
	if (file->less_recent)
		file->less_recent->more_recent = file->more_recent;
	else
		cache->least_recent = file->more_recent;
}

static void link_first(struct fgt_image_file *file)
{
	struct fgt_image_cache *cache = file->cache;

	file->more_recent = NULL;
	file->less_recent = cache->most_recent;
	if (cache->most_recent)
		cache->most_recent->more_recent = file;
	else
		cache->least_recent = file;
	cache->most_recent = file;
}

void fgt_image_cfi_drop(struct fgt_image_file *file)
{
	if (!file->cfi)
		return;
	unlink_file(file);
	file->cache->counters.cfi_bytes -= file->cfi_bytes;
	file->cache->cfi_room -= file->cfi_room;
	file->cfi_bytes = file->cfi_room = 0;
	fgt_cfi_table_free(FGT_TAKE(file->cfi));
}

void fgt_image_cfi_trim(struct fgt_image_cache *cache)
{
	while (cache->counters.cfi_bytes > cache->cfi_max) {
		fgt_image_cfi_drop(cache->least_recent);
		cache->counters.given_back++;
	}
}

/* Counts what its table has grown by, and makes room by freeing other
 * tables. */
static void count_bytes(struct fgt_image_file *file)
{
	struct fgt_image_cache *cache = file->cache;
	struct fgt_image_cache_counters *counters = &cache->counters;
	size_t bytes = fgt_cfi_table_size(file->cfi);
	size_t room = fgt_cfi_table_room(file->cfi);

	counters->cfi_bytes += bytes - file->cfi_bytes;
	cache->cfi_room += room - file->cfi_room;
	file->cfi_bytes = bytes;
	file->cfi_room = room;
	while ((counters->cfi_bytes > cache->cfi_max ||
		cache->cfi_room > ROOM_BYTES) &&
	       cache->least_recent != file) {
		fgt_image_cfi_drop(cache->least_recent);
		counters->given_back++;
	}
}

/* ---- Loading ------------------------------------------------------------ */

static int load(struct fgt_image_file *file)
{
	struct fgt_image_cache *cache = file->cache;
	size_t limit = cache->whole_bytes > LARGE_BYTES ? cache->whole_bytes
							: LARGE_BYTES;
	int r;

	/* Asked for at each tick: refused once each time that it may change. */
	if (file->refused_ns == cache->now_ns + 1)
		return -EIO;
	r = fgt_cfi_table_load(&file->elf, &file->source, limit, &file->cfi);
	if (r == -ENOBUFS) {
		file->refused_ns = cache->now_ns + 1;
		cache->counters.refused_cfi++;
		return -EIO;
	}
	if (r == -ENOMEM)
		return -EIO;
	if (r < 0) {
		file->has_no_cfi = true;
		return -ENOENT;
	}
	link_first(file);
	count_bytes(file);
	if (file->cfi_bytes > LARGE_BYTES)
		cache->whole_bytes -= file->cfi_bytes < cache->whole_bytes
					      ? file->cfi_bytes
					      : cache->whole_bytes;
	return 0;
}

/* It becomes the most recent one. */
static int use(struct fgt_image_file *file)
{
	if (file->has_no_cfi)
		return -ENOENT;
	if (!file->cfi)
		return load(file);
	unlink_file(file);
	link_first(file);
	return 0;
}

int fgt_image_cfi_find(struct fgt_image_file *file, uint64_t address,
		       struct fgt_cfi_rule *ret_rule)
{
	pthread_mutex_t *lock = &file->cache->lock;
	int r;

	pthread_mutex_lock(lock);
	r = use(file);
	pthread_mutex_unlock(lock);
	if (r < 0)
		return r;
	/* May read the file: without the lock, which other threads take. */
	r = fgt_cfi_table_find(file->cfi, address, ret_rule);
	pthread_mutex_lock(lock);
	count_bytes(file);
	pthread_mutex_unlock(lock);
	return r;
}

void fgt_image_file_fix_row(struct fgt_image_file *file, uint64_t address,
			    struct fgt_cfi_row *row)
{
	uint8_t code[BEFORE_BYTES + AFTER_BYTES];
	size_t len;

	/* Such code has rules for SP alone. */
	if (row->flags || !fgt_arch_host.starts_stack)
		return;
	len = fgt_image_file_read(file, address + 1 - BEFORE_BYTES, code,
				  sizeof(code));
	if (len >= BEFORE_BYTES &&
	    fgt_arch_host.starts_stack(code, BEFORE_BYTES, code + BEFORE_BYTES,
				       len - BEFORE_BYTES))
		*row = (struct fgt_cfi_row){ .flags = FGT_CFI_ROW_ROOT };
}
