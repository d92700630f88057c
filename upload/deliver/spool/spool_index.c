/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted array of entries. Pure.
 */
#include "upload/deliver/spool/spool_index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"

#define DIGITS 16 /* of 64 bits */

void fgt_spool_name_write(const struct fgt_spool_id *id, const char *suffix,
			  char ret_name[FGT_SPOOL_NAME_SIZE])
{
	snprintf(ret_name, FGT_SPOOL_NAME_SIZE, "%016llx-%016llx%s",
		 (unsigned long long)id->time, (unsigned long long)id->random,
		 suffix);
}

static bool read_digits(const char *text, uint64_t *ret_number)
{
	uint64_t number = 0;

	for (int i = 0; i < DIGITS; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			number = number << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			number = number << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*ret_number = number;
	return true;
}

bool fgt_spool_name_read(const char *name, const char *suffix,
			 struct fgt_spool_id *ret_id)
{
	struct fgt_spool_id id;

	if (!read_digits(name, &id.time) || name[DIGITS] != '-' ||
	    !read_digits(name + DIGITS + 1, &id.random) ||
	    strcmp(name + 2 * DIGITS + 1, suffix) != 0 ||
	    id.time > FGT_SPOOL_TIME_MAX)
		return false;
	*ret_id = id;
	return true;
}

int fgt_spool_id_compare(const struct fgt_spool_id *a,
			 const struct fgt_spool_id *b)
{
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->random > b->random) - (a->random < b->random);
}

/* Where it is, or would be. */
static size_t place_of(const struct fgt_spool_index *index,
		       const struct fgt_spool_id *id)
{
	return FGT_ARRAY_BISECT(
		i, index->count,
		fgt_spool_id_compare(&index->entries[i].id, id) < 0);
}

void fgt_spool_index_done(struct fgt_spool_index *index)
{
	free(index->entries);
	*index = (struct fgt_spool_index){ 0 };
}

int fgt_spool_index_reserve(struct fgt_spool_index *index)
{
	return FGT_ARRAY_GROW(index->entries, index->count, index->capacity);
}

int fgt_spool_index_add(struct fgt_spool_index *index,
			const struct fgt_spool_entry *entry)
{
	size_t at = place_of(index, &entry->id);
	int r = fgt_spool_index_reserve(index);

	if (r < 0)
		return r;
	if (fgt_spool_index_find(index, &entry->id))
		return -EEXIST;
	memmove(index->entries + at + 1, index->entries + at,
		(index->count - at) * sizeof(*entry));
	index->entries[at] = *entry;
	index->count++;
	index->bytes += entry->bytes;
	return 0;
}

struct fgt_spool_entry *fgt_spool_index_find(struct fgt_spool_index *index,
					     const struct fgt_spool_id *id)
{
	size_t at = place_of(index, id);

	return at < index->count && fgt_spool_id_compare(&index->entries[at].id,
							 id) == 0
		       ? &index->entries[at]
		       : NULL;
}

void fgt_spool_index_remove(struct fgt_spool_index *index,
			    const struct fgt_spool_id *id)
{
	struct fgt_spool_entry *entry = fgt_spool_index_find(index, id);
	size_t after;

	if (!entry)
		return;
	after = (size_t)(index->entries + index->count - entry) - 1;
	index->bytes -= entry->bytes;
	index->count--;
	memmove(entry, entry + 1, after * sizeof(*entry));
}

const struct fgt_spool_entry *
fgt_spool_index_oldest(const struct fgt_spool_index *index)
{
	for (size_t i = 0; i < index->count; i++)
		if (!index->entries[i].is_held)
			return &index->entries[i];
	return NULL;
}
