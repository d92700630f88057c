/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from keys to small numbers. Runs in the thread that owns it;
 * must not be called from a signal handler (it allocates).
 */
#include "ringbuf/base/id_map.h"

#include <errno.h>
#include <stdlib.h>

#include "ringbuf/base/hash.h"

void fgt_id_map_done(struct fgt_id_map *map)
{
	free(map->keys);
	free(map->buckets);
	*map = (struct fgt_id_map){ 0 };
}

/* The bucket that holds key, or the empty one where it belongs. */
static uint32_t find_bucket(const struct fgt_id_map *map, uint64_t key)
{
	uint32_t mask = map->bucket_count - 1;
	uint32_t bucket = (uint32_t)fgt_hash_number(key ^ map->secret) & mask;

	/* Ends: at most half of the buckets are taken. */
	while (map->buckets[bucket] &&
	       map->keys[map->buckets[bucket] - 1] != key)
		bucket = (bucket + 1) & mask;
	return bucket;
}

static int grow(struct fgt_id_map *map)
{
	uint32_t capacity = map->capacity ? map->capacity * 2 : 64;
	uint64_t *keys;
	uint32_t *buckets;

	if (capacity > UINT32_MAX / 4)
		return -ENOMEM;
	keys = reallocarray(map->keys, capacity, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	map->keys = keys;
	if (!map->capacity)
		map->secret = fgt_hash_secret();
	buckets = calloc((size_t)capacity * 2, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(map->buckets);
	map->buckets = buckets;
	map->bucket_count = capacity * 2;
	map->capacity = capacity;
	for (uint32_t id = 0; id < map->count; id++)
		buckets[find_bucket(map, keys[id])] = id + 1;
	return 0;
}

int fgt_id_map_add(struct fgt_id_map *map, uint64_t key, uint32_t *ret_id)
{
	uint32_t bucket;

	if (map->count == map->capacity) {
		int r = grow(map);

		if (r)
			return r;
	}
	bucket = find_bucket(map, key);
	if (!map->buckets[bucket]) {
		map->keys[map->count] = key;
		map->buckets[bucket] = ++map->count;
	}
	*ret_id = map->buckets[bucket] - 1;
	return 0;
}

uint32_t fgt_id_map_find(const struct fgt_id_map *map, uint64_t key)
{
	uint32_t bucket;

	if (!map->count)
		return FGT_ID_NONE;
	bucket = find_bucket(map, key);
	return map->buckets[bucket] ? map->buckets[bucket] - 1 : FGT_ID_NONE;
}

int fgt_id_map_tally(uint64_t *keys, uint32_t count)
{
	struct fgt_id_map map = { 0 };
	uint32_t *counts = calloc(count ? count : 1, sizeof(*counts)), id;
	int r = counts ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < count && r == 0; i++) {
		r = fgt_id_map_add(&map, keys[i], &id);
		if (r == 0)
			counts[id]++;
	}
	for (uint32_t i = 0; i < count && r == 0; i++)
		keys[i] = counts[fgt_id_map_find(&map, keys[i])];
	fgt_id_map_done(&map);
	free(counts);
	return r;
}
