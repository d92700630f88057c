/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a target's threads: arrays in one range of addresses, which
 * grow without being moved. Links are indices: half the size of pointers. Runs
 * in the sampler's thread; must not take memory for threads that there may be,
 * as it lives in other people's processes.
 */
#include "agent/capture/threads/thread_store.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_CAPACITY	   256u
#define WORD_BITS	   64u
#define WORDS_MAX	   (FGT_THREADS_MAX / WORD_BITS)
#define THREADS_PER_BUCKET 2u
#define GIVE_BACK_MIN	   64u /* threads; about a page */

_Static_assert(FGT_THREADS_MAX < 1u << 17, "hash_next can name each of them");
_Static_assert(FIRST_CAPACITY % WORD_BITS == 0, "all bits of a word are used");

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t round_up(size_t bytes)
{
	size_t page = page_bytes();

	return (bytes + page - 1) / page * page;
}

/* The next part of the range. */
static void *take(char **at, size_t bytes)
{
	void *part = *at;

	*at += round_up(bytes);
	return part;
}

/* Makes the beginning of a part usable. It may be already. */
static bool open_up(void *part, size_t bytes)
{
	return mprotect(part, round_up(bytes), PROT_READ | PROT_WRITE) == 0;
}

static uint32_t *bucket_of(const struct fgt_thread_store *store, int32_t tid)
{
	uint32_t hash = (uint32_t)tid * 2654435761u;

	return &store->buckets[(hash >> 8) & (store->bucket_count - 1)];
}

static void put_into_bucket(struct fgt_thread_store *store,
			    struct fgt_thread *thread)
{
	uint32_t *bucket = bucket_of(store, thread->tid);

	thread->hash_next = *bucket;
	*bucket = fgt_thread_store_index(store, thread) + 1;
}

static bool grow(struct fgt_thread_store *store)
{
	uint32_t capacity = store->capacity ? store->capacity * 2
					    : FIRST_CAPACITY;
	uint32_t bucket_count = capacity / THREADS_PER_BUCKET;
	struct fgt_thread *thread = NULL;

	if (capacity > FGT_THREADS_MAX ||
	    !open_up(store->items, capacity * sizeof(*store->items)) ||
	    !open_up(store->asides, capacity * sizeof(*store->asides)) ||
	    !open_up(store->buckets, bucket_count * sizeof(*store->buckets)))
		return false;
	store->capacity = capacity;
	memset(store->buckets, 0, store->bucket_count * sizeof(uint32_t));
	store->bucket_count = bucket_count;
	while ((thread = fgt_thread_store_next(store, thread)))
		put_into_bucket(store, thread);
	return true;
}

