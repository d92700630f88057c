/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's table of locks on files, /proc/locks. The kernel waits some 10 ms
 * at a read of it: another thread does that, one read for all targets. Used in the
 * sampler's thread, which never waits for that one.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_LOCK_TABLE_H
#define FGT_AGENT_CAPTURE_THREADS_LOCK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The table as it was after since_ns, and at most 2 s before this tick, 0.2 s with
 * since_ns 0; borrowed until the next call. NULL: it is being read, and will be
 * there some ticks later, or cannot be read. ret_is_whole: its end is there, too.
 */
const char *fgt_lock_table_get(uint64_t tick_ns, uint64_t since_ns,
			       bool *ret_is_whole);

#endif
