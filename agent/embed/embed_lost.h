/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was lost on its way to a destination, until the next upload there reports
 * it: of the eight destinations that lost something last. A destination, which
 * may be a secret, is kept as its hash.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_EMBED_EMBED_LOST_H
#define FGT_AGENT_EMBED_EMBED_LOST_H

#include <stdint.h>

#include "upload/deliver/sentry_report.h"

/* What stands for it, in memory and in a spool. */
uint64_t fgt_embed_hash_destination(const char *destination);

void fgt_embed_lost_add(uint64_t destination, enum fgt_discard_reason reason,
			enum fgt_sentry_category category, uint32_t count);

/* Moves what was lost there to what is reported next. */
void fgt_embed_lost_take(uint64_t destination,
			 struct fgt_sentry_discards *discards);

/* In the child of a fork: the parent reports what it has lost. */
void fgt_embed_lost_forked(void);

#endif
