/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for things that are counted: hands out a number that was given back,
 * else the lowest that was never used, counts the references to each, and finds
 * them by hash. The things are stored by the caller. Used by the ring's writer
 * only; must not allocate after it was made.
 *
 * MT-Unsafe for one table | AS-Unsafe
 */
#ifndef FGT_RINGBUF_RING_ID_TABLE_H
#define FGT_RINGBUF_RING_ID_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_ID_NONE UINT32_MAX

/* Memory for one id: references, chain, and at most one bucket. */
#define FGT_ID_TABLE_BYTES (3 * sizeof(uint32_t))

/*
 * All zero is a valid empty table: memory is touched only as ids are used.
 * Buckets are taken into use one by one (linear hashing): a few things in a
 * table made for many would else touch a page of them each.
 */
struct fgt_id_table {
	uint32_t capacity;
	uint32_t fresh; /* ids from here on were never used */
	uint32_t released; /* head of the chain of ids given back, id + 1 */
	uint32_t used;
	uint32_t bucket_mask; /* of those that are not split */
	uint32_t split; /* buckets below have been, by one bit more */
	uint32_t buckets_max;
	/* The hash of an entry that has an id, for moves between buckets. */
	uint64_t (*hash_of)(const void *things, uint32_t id);
	const void *things;
	uint32_t *refs;
	uint32_t *next; /* in its bucket, or in the released chain; id + 1 */
	uint32_t *buckets; /* id + 1 */
};

/* Takes capacity × FGT_ID_TABLE_BYTES of zeroed memory. hash_of: NULL if
 * nothing is ever looked for by hash. */
void fgt_id_table_init(struct fgt_id_table *table, uint32_t *memory,
		       uint32_t capacity,
		       uint64_t (*hash_of)(const void *things, uint32_t id),
		       const void *things);

/* An id with one reference, or FGT_ID_NONE. */
uint32_t fgt_id_table_take(struct fgt_id_table *table);
/* Gives back an id without references that is in no bucket. */
void fgt_id_table_give(struct fgt_id_table *table, uint32_t id);

void fgt_id_table_link(struct fgt_id_table *table, uint32_t id, uint64_t hash);
void fgt_id_table_unlink(struct fgt_id_table *table, uint32_t id,
			 uint64_t hash);

static inline uint32_t fgt_id_table_bucket(const struct fgt_id_table *table,
					   uint64_t hash)
{
	uint32_t bucket = (uint32_t)hash & table->bucket_mask;

	if (bucket >= table->split)
		return bucket;
	return (uint32_t)hash & (table->bucket_mask * 2 + 1);
}

/* Candidates of a hash: first(), then next() until FGT_ID_NONE. */
static inline uint32_t fgt_id_table_first(const struct fgt_id_table *table,
					  uint64_t hash)
{
	return table->buckets[fgt_id_table_bucket(table, hash)] - 1;
}

static inline uint32_t fgt_id_table_next(const struct fgt_id_table *table,
					 uint32_t id)
{
	return table->next[id] - 1;
}

#endif
