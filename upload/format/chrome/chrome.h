/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the parts of a Chrome trace: what threads did, and tasks with their
 * spans, marks and counters.
 */
#ifndef FGT_UPLOAD_FORMAT_CHROME_CHROME_H
#define FGT_UPLOAD_FORMAT_CHROME_CHROME_H

#include "ringbuf/base/json.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/parts/options.h"

/* Readers keep 32 bits without a sign, and 0 is their idle thread. */
static inline uint64_t fgt_chrome_id(int32_t id)
{
	return id > 0 ? (uint64_t)id : INT32_MAX;
}

/* An event up to its tid. */
void fgt_chrome_begin(struct fgt_json *json, const char *name,
		      const char *phase, uint64_t pid, uint64_t tid);

/* As µs, without decimals if there are none. */
void fgt_chrome_put_us(struct fgt_json *json, const char *key, uint64_t ns);

/* Ends an event that has its args open. */
void fgt_chrome_end_args(struct fgt_json *json);

/* "process_name" or "thread_name" */
void fgt_chrome_put_name(struct fgt_json *json, const char *kind, uint64_t pid,
			 uint64_t tid, const char *name);

/*
 * Events for "traceEvents": what threads did, on their tracks.
 * Times count from the slice's first tick. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_chrome_runs_put(const struct fgt_ring_slice *slice,
			enum fgt_state_frames state_frames,
			struct fgt_json *json);

/*
 * Events for "traceEvents": arrows to threads from those that woke them.
 * ret_left_out: how many there are beyond what a trace has. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_chrome_wakes_put(const struct fgt_ring_slice *slice,
			 struct fgt_json *json, uint32_t *ret_left_out);

/*
 * Events for "traceEvents": tasks with their spans on tracks of a separate
 * process, arrows from task to child task, marks on their threads, counters on
 * the process pid. Times count from the slice's first tick. -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_chrome_tasks_put(const struct fgt_ring_slice *slice, uint64_t pid,
			 struct fgt_json *json);

#endif
