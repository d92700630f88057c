/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands out numbers and finds them by hash. Used by the ring's writer only;
 * must not allocate: its memory is given once.
 */
#include "ringbuf/ring/id_table.h"

#define FIRST_BUCKETS 1024u /* a page */

void fgt_id_table_init(struct fgt_id_table *table, uint32_t *memory,
		       uint32_t capacity,
		       uint64_t (*hash_of)(const void *things, uint32_t id),
		       const void *things)
{
	uint32_t buckets = 1;

	/* A power of two that fits into one word an id: load 1 to 2. */
	while (buckets <= capacity / 2)
		buckets *= 2;
	*table = (struct fgt_id_table){
		.capacity = capacity,
		.bucket_mask =
			(buckets < FIRST_BUCKETS ? buckets : FIRST_BUCKETS) - 1,
		.buckets_max = buckets,
		.hash_of = hash_of,
		.things = things,
		.refs = memory,
		.next = memory + capacity,
		.buckets = memory + 2 * (size_t)capacity,
	};
}

uint32_t fgt_id_table_take(struct fgt_id_table *table)
{
	uint32_t id;

	if (table->released) {
		id = table->released - 1;
		table->released = table->next[id];
	} else if (table->fresh < table->capacity) {
		id = table->fresh++;
	} else {
		return FGT_ID_NONE;
	}
	table->next[id] = 0;
	table->refs[id] = 1;
	table->used++;
	return id;
}

void fgt_id_table_give(struct fgt_id_table *table, uint32_t id)
{
	table->next[id] = table->released;
	table->released = id + 1;
	table->used--;
}

/* Spreads what is in the next bucket over that one and a new one. */
static void split_next(struct fgt_id_table *table)
{
	uint32_t bit = table->bucket_mask + 1, bucket = table->split;
	uint32_t *kept = &table->buckets[bucket];
	uint32_t *moved = &table->buckets[bucket + bit];
	uint32_t at = *kept;

	while (at) {
		uint32_t id = at - 1;
		bool is_moved = table->hash_of(table->things, id) & bit;
		uint32_t **link = is_moved ? &moved : &kept;

		at = table->next[id];
		**link = id + 1;
		*link = &table->next[id];
	}
	*kept = *moved = 0;
	if (++table->split < bit)
		return;
	table->split = 0;
	table->bucket_mask = table->bucket_mask * 2 + 1;
}

void fgt_id_table_link(struct fgt_id_table *table, uint32_t id, uint64_t hash)
{
	uint32_t in_use = table->bucket_mask + 1 + table->split;
	uint32_t *bucket;

	if (table->used > in_use && in_use < table->buckets_max)
		split_next(table);
	bucket = &table->buckets[fgt_id_table_bucket(table, hash)];
	table->next[id] = *bucket;
	*bucket = id + 1;
}

void fgt_id_table_unlink(struct fgt_id_table *table, uint32_t id, uint64_t hash)
{
	uint32_t *link = &table->buckets[fgt_id_table_bucket(table, hash)];

	while (*link != id + 1)
		link = &table->next[*link - 1];
	*link = table->next[id];
}
