/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library's own, in somebody else's program.
 */
#ifndef FGT_AGENT_LIB_OWN_THREAD_H
#define FGT_AGENT_LIB_OWN_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * One with a small stack that gets none of the program's signals. errno of
 * pthread_create(3), negative. MT-Safe | AS-Unsafe
 */
int fgt_own_thread_start(size_t stack_bytes, void *(*run)(void *),
			 pthread_t *ret_thread);

#endif
