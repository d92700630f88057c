/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands out numbers and finds them by hash. Used by the ring's writer only;
 * must not allocate: its memory is given once.
 */
#include "ringbuf/id_table.h"

void fgt_id_table_init(struct fgt_id_table *table, uint32_t *memory,
		       uint32_t capacity)
{
	uint32_t buckets = 1;

	/* A power of two that fits into one word an id: load 1 to 2. */
	while (buckets <= capacity / 2)
		buckets *= 2;
	*table = (struct fgt_id_table){
		.capacity = capacity,
		.bucket_mask = buckets - 1,
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

void fgt_id_table_link(struct fgt_id_table *table, uint32_t id, uint64_t hash)
{
	uint32_t *bucket = &table->buckets[hash & table->bucket_mask];

	table->next[id] = *bucket;
	*bucket = id + 1;
}

void fgt_id_table_unlink(struct fgt_id_table *table, uint32_t id, uint64_t hash)
{
	uint32_t *link = &table->buckets[hash & table->bucket_mask];

	while (*link != id + 1)
		link = &table->next[*link - 1];
	*link = table->next[id];
}
