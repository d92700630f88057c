/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of names. Runs in the daemon under the symbolizer's lock; must
 * not grow without bound, whatever targets run.
 */
#include "agent/symbols/names/name_cache.h"

#include <errno.h>
#include <string.h>

struct fgt_name_cache {
	struct fgt_name_image *images[FGT_NAME_CACHE_IMAGES_MAX];
	size_t count;
	uint64_t uses, numbers;
};

struct fgt_name_cache *fgt_name_cache_new(void)
{
	return calloc(1, sizeof(struct fgt_name_cache));
}

static void forget_names(struct fgt_name_image *image)
{
	free(image->entries);
	image->entries = NULL;
	image->count = image->capacity = 0;
	fgt_bytes_done(&image->packs);
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
	return image->packs.capacity +
	       (uint64_t)image->capacity * sizeof(*image->entries);
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

static void make_room(struct fgt_name_cache *cache)
{
	struct fgt_name_image *oldest;
	uint64_t total = 0;

	for (size_t i = 0; i < cache->count; i++)
		total += count_bytes(cache->images[i]);
	while (total > FGT_NAME_CACHE_BYTES_MAX &&
	       (oldest = find_oldest(cache, true))) {
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
	make_room(cache);
	*ret_image = image;
	return 0;
}

/* The entry of an address, or the free one where it belongs. */
static struct fgt_name_entry *find_entry(const struct fgt_name_image *image,
					 uint64_t address)
{
	uint64_t hash = address * 0x9e3779b97f4a7c15u;
	uint32_t mask = image->capacity - 1;

	for (uint32_t at = (uint32_t)(hash >> 32) & mask;;
	     at = (at + 1) & mask) {
		struct fgt_name_entry *entry = &image->entries[at];

		if (!entry->len || entry->address == address)
			return entry;
	}
}

bool fgt_name_image_find(const struct fgt_name_image *image, uint64_t address,
			 const uint8_t **ret_pack, size_t *ret_len)
{
	const struct fgt_name_entry *entry;

	if (!image->capacity)
		return false;
	entry = find_entry(image, address);
	if (!entry->len)
		return false;
	*ret_pack = image->packs.data + entry->offset;
	*ret_len = entry->len;
	return true;
}

static int grow(struct fgt_name_image *image)
{
	struct fgt_name_image grown = *image;

	grown.capacity = image->capacity ? image->capacity * 2 : 256;
	grown.entries = calloc(grown.capacity, sizeof(*grown.entries));
	if (!grown.entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < image->capacity; i++)
		if (image->entries[i].len)
			*find_entry(&grown, image->entries[i].address) =
				image->entries[i];
	free(image->entries);
	*image = grown;
	return 0;
}

int fgt_name_image_add(struct fgt_name_image *image, uint64_t address,
		       const uint8_t *pack, size_t len)
{
	struct fgt_name_entry entry = {
		.address = address,
		.offset = (uint32_t)image->packs.len,
		.len = (uint32_t)len,
	};
	int error = 0;

	if (!len || len > UINT32_MAX || image->packs.len > UINT32_MAX - len)
		return -EFBIG;
	if (image->count >= image->capacity / 4 * 3)
		error = grow(image);
	if (!error)
		error = fgt_bytes_append(&image->packs, pack, len);
	if (error)
		return error;
	*find_entry(image, address) = entry;
	image->count++;
	return 0;
}
