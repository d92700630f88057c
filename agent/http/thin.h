/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice at a lower rate: every second tick, every third, …
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_THIN_H
#define FGT_AGENT_HTTP_THIN_H

#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/*
 * Lowers the rate to the nearest part of it (1/2, 1/3, …) that is at most hz,
 * or above it by up to 2.5 %; hz 0: nothing. Times of switches
 * between two ticks are dropped. -EINVAL with why: it was recorded at a lower
 * rate. -ENODATA: fewer than two ticks are left. -ENOMEM.
 */
int fgt_web_thin(struct fgt_ring_slice *slice, uint32_t hz,
		 struct fgt_why *why);

#endif
