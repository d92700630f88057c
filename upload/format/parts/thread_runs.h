/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When which threads worked for a transaction.
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_THREAD_RUNS_H
#define FGT_UPLOAD_FORMAT_PARTS_THREAD_RUNS_H

#include <stdbool.h>

#include "ringbuf/slice/slice.h"
#include "upload/format/parts/transaction.h"

/* Did the thread work for it at any time in [begin_ns, end_ns]? With no thread_runs
 * at all everybody did. MT-Safe */
bool fgt_thread_runs_overlap(const struct fgt_thread_run *thread_runs,
			     size_t count, int32_t tid, uint64_t begin_ns,
			     uint64_t end_ns);

/*
 * Leaves in a slice what threads did for the transaction, and nothing of what
 * they did before, after and between; everything if all threads are wanted or
 * none is named. Threads keep their numbers, also those of which nothing is
 * left. -ENOMEM.
 *
 * MT-Unsafe for one slice
 */
int fgt_thread_runs_clip(const struct fgt_transaction_facts *facts,
			 struct fgt_ring_slice *slice);

#endif
