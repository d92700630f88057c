/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's table of locks on files, /proc/locks. The kernel waits some 10 ms
 * at a read of it: another thread does that, one read for all targets, 30 times
 * a second at most. Used in the sampler's thread, which never waits for that one.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_LOCK_TABLE_H
#define FGT_AGENT_CAPTURE_THREADS_LOCK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The table as it was after since_ns; borrowed until the next call; empty where
 * it cannot be read. NULL: it is being read, ask again at one of the next ticks.
 * ret_is_whole: its end is there, too.
 */
const char *fgt_lock_table_get(uint64_t tick_ns, uint64_t since_ns,
			       bool *ret_is_whole);

#endif
