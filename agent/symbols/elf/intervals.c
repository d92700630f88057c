/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges, found by bisection. Runs in the symbol helper; must stay
 * fast with ranges that were made to be slow.
 */
#include "agent/symbols/elf/intervals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"

#define INTERVALS_MAX (4u << 20)
#define STEPS_MAX     4096 /* ranges looked at for one address */

int fgt_intervals_add(struct fgt_intervals *intervals, uint64_t low,
		      uint64_t high, uint64_t value)
{
	if (high <= low)
		return 0;
	if (intervals->count >= INTERVALS_MAX)
		return -EFBIG;
	if (FGT_ARRAY_GROW(intervals->items, intervals->count,
			   intervals->capacity))
		return -ENOMEM;
	intervals->items[intervals->count++] = (struct fgt_interval){
		.low = low, .high = high, .value = value
	};
	return 0;
}

void fgt_intervals_done(struct fgt_intervals *intervals)
{
	free(intervals->items);
	memset(intervals, 0, sizeof(*intervals));
}

/* The order is by low; at one low the widest first, so that the innermost comes
 * last. */
static int compare(const void *left, const void *right)
{
	const struct fgt_interval *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	if (a->high != b->high)
		return a->high > b->high ? -1 : 1;
	return (a->value > b->value) - (a->value < b->value);
}

void fgt_intervals_sort(struct fgt_intervals *intervals)
{
	uint64_t max_high = 0;

	FGT_ARRAY_SORT(intervals->items, intervals->count, compare);
	for (size_t i = 0; i < intervals->count; i++) {
		if (intervals->items[i].high > max_high)
			max_high = intervals->items[i].high;
		intervals->items[i].max_high = max_high;
	}
}

const struct fgt_interval *
fgt_intervals_find(const struct fgt_intervals *intervals, uint64_t address)
{
	size_t end = FGT_ARRAY_BISECT(at, intervals->count,
				      intervals->items[at].low <= address);

	for (size_t left = STEPS_MAX; end && left; end--, left--) {
		const struct fgt_interval *item = &intervals->items[end - 1];

		if (item->high > address)
			return item;
		if (item->max_high <= address)
			return NULL;
	}
	return NULL;
}
