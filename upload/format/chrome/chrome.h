/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the two parts of a Chrome trace: threads, and tasks with their spans,
 * marks and counters.
 */
#ifndef FGT_UPLOAD_FORMAT_CHROME_CHROME_H
#define FGT_UPLOAD_FORMAT_CHROME_CHROME_H

#include "ringbuf/base/json.h"
#include "ringbuf/slice/slice.h"

/* Readers keep 32 bits without a sign, and 0 is their idle thread. */
static inline uint64_t fgt_chrome_id(int32_t id)
{
	return id > 0 ? (uint64_t)id : INT32_MAX;
}

/* The name, unless speedscope would read the file as a DevTools profile. */
const char *fgt_chrome_safe_name(const char *name);

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
