/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of one address as bytes: what the helper process sends and what
 * the cache keeps. Pure functions; run anywhere.
 */
#ifndef FGT_AGENT_SYMBOLS_NAMES_NAMES_H
#define FGT_AGENT_SYMBOLS_NAMES_NAMES_H

#include <stdint.h>

#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice.h"

#define FGT_NAMES_MAX	   64 /* inlined calls and the function itself */
#define FGT_NAMES_TEXT_MAX 4095 /* bytes of one text, longer ones are cut */

/* Innermost inlined call first, the real function last; 0: no name. */
struct fgt_names {
	size_t count;
	uint64_t start; /* where a function without a name begins: an ELF
			 * address, 0: not known, or count > 0 */
	struct fgt_symbol_text symbols[FGT_NAMES_MAX];
};

/* Writes the names in packed form; texts are cut at FGT_NAMES_TEXT_MAX. */
int fgt_names_pack(const struct fgt_names *names, const struct fgt_sink *sink);

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
