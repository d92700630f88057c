/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the stack of a thread of this process ends, and whether the thread has
 * been near that end: a signal's frame needs room there.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_THREAD_STACK_H
#define FGT_AGENT_EMBED_SIGNAL_THREAD_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/threads/thread_table.h"

/* How this libc describes a thread; found out once, by a thread of its. */
struct fgt_thread_layout {
	uint64_t robust_offset; /* of the list of locks, in the description */
	uint64_t stack_offset; /* of stack, its size, its guard; 0: unknown */
	/* Lower than that the first thread's stack cannot grow, whatever its
	 * limit will be; 0: unknown. */
	uint64_t first_floor;
	uint64_t need_bytes; /* that a signal takes, generously: whole pages */
};

/* Learns it from the calling thread, which pthread_create(3) made.
 * MT-Safe | AS-Unsafe */
void fgt_thread_layout_learn(struct fgt_thread_layout *ret_layout);

/*
 * Lowest address of a thread's stack, 0 if that is not known: a thread that
 * pthread_create(3) did not make. *ret_high: the end of it, if it is known.
 */
uint64_t fgt_thread_stack_low(const struct fgt_thread_layout *layout,
			      int32_t tid, uint64_t *ret_high);

/* How much of its low end was never used, up to most_bytes (at most 2 MiB). */
uint64_t fgt_thread_stack_unused(uint64_t low, uint64_t most_bytes);

/* A thread's stack, as fgt_thread_stack_low() returns it; low 0: not known. */
struct fgt_thread_room {
	uint64_t low, high;
};

/*
 * True if there is room for a signal's frame, now and until the next tick. A
 * thread that was near the end of its stack may be there again. Where less than
 * a MiB is unused, a few calls may reach the end between this look and the
 * signal: true only if the thread has gone no deeper for CALM_MS. Of an active
 * thread. MT-Unsafe | AS-Unsafe
 */
bool fgt_thread_has_room(const struct fgt_thread_layout *layout,
			 const struct fgt_thread_room *room,
			 struct fgt_thread *thread, uint64_t now_ns);

#endif