int fgt_thread_store_init(struct fgt_thread_store *store)
{
	size_t used_bytes = WORDS_MAX * sizeof(uint64_t);
	size_t bucket_bytes =
		FGT_THREADS_MAX / THREADS_PER_BUCKET * sizeof(uint32_t);
	size_t item_bytes = FGT_THREADS_MAX * sizeof(struct fgt_thread);
	size_t aside_bytes = FGT_THREADS_MAX * sizeof(struct fgt_thread_aside);
	size_t bytes = round_up(used_bytes) + round_up(bucket_bytes) +
		       round_up(item_bytes) + round_up(aside_bytes);
	char *at = mmap(NULL, bytes, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*store = (struct fgt_thread_store){ 0 };
	if (at == MAP_FAILED)
		return -ENOMEM;
	/* One huge page would take more room than most stores need. */
	(void)madvise(at, bytes, MADV_NOHUGEPAGE);
	store->memory = at;
	store->memory_bytes = bytes;
	store->used = take(&at, used_bytes);
	store->buckets = take(&at, bucket_bytes);
	store->items = take(&at, item_bytes);
	store->asides = take(&at, aside_bytes);
	if (open_up(store->used, used_bytes) && grow(store))
		return 0;
	fgt_thread_store_done(store);
	return -ENOMEM;
}

void fgt_thread_store_done(struct fgt_thread_store *store)
{
	if (store->memory)
		munmap(store->memory, store->memory_bytes);
	*store = (struct fgt_thread_store){ 0 };
}

/* The lowest hole: what is in use stays together. A full store has none. */
static uint32_t take_hole(struct fgt_thread_store *store)
{
	uint64_t *word = &store->used[store->first_hole];
	uint32_t bit;

	while (!~*word)
		word++;
	bit = (uint32_t)__builtin_ctzll(~*word);
	*word |= UINT64_C(1) << bit;
	store->first_hole = (uint32_t)(word - store->used);
	return store->first_hole * WORD_BITS + bit;
}

struct fgt_thread *fgt_thread_store_add(struct fgt_thread_store *store,
					int32_t tid)
{
	struct fgt_thread *thread;
	uint32_t index;

	if (store->count == store->capacity && !grow(store))
		return NULL;
	index = take_hole(store);
	store->count++;
	thread = &store->items[index];
	*thread = (struct fgt_thread){ .tid = tid };
	put_into_bucket(store, thread);
	return thread;
}

void fgt_thread_store_remove(struct fgt_thread_store *store,
			     struct fgt_thread *thread)
{
	uint32_t index = fgt_thread_store_index(store, thread);
	uint32_t *bucket = bucket_of(store, thread->tid);
	struct fgt_thread *before;

	if (*bucket == index + 1) {
		*bucket = thread->hash_next;
	} else {
		before = &store->items[*bucket - 1];
		while (before->hash_next != index + 1)
			before = &store->items[before->hash_next - 1];
		before->hash_next = thread->hash_next;
	}
	store->used[index / WORD_BITS] &= ~(UINT64_C(1) << (index % WORD_BITS));
	if (store->first_hole > index / WORD_BITS)
		store->first_hole = index / WORD_BITS;
	store->count--;
	store->removed_count++;
	*thread = (struct fgt_thread){ 0 };
}

struct fgt_thread *fgt_thread_store_find(const struct fgt_thread_store *store,
					 int32_t tid)
{
	uint32_t link = *bucket_of(store, tid);

	while (link) {
		struct fgt_thread *thread = &store->items[link - 1];

		if (thread->tid == tid && !thread->is_replaced)
			return thread;
		link = thread->hash_next;
	}
	return NULL;
}

struct fgt_thread *fgt_thread_store_from(const struct fgt_thread_store *store,
					 uint32_t index)
{
	uint32_t word = index / WORD_BITS;
	uint64_t bits;

	if (index >= store->capacity)
		return NULL;
	bits = store->used[word] & (UINT64_MAX << (index % WORD_BITS));
	while (!bits) {
		if (++word == store->capacity / WORD_BITS)
			return NULL;
		bits = store->used[word];
	}
	return &store->items[word * WORD_BITS +
			     (uint32_t)__builtin_ctzll(bits)];
}

struct fgt_thread *fgt_thread_store_next(const struct fgt_thread_store *store,
					 const struct fgt_thread *thread)
{
	return fgt_thread_store_from(
		store, thread ? fgt_thread_store_index(store, thread) + 1 : 0);
}

uint32_t fgt_thread_store_index(const struct fgt_thread_store *store,
				const struct fgt_thread *thread)
{
	return (uint32_t)(thread - store->items);
}

struct fgt_thread_aside *
fgt_thread_store_aside(const struct fgt_thread_store *store,
		       struct fgt_thread *thread)
{
	struct fgt_thread_aside *aside =
		&store->asides[fgt_thread_store_index(store, thread)];

	if (!thread->has_aside)
		*aside = (struct fgt_thread_aside){ .schedstat_fd = -1 };
	thread->has_aside = true;
	return aside;
}

struct fgt_thread_aside *
fgt_thread_store_find_aside(const struct fgt_thread_store *store,
			    const struct fgt_thread *thread)
{
	if (!thread->has_aside)
		return NULL;
	return &store->asides[fgt_thread_store_index(store, thread)];
}

/* The whole pages between two places. Locked ones stay: no harm. */
static void discard(void *from, void *until)
{
	uintptr_t page = page_bytes();
	uintptr_t start = ((uintptr_t)from + page - 1) / page * page;
	uintptr_t end = (uintptr_t)until / page * page;

	if (start < end)
		madvise((void *)start, end - start, MADV_DONTNEED);
}

static void discard_items(struct fgt_thread_store *store, uint32_t from,
			  uint32_t until)
{
	if (until - from < GIVE_BACK_MIN)
		return;
	discard(&store->items[from], &store->items[until]);
	discard(&store->asides[from], &store->asides[until]);
}

void fgt_thread_store_give_back(struct fgt_thread_store *store)
{
	struct fgt_thread *thread = NULL;
	uint32_t hole = 0;

	if (store->removed_count < GIVE_BACK_MIN)
		return;
	store->removed_count = 0;
	while ((thread = fgt_thread_store_next(store, thread))) {
		uint32_t index = fgt_thread_store_index(store, thread);

		discard_items(store, hole, index);
		hole = index + 1;
	}
	discard_items(store, hole, store->capacity);
}
