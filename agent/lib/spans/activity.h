/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live file: records of the span log as trace events.
 */
#ifndef FGT_AGENT_LIB_SPANS_ACTIVITY_H
#define FGT_AGENT_LIB_SPANS_ACTIVITY_H

#include <stdint.h>

#include "ringbuf/base/sink.h"
#include "ringbuf/spans/span_log.h"

/* The thread that writes the file, 0: none. MT-Safe */
int32_t fgt_activity_tid(void);

/* Limit of the bytes of one call. */
#define FGT_ACTIVITY_EVENT_MAX 4096

/*
 * The events of one record, each with a comma and a newline: Chrome's JSON
 * array, which is never closed. Nothing for a record that was rewritten. Errors
 * of the sink.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_activity_put(const struct fgt_span_record *record, int32_t pid,
		     const struct fgt_sink *sink);

/* The beginning of the array: name of the process, and both clocks. */
int fgt_activity_put_head(int32_t pid, const char *process, uint64_t mono_ns,
			  uint64_t wall_ns, const struct fgt_sink *sink);

/* Number of records that are missing before this time. */
int fgt_activity_put_lost(uint64_t lost, int32_t pid, uint64_t mono_ns,
			  const struct fgt_sink *sink);

#endif
