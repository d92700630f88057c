/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times at which threads worked for a transaction.
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_THREAD_RUNS_H
#define FGT_UPLOAD_FORMAT_PARTS_THREAD_RUNS_H

#include <stdbool.h>

#include "ringbuf/slice/slice.h"
#include "upload/format/parts/transaction.h"

/* Whether the thread worked for it at any time in [begin_ns, end_ns]. count 0:
 * all threads did. MT-Safe */
bool fgt_thread_runs_overlap(const struct fgt_thread_run *thread_runs,
			     size_t count, int32_t tid, uint64_t begin_ns,
			     uint64_t end_ns);

/*
 * Removes all runs from a slice that are not for the transaction; none if the
 * facts want all threads or name none. Threads without a run keep their
 * numbers. -ENOMEM.
 *
 * MT-Unsafe for one slice
 */
int fgt_thread_runs_clip(const struct fgt_transaction_facts *facts,
			 struct fgt_ring_slice *slice);

#endif
