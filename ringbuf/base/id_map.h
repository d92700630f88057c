/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives each distinct 64-bit key a number, 0, 1, 2 … in order of appearance.
 *
 * MT-Unsafe for one map | AS-Unsafe
 */
#ifndef FGT_RINGBUF_BASE_ID_MAP_H
#define FGT_RINGBUF_BASE_ID_MAP_H

#include <stdint.h>

#define FGT_ID_NONE UINT32_MAX

struct fgt_id_map {
	uint64_t *keys; /* [count], by id */
	uint32_t count, capacity;
	uint32_t *buckets; /* open addressing; id + 1, 0 = empty */
	uint32_t bucket_count;
	uint64_t secret; /* keys may be a stranger's */
};

/* { 0 } is an empty map. */
void fgt_id_map_done(struct fgt_id_map *map);

/*
 * Finds or adds; a key was added if map->count grew. -ENOMEM.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_id_map_add(struct fgt_id_map *map, uint64_t key, uint32_t *ret_id);

/* The memory that the map takes. */
static inline uint64_t fgt_id_map_count_bytes(const struct fgt_id_map *map)
{
	return (uint64_t)map->capacity * sizeof(*map->keys) +
	       (uint64_t)map->bucket_count * sizeof(*map->buckets);
}

/* Puts in the place of each key how many are equal to it, itself included.
 * -ENOMEM. MT-Safe | AS-Unsafe */
int fgt_id_map_tally(uint64_t *keys, uint32_t count);

/* FGT_ID_NONE if there is none. */
uint32_t fgt_id_map_find(const struct fgt_id_map *map, uint64_t key);

#endif
