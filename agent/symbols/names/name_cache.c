/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of names. Runs in the daemon under the symbolizer's lock; must
 * not grow without bound, whatever targets run.
 */
#include "agent/symbols/names/name_cache.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"

#define PAUSE_NS      UINT64_C(60000000000)
#define PAUSE_DOUBLES 6 /* 64 minutes */

struct fgt_name_cache {
	struct fgt_name_image *images[FGT_NAME_CACHE_IMAGES_MAX];
	size_t count;
	uint64_t uses, numbers;
	const atomic_uint *shares;
};

struct fgt_name_cache *fgt_name_cache_new(const atomic_uint *shares)
{
	struct fgt_name_cache *cache = calloc(1, sizeof(*cache));

	if (cache)
		cache->shares = shares;
	return cache;
}

static void forget_names(struct fgt_name_image *image)
{
	fgt_id_map_done(&image->addresses);
	free(image->packs);
	image->packs = NULL;
	image->capacity = 0;
	fgt_memory_sink_done(&image->bytes);
}

void fgt_name_cache_free(struct fgt_name_cache *cache)
{
	if (!cache)
		return;
	for (size_t i = 0; i < cache->count; i++) {
		forget_names(cache->images[i]);
		free(cache->images[i]);
	}
	free(cache);
}

static uint64_t count_bytes(const struct fgt_name_image *image)
{
	return image->bytes.capacity_bytes +
	       (uint64_t)image->capacity * sizeof(*image->packs) +
	       fgt_id_map_count_bytes(&image->addresses);
}

static struct fgt_name_image *find_oldest(struct fgt_name_cache *cache,
					  bool with_names)
{
	struct fgt_name_image *oldest = NULL;

	for (size_t i = 0; i < cache->count; i++) {
		struct fgt_name_image *image = cache->images[i];

		if ((!with_names || image->capacity) &&
		    (!oldest || image->used < oldest->used))
			oldest = image;
	}
	return oldest;
}

void fgt_name_cache_trim(struct fgt_name_cache *cache)
{
	unsigned int shares =
		atomic_load_explicit(cache->shares, memory_order_relaxed);
	uint64_t max = FGT_NAME_CACHE_BYTES_MAX / (shares ? shares : 1);
	struct fgt_name_image *oldest;
	uint64_t total = 0;

	for (size_t i = 0; i < cache->count; i++)
		total += count_bytes(cache->images[i]);
	while (total > max && (oldest = find_oldest(cache, true))) {
		total -= count_bytes(oldest);
		forget_names(oldest);
	}
}

static int add_image(struct fgt_name_cache *cache,
		     const struct fgt_name_key *key,
		     struct fgt_name_image **ret_image)
{
	struct fgt_name_image *image;

	if (cache->count == FGT_NAME_CACHE_IMAGES_MAX) {
		image = find_oldest(cache, false);
		forget_names(image);
		memset(image, 0, sizeof(*image));
	} else {
		image = calloc(1, sizeof(*image));
		if (!image)
			return -ENOMEM;
		cache->images[cache->count++] = image;
	}
	fgt_memory_sink_init(&image->bytes, UINT32_MAX);
	image->key = *key;
	image->number = ++cache->numbers;
	*ret_image = image;
	return 0;
}

int fgt_name_cache_get(struct fgt_name_cache *cache,
		       const struct fgt_name_key *key,
		       struct fgt_name_image **ret_image)
{
	struct fgt_name_image *image = NULL;
	int error = 0;

	for (size_t i = 0; i < cache->count && !image; i++)
		if (!memcmp(&cache->images[i]->key, key, sizeof(*key)))
			image = cache->images[i];
	if (!image)
		error = add_image(cache, key, &image);
	if (error)
		return error;
	image->used = ++cache->uses;
	fgt_name_cache_trim(cache);
	*ret_image = image;
	return 0;
}

bool fgt_name_image_find(const struct fgt_name_image *image, uint64_t address,
			 const uint8_t **ret_pack, size_t *ret_len)
{
	uint32_t id = fgt_id_map_find(&image->addresses, address);

	if (id == FGT_ID_NONE)
		return false;
	*ret_pack = image->bytes.bytes + image->packs[id].offset;
	*ret_len = image->packs[id].len;
	return true;
}

int fgt_name_image_add(struct fgt_name_image *image, uint64_t address,
		       const uint8_t *pack, size_t len)
{
	const struct fgt_name_pack added = {
		.offset = (uint32_t)image->bytes.len_bytes,
		.len = (uint32_t)len,
	};
	uint32_t id;
	int error = FGT_ARRAY_GROW(image->packs, image->addresses.count,
				   image->capacity);

	if (!error)
		error = fgt_sink_write(&image->bytes.sink, pack, len);
	if (!error)
		error = fgt_id_map_add(&image->addresses, address, &id);
	if (!error)
		image->packs[id] = added;
	return error;
}

void fgt_name_image_fail(struct fgt_name_image *image, unsigned int failures,
			 uint64_t now_ns)
{
	image->failures += failures;
	if (image->failures < FGT_NAME_FAILURES_BAD)
		return;
	image->failures = FGT_NAME_FAILURES_BAD;
	image->retry_ns = now_ns + (PAUSE_NS << image->pauses);
	if (image->pauses < PAUSE_DOUBLES)
		image->pauses++;
}

void fgt_name_image_give_up(struct fgt_name_image *image)
{
	image->failures = FGT_NAME_FAILURES_BAD;
	image->retry_ns = UINT64_MAX;
}

bool fgt_name_image_may_ask(struct fgt_name_image *image, uint64_t now_ns)
{
	if (image->failures < FGT_NAME_FAILURES_BAD)
		return true;
	if (now_ns < image->retry_ns)
		return false;
	image->failures = FGT_NAME_FAILURES_DWARF - 1;
	return true;
}
