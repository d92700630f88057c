/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that are a futex word without an owner: known by the function that
 * waits for them.
 */
#ifndef FGT_AGENT_SYMBOLS_LOCK_NAMES_H
#define FGT_AGENT_SYMBOLS_LOCK_NAMES_H

#include "ringbuf/slice/slice.h"

/*
 * Notifications that a lock of Rust (std, parking_lot) waits for become
 * mutexes. slice: with symbols.
 *
 * MT-Safe (for different slices) | AS-Unsafe
 */
void fgt_lock_names_apply(struct fgt_ring_slice *slice);

#endif
