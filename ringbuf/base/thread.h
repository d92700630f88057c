/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that get no signal: signals are the program's, or for the thread that
 * waits for them.
 */
#ifndef FGT_RINGBUF_BASE_THREAD_H
#define FGT_RINGBUF_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * Starts a thread with all signals blocked. stack_bytes: of its stack, the
 * program's thread-local variables not counted; 0: as usual, 64 KiB
 * at least. ret_thread NULL: the thread is detached. Negative errno of
 * pthread_create(3).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_thread_start(size_t stack_bytes, void *(*run)(void *), void *context,
		     pthread_t *ret_thread);

#endif
