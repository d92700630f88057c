/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread waits for in futex(2). For this room only; fgt_wait_read_owner()
 * is here, too.
 *
 * Runs in the sampler's thread. MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_WAITS_FUTEX_H
#define FGT_AGENT_CAPTURE_WAITS_FUTEX_H

#include "agent/capture/waits/waits.h"

#define FGT_FUTEX_LOCKED 2u /* the word of a lock that threads wait for */

/* All but the time. */
void fgt_futex_decode(const uint64_t args[6],
		      const struct fgt_wait_source *source,
		      struct fgt_wait *wait);

#endif
