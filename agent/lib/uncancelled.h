/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program may cancel a thread at any point where it waits. One that did so
 * with a lock of ours, or as one of those whose end fgt_stop() waits for, would
 * leave it to nobody.
 */
#ifndef FGT_AGENT_LIB_UNCANCELLED_H
#define FGT_AGENT_LIB_UNCANCELLED_H

#include <pthread.h>

static inline int fgt_uncancelled_begin(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void fgt_uncancelled_end(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* A declaration: until the end of the block this thread is not cancelled. */
#define FGT_UNCANCELLED                                                        \
	__attribute__((cleanup(fgt_uncancelled_end), unused))                  \
	const int uncancelled_before = fgt_uncancelled_begin()

#endif
