/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live file: what records of the span log look like in it.
 */
#ifndef FGT_AGENT_LIB_SPANS_ACTIVITY_H
#define FGT_AGENT_LIB_SPANS_ACTIVITY_H

#include <stdint.h>

#include "ringbuf/base/sink.h"
#include "ringbuf/spans/span_log.h"

/* Bytes of the events of one record, or of one of the others, at most. */
#define FGT_ACTIVITY_EVENT_MAX 4096

/*
 * The events of one record, each with its comma and newline; the form is
 * Chrome's, an array that is never closed. Nothing for what was told before.
 * Errors of the sink.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_activity_put(const struct fgt_span_record *record, int32_t pid,
		     const struct fgt_sink *sink);

/* The array's beginning: names the process, and what its clock showed. */
int fgt_activity_put_head(int32_t pid, const char *process, uint64_t mono_ns,
			  uint64_t wall_ns, const struct fgt_sink *sink);

/* So many records are missing before this. */
int fgt_activity_put_lost(uint64_t lost, int32_t pid, uint64_t mono_ns,
			  const struct fgt_sink *sink);

#endif
