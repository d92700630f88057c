/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of distinct strings: one block of bytes, one of offsets, and an
 * open-addressing index over both. Runs in any thread that owns the table;
 * must not be called from a signal handler (it allocates).
 */
#include "ringbuf/base/strings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/hash.h"

/* The bucket that holds text, or the empty one where it belongs. */
static uint32_t find_bucket(const struct fgt_strings *strings, const char *text,
			    size_t len)
{
	uint32_t mask = strings->bucket_count - 1;
	uint32_t bucket = (uint32_t)fgt_hash_more(strings->secret, text, len) &
			  mask;

	/* Ends: at most half of the buckets are taken. */
	for (; strings->buckets[bucket]; bucket = (bucket + 1) & mask) {
		uint32_t id = strings->buckets[bucket] - 1;
		const char *known = strings->bytes + strings->offsets[id];

		if (!strncmp(known, text, len) && known[len] == '\0')
			break;
	}
	return bucket;
}

static int grow_index(struct fgt_strings *strings)
{
	uint32_t bucket_count =
		strings->bucket_count ? strings->bucket_count * 2 : 64;
	uint32_t *buckets;

	if (strings->count < strings->bucket_count / 2)
		return 0;
	if (bucket_count < strings->bucket_count)
		return -ENOMEM;
	buckets = calloc(bucket_count, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(strings->buckets);
	strings->buckets = buckets;
	strings->bucket_count = bucket_count;
	for (uint32_t id = 0; id < strings->count; id++) {
		const char *text = strings->bytes + strings->offsets[id];

		buckets[find_bucket(strings, text, strlen(text))] = id + 1;
	}
	return 0;
}

static int grow_bytes(struct fgt_strings *strings, size_t added)
{
	size_t needed = strings->len_bytes + added;

	/* Offsets are 32 bits wide. */
	if (needed > UINT32_MAX)
		return -ENOMEM;
	return FGT_ARRAY_RESERVE(strings->bytes, needed,
				 strings->capacity_bytes);
}

int fgt_strings_init(struct fgt_strings *strings)
{
	uint32_t id;
	int error;

	memset(strings, 0, sizeof(*strings));
	strings->secret = fgt_hash_secret();
	error = fgt_strings_intern(strings, "", 0, &id);
	if (error)
		fgt_strings_done(strings);
	return error;
}

void fgt_strings_done(struct fgt_strings *strings)
{
	free(strings->bytes);
	free(strings->offsets);
	free(strings->buckets);
	memset(strings, 0, sizeof(*strings));
}

int fgt_strings_intern(struct fgt_strings *strings, const char *text,
		       size_t len, uint32_t *ret_id)
{
	uint32_t bucket;
	int error;

	if (len > FGT_STRING_MAX)
		len = FGT_STRING_MAX;
	if (len)
		len = strnlen(text, len);
	if (!len)
		text = "";
	error = grow_index(strings);
	if (error)
		return error;
	bucket = find_bucket(strings, text, len);
	if (strings->buckets[bucket]) {
		*ret_id = strings->buckets[bucket] - 1;
		return 0;
	}
	error = FGT_ARRAY_GROW(strings->offsets, strings->count,
			       strings->capacity);
	if (error)
		return error;
	error = grow_bytes(strings, len + 1);
	if (error)
		return error;
	memcpy(strings->bytes + strings->len_bytes, text, len);
	strings->bytes[strings->len_bytes + len] = '\0';
	strings->offsets[strings->count] = (uint32_t)strings->len_bytes;
	strings->len_bytes += len + 1;
	strings->buckets[bucket] = ++strings->count;
	*ret_id = strings->count - 1;
	return 0;
}

const char *fgt_strings_get(const struct fgt_strings *strings, uint32_t id)
{
	if (id >= strings->count)
		return "";
	return strings->bytes + strings->offsets[id];
}
