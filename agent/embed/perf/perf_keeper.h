/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread with a private table of descriptors, in which it keeps perf
 * events: the program that records itself never sees them, cannot close them
 * by mistake, and its children do not inherit them. It makes the system calls
 * on them that the sampler's thread asks for; what they write the sampler reads
 * from memory.
 */
#ifndef FGT_AGENT_EMBED_PERF_PERF_KEEPER_H
#define FGT_AGENT_EMBED_PERF_PERF_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/running/perf_event.h"

struct fgt_perf_keeper;

/*
 * Starts the thread; all signals are blocked in it. -EPERM its system calls
 * are filtered (fault S19); -ENOSYS before Linux 5.9, it has no private
 * table; errno of close_range(2) and pthread_create(3), -ENOMEM.
 */
int fgt_perf_keeper_start(struct fgt_perf_keeper **ret_keeper);
/* Ends the thread, which closes what it keeps. NULL is no harm. Not in the
 * child of a fork, which does not have the thread. */
void fgt_perf_keeper_end(struct fgt_perf_keeper *keeper);
int32_t fgt_perf_keeper_tid(const struct fgt_perf_keeper *keeper);
/* False: its system calls are filtered, or it has not carried out an order for
 * 0.2 s: a filter may have ended it. */
bool fgt_perf_keeper_works(struct fgt_perf_keeper *keeper);

/*
 * Opens an event of a thread, with a buffer of so many pages (a power of two).
 * errno of perf_event_open(2) and mmap(2), -ENOMEM; -EPERM from then on when
 * calls are filtered. -EBUSY: the keeper does not get round to it within 20 ms.
 * One thread calls at a time.
 */
int fgt_perf_keeper_open(struct fgt_perf_keeper *keeper,
			 const struct perf_event_attr *attr, int32_t tid,
			 size_t pages, struct fgt_perf_buffer *ret_buffer,
			 int *ret_fd);
/* Unmaps the buffer, too. */
void fgt_perf_keeper_close(struct fgt_perf_keeper *keeper,
			   struct fgt_perf_buffer *buffer, int fd);

#endif
