/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest known word to a mistyped one. Pure.
 */
#ifndef FGT_RINGBUF_BASE_NEAREST_H
#define FGT_RINGBUF_BASE_NEAREST_H

#include <stddef.h>

/*
 * Offer each known word: best is then the nearest one, or NULL if none is near
 * enough.
 */
struct fgt_nearest {
	const char *word;
	const char *best;
	size_t distance;
};

void fgt_nearest_init(struct fgt_nearest *nearest, const char *word);
void fgt_nearest_offer(struct fgt_nearest *nearest, const char *candidate);

/* Edits that lead from a[a_len] to b[b_len]; SIZE_MAX for words of more than 32
 * bytes. */
size_t fgt_nearest_edits(const char *a, size_t a_len, const char *b,
			 size_t b_len);

#endif
