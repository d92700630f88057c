/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrows of a trace from threads to those that they woke.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_ARROWS_H
#define FGT_UPLOAD_FORMAT_PARTS_ARROWS_H

#include "ringbuf/slice/slice.h"

/* More make a trace slow to open, and hide each other. */
#define FGT_ARROWS_MAX 20000u

struct fgt_arrow {
	uint64_t at_ns; /* CLOCK_MONOTONIC, within the slice's ticks */
	uint32_t from, to; /* indexes of threads */
};

struct fgt_arrows {
	struct fgt_arrow *arrows; /* by time */
	uint32_t count;
	uint32_t left_out; /* over FGT_ARROWS_MAX, evenly over the time */
};

/* Wake-ups by threads of which the slice has samples. -ENOMEM. */
int fgt_arrows_init(struct fgt_arrows *arrows,
		    const struct fgt_ring_slice *slice);
void fgt_arrows_done(struct fgt_arrows *arrows);

#endif
