/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program said of itself, in a Chrome trace.
 */
#ifndef FGT_UPLOAD_FORMAT_CHROME_CHROME_TASKS_H
#define FGT_UPLOAD_FORMAT_CHROME_CHROME_TASKS_H

#include "ringbuf/base/json.h"
#include "ringbuf/slice/slice.h"

/*
 * Events for "traceEvents": tasks with their spans on tracks of a process of
 * their own, arrows from task to child task, marks and counters on the process
 * that pid tells. Times count from the slice's first tick. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_chrome_tasks_put(const struct fgt_ring_slice *slice, uint64_t pid,
			 struct fgt_json *json);

#endif
