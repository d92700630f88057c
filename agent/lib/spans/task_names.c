/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of each name that are in use. Runs under the lock of the tasks.
 */
#include "agent/lib/spans/task_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/spans/task_table.h"
#include "ringbuf/base/hash.h"

#define BUCKETS	   4096u
#define NONE	   UINT32_MAX
#define TRACK_BITS 12 /* for N, below FGT_TASKS_MAX */
#define SERIALS	   (1u << 18)

struct name_entry {
	char name[FGT_SPAN_NAME_MAX + 1];
	uint8_t len;
	uint32_t bucket, next; /* list of the bucket */
	uint32_t serial; /* number of names before it */
	uint32_t live; /* live tasks of this name */
	uint32_t words; /* of taken */
	uint64_t *taken; /* one bit for each N */
};

static struct {
	struct name_entry *entries[FGT_TASK_NAMES_MAX];
	uint32_t count, hand, serial;
	uint32_t buckets[BUCKETS]; /* entry + 1 */
} names;

static uint32_t find(const char *name, size_t len, uint32_t bucket)
{
	uint32_t link = names.buckets[bucket];

	while (link) {
		const struct name_entry *entry = names.entries[link - 1];

		if (entry->len == len && !memcmp(entry->name, name, len))
			return link - 1;
		link = entry->next;
	}
	return NONE;
}

static void unlink_entry(uint32_t index)
{
	struct name_entry *entry = names.entries[index];
	uint32_t *link = &names.buckets[entry->bucket];

	while (*link != index + 1)
		link = &names.entries[*link - 1]->next;
	*link = entry->next;
}

/* A name without a live task: there are more entries than live tasks. */
static uint32_t recycle(void)
{
	while (names.entries[names.hand]->live)
		names.hand = (names.hand + 1) % FGT_TASK_NAMES_MAX;
	unlink_entry(names.hand);
	return names.hand;
}

static int make_entry(uint32_t *ret_index)
{
	struct name_entry *entry;

	if (names.count == FGT_TASK_NAMES_MAX) {
		*ret_index = recycle();
		return 0;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	names.entries[names.count] = entry;
	*ret_index = names.count++;
	return 0;
}

static int add(const char *name, size_t len, uint32_t bucket,
	       uint32_t *ret_index)
{
	struct name_entry *entry;
	int r = make_entry(ret_index);

	if (r < 0)
		return r;
	entry = names.entries[*ret_index];
	memcpy(entry->name, name, len);
	entry->name[len] = 0;
	entry->len = (uint8_t)len;
	entry->bucket = bucket;
	entry->serial = names.serial++ % SERIALS;
	entry->next = names.buckets[bucket];
	names.buckets[bucket] = *ret_index + 1;
	return 0;
}

/* Sets the lowest bit that is not set; grows the array if needed. */
static int take_lowest(struct name_entry *entry, uint32_t *ret_n)
{
	uint32_t word = 0, words = entry->words ? entry->words * 2 : 1;
	uint64_t *grown;

	while (word < entry->words && entry->taken[word] == UINT64_MAX)
		word++;
	if (word == entry->words) {
		grown = reallocarray(entry->taken, words, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + entry->words, 0,
		       (words - entry->words) * sizeof(*grown));
		entry->taken = grown;
		entry->words = words;
	}
	*ret_n = word * 64 + (uint32_t)__builtin_ctzll(~entry->taken[word]);
	entry->taken[word] |= UINT64_C(1) << (*ret_n % 64);
	entry->live++;
	return 0;
}

/* "name#n". Without printf(3), which takes longer than the rest of a task. */
static size_t put_text(const struct name_entry *entry, uint32_t n,
		       char *ret_text)
{
	char digits[10];
	size_t count = 0, len = entry->len;

	memcpy(ret_text, entry->name, len);
	ret_text[len++] = '#';
	do
		digits[count++] = (char)('0' + n % 10);
	while (n /= 10);
	while (count)
		ret_text[len++] = digits[--count];
	ret_text[len] = '\0';
	return len;
}

int fgt_task_name_take(const char *name, size_t len,
		       struct fgt_task_name *ret_name)
{
	uint32_t bucket = (uint32_t)(fgt_hash_bytes(name, len) % BUCKETS);
	uint32_t index = find(name, len, bucket), n = 0;
	int r = 0;

	if (index == NONE)
		r = add(name, len, bucket, &index);
	if (r == 0)
		r = take_lowest(names.entries[index], &n);
	if (r < 0)
		return r;
	ret_name->entry = index;
	ret_name->n = n;
	/* Tracks begin at 1. */
	ret_name->track = (names.entries[index]->serial << TRACK_BITS | n) + 1;
	ret_name->len =
		(uint8_t)put_text(names.entries[index], n, ret_name->text);
	return 0;
}

void fgt_task_name_release(uint32_t entry, uint32_t n)
{
	struct name_entry *released = names.entries[entry];

	released->taken[n / 64] &= ~(UINT64_C(1) << (n % 64));
	released->live--;
}

void fgt_task_names_abandon(void)
{
	memset(&names, 0, sizeof(names));
}
