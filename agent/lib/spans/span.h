/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans, for the other files of this room.
 */
#ifndef FGT_AGENT_LIB_SPANS_SPAN_H
#define FGT_AGENT_LIB_SPANS_SPAN_H

#include "agent/lib/spans/journal.h"

/* The innermost active span of the current task, and the track of that task. 0:
 * none. */
uint64_t fgt_span_innermost(const struct fgt_caller *self, uint32_t *ret_track);

/* In the child of a fork. AS-Safe */
void fgt_spans_forked(void);

#endif
