/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the threads of one target are kept: each stays where it is until it is
 * removed; found by its number. Memory is taken as it is needed, and that of
 * threads given back when many are gone. All of it MT-Unsafe: the sampler's
 * thread.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_THREAD_STORE_H
#define FGT_AGENT_CAPTURE_THREADS_THREAD_STORE_H

#include "agent/capture/threads/thread.h"

struct fgt_thread_store {
	struct fgt_thread *items; /* [capacity], with holes */
	struct fgt_thread_aside *asides; /* [capacity], beside the items */
	uint64_t *used; /* a bit for each item: is it a thread? */
	uint32_t *buckets; /* [bucket_count]: index of an item + 1; 0: none */
	uint32_t count, capacity, bucket_count;
	uint32_t first_hole; /* no word of used before this one has a hole */
	uint32_t removed_count; /* since memory was last given back */
	void *memory; /* reserved for all of it */
	size_t memory_bytes;
};

/* Room for FGT_THREADS_MAX is reserved, and not taken. -ENOMEM. */
int fgt_thread_store_init(struct fgt_thread_store *store);
/* Twice is no harm. */
void fgt_thread_store_done(struct fgt_thread_store *store);

/* One of which nothing but its number is known. NULL: no memory, or full. */
struct fgt_thread *fgt_thread_store_add(struct fgt_thread_store *store,
					int32_t tid);
void fgt_thread_store_remove(struct fgt_thread_store *store,
			     struct fgt_thread *thread);

/* NULL: none. One that is replaced is not found any more. */
struct fgt_thread *fgt_thread_store_find(const struct fgt_thread_store *store,
					 int32_t tid);

/*
 * The first at this index or behind it, NULL if there is none: so all of them
 * can be visited, also while some are removed.
 */
struct fgt_thread *fgt_thread_store_from(const struct fgt_thread_store *store,
					 uint32_t index);
/* Behind a thread, which may just have been removed; NULL: the first of all. */
struct fgt_thread *fgt_thread_store_next(const struct fgt_thread_store *store,
					 const struct fgt_thread *thread);
uint32_t fgt_thread_store_index(const struct fgt_thread_store *store,
				const struct fgt_thread *thread);

/* What is kept aside of a thread; begins with no descriptor, and zeros. */
struct fgt_thread_aside *
fgt_thread_store_aside(const struct fgt_thread_store *store,
		       struct fgt_thread *thread);
/* The same if there is any, else NULL. */
struct fgt_thread_aside *
fgt_thread_store_find_aside(const struct fgt_thread_store *store,
			    const struct fgt_thread *thread);

/* Gives back the memory of those that are gone, if they are many. */
void fgt_thread_store_give_back(struct fgt_thread_store *store);

#endif
