/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink that keeps what it gets in memory, up to a bound.
 */
#ifndef FGT_RINGBUF_BASE_MEMORY_SINK_H
#define FGT_RINGBUF_BASE_MEMORY_SINK_H

#include <stdint.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

struct fgt_memory_sink {
	struct fgt_sink sink; /* write here; -EMSGSIZE beyond the bound */
	uint8_t *bytes;
	size_t len_bytes, capacity_bytes, max_bytes;
};

/* It must not be moved afterwards. */
void fgt_memory_sink_init(struct fgt_memory_sink *memory, size_t max_bytes);
void fgt_memory_sink_done(struct fgt_memory_sink *memory);

#endif
