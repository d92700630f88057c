/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks, spans, marks and counters of a program, in a Chrome trace.
 */
#ifndef FGT_UPLOAD_FORMAT_CHROME_CHROME_TASKS_H
#define FGT_UPLOAD_FORMAT_CHROME_CHROME_TASKS_H

#include "ringbuf/base/json.h"
#include "ringbuf/slice/slice.h"

/*
 * Events for "traceEvents": tasks with their spans on tracks of a separate
 * process, arrows from task to child task, marks and counters on the process
 * pid. Times count from the slice's first tick. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_chrome_tasks_put(const struct fgt_ring_slice *slice, uint64_t pid,
			 struct fgt_json *json);

#endif
