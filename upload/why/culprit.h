/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread keeps another one waiting at a tick: the holder of the lock, or
 * the thread that will wake it, and so on to the end.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_CULPRIT_H
#define FGT_UPLOAD_WHY_CULPRIT_H

#include "upload/why/doing.h"

#define FGT_CULPRIT_DEPTH_MAX 16u

/* Followed in search of a cycle of locks. */
#define FGT_CULPRIT_CYCLE_MAX 512u

/* Threads each of which waits for a lock that the next one holds, and the last
 * for one of the first: a deadlock. */
struct fgt_lock_cycle {
	uint32_t run; /* of one of them, if there is one */
	uint32_t tick;
	uint32_t count; /* 0: there is none */
};

struct fgt_culprit {
	uint32_t run; /* of that thread, which may be the one that waits */
	uint32_t depth; /* steps to it; 0: it waits for no other thread */
	uint32_t end; /* at ticks before this one it is the same */
	bool is_cut; /* there is one more behind it */
	struct fgt_lock_cycle cycle; /* that it waits for in the end; depth 0 */
};

/*
 * Of the thread's run at a tick that it covers. with_wakers: where no holder is
 * known, the thread that will wake it is the next one. That is right for a
 * thread that was kept waiting; of threads that wait for work all day it would
 * blame the one that brings the work.
 */
struct fgt_culprit fgt_culprit_find(const struct fgt_doings *doings,
				    const struct fgt_ring_slice *slice,
				    uint32_t run, uint32_t tick,
				    bool with_wakers);

/* The cycle of locks that a run leads to at a tick. */
struct fgt_lock_cycle fgt_culprit_cycle(const struct fgt_doings *doings,
					const struct fgt_ring_slice *slice,
					uint32_t run, uint32_t tick);

/* The run of the thread that holds what a run waits for; FGT_ID_NONE. */
uint32_t fgt_culprit_holder(const struct fgt_doings *doings,
			    const struct fgt_ring_slice *slice, uint32_t run,
			    uint32_t tick);

/* The thread with that number at a tick, FGT_ID_NONE if there is none. */
uint32_t fgt_culprit_thread(const struct fgt_doings *doings,
			    const struct fgt_ring_slice *slice, int32_t tid,
			    uint32_t tick);

#endif
