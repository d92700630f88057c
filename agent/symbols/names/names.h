/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of one address as bytes: what the helper process sends and what
 * the cache keeps. Pure functions; run anywhere.
 */
#ifndef FGT_AGENT_SYMBOLS_NAMES_NAMES_H
#define FGT_AGENT_SYMBOLS_NAMES_NAMES_H

#include <stdint.h>

#include "ringbuf/slice/slice.h"

#define FGT_NAMES_MAX	   64 /* inlined calls and the function itself */
#define FGT_NAMES_TEXT_MAX 4095 /* bytes of one text, longer ones are cut */

/* Innermost inlined call first, the real function last; 0: no name. */
struct fgt_names {
	size_t count;
	struct fgt_symbol_text symbols[FGT_NAMES_MAX];
};

/* A byte buffer that grows up to a bound; zero-initialise. */
struct fgt_bytes {
	uint8_t *data;
	size_t len, capacity, limit; /* limit 0: SIZE_MAX */
};
/* -ENOMEM, -EFBIG past the limit. */
int fgt_bytes_append(struct fgt_bytes *bytes, const void *data, size_t len);
void fgt_bytes_done(struct fgt_bytes *bytes);

static inline void fgt_bytes_done_auto(struct fgt_bytes *bytes)
{
	fgt_bytes_done(bytes);
}

/* Appends the names in packed form; texts are cut at FGT_NAMES_TEXT_MAX. */
int fgt_names_pack(const struct fgt_names *names, struct fgt_bytes *bytes);

/*
 * Reads packed[len]; the texts point into it. -EBADMSG unless the bytes are
 * exactly one pack (they may come from a helper that a hostile file took
 * over).
 *
 * MT-Safe | AS-Safe
 */
int fgt_names_unpack(const uint8_t *packed, size_t len,
		     struct fgt_names *ret_names);

#endif
