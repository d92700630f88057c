/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest known word to a mistyped one: edits (insert, delete, replace,
 * swap of neighbours), at most a third of the word. Pure.
 */
#include "ringbuf/base/nearest.h"

#include <stdint.h>
#include <string.h>

#define WORD_MAX 32

static size_t smallest(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/* Optimal string alignment distance. */
size_t fgt_nearest_edits(const char *a, size_t a_len, const char *b,
			 size_t b_len)
{
	size_t cost[WORD_MAX + 1][WORD_MAX + 1];

	if (a_len > WORD_MAX || b_len > WORD_MAX)
		return SIZE_MAX;
	/* The beginning of a longer word is near, too. */
	if (a_len >= 2 && a_len < b_len && strncmp(a, b, a_len) == 0)
		return 1;
	for (size_t i = 0; i <= a_len; i++)
		cost[i][0] = i;
	for (size_t j = 0; j <= b_len; j++)
		cost[0][j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		for (size_t j = 1; j <= b_len; j++) {
			cost[i][j] = smallest(
				cost[i - 1][j] + 1, cost[i][j - 1] + 1,
				cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] &&
			    cost[i - 2][j - 2] + 1 < cost[i][j])
				cost[i][j] = cost[i - 2][j - 2] + 1;
		}
	}
	return cost[a_len][b_len];
}

void fgt_nearest_init(struct fgt_nearest *nearest, const char *word)
{
	*nearest = (struct fgt_nearest){ .word = word, .distance = SIZE_MAX };
}

void fgt_nearest_offer(struct fgt_nearest *nearest, const char *candidate)
{
	size_t word_len = strlen(nearest->word), len = strlen(candidate);
	size_t edits;

	if (word_len == 0)
		return;
	edits = fgt_nearest_edits(nearest->word, word_len, candidate, len);
	if (edits > (len + 2) / 3 || edits >= nearest->distance)
		return;
	/* "touch" is no "nosuch". */
	if (edits > 1 && *candidate != *nearest->word)
		return;
	nearest->best = candidate;
	nearest->distance = edits;
}
