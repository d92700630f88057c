/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a stream, in both forms. Only for tail.c.
 *
 * MT-Unsafe for one stream | AS-Unsafe
 */
#ifndef FGT_AGENT_TAIL_TAIL_EVENT_H
#define FGT_AGENT_TAIL_TAIL_EVENT_H

#include "agent/tail/tail.h"
#include "upload/format/parts/levels.h"

#define FGT_TAIL_STACK_BYTES ((size_t)64 << 10) /* names of one stack */

/* Names from the root on, each with its NUL. */
struct fgt_tail_stack {
	char *names; /* owned */
	size_t len;
};

/* A thread as it was last. */
struct fgt_tail_thread {
	int32_t tid;
	uint64_t start_time;
	char state[32]; /* "": it is new, or does not pass */
	struct fgt_tail_stack stack;
	bool is_named; /* in the stream */
	uint64_t until_ns; /* the tick after its last one */
};

struct fgt_tail_event {
	enum fgt_tail_form form;
	const struct fgt_sink *sink;
	int32_t pid;
	uint64_t base_ns; /* ts 0 of Chrome's form */
	uint64_t at_ns; /* of the next event */
};

/* All: errors of the sink. */
int fgt_tail_put_begin(struct fgt_tail_event *event,
		       const struct fgt_ring_slice *slice);
/* thread still has its former stack. */
int fgt_tail_put_change(struct fgt_tail_event *event,
			const struct fgt_ring_slice *slice,
			const struct fgt_slice_thread *named,
			struct fgt_tail_thread *thread,
			const struct fgt_tail_stack *stack);
/* why: "ended", or "left": it is no longer in the stream. */
int fgt_tail_put_end(struct fgt_tail_event *event,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_tail_thread *thread, const char *why);
/* Tasks and spans that began or ended, and marks, after after_ns up to at_ns,
 * in threads that the filter names. */
int fgt_tail_put_spans(struct fgt_tail_event *event,
		       const struct fgt_ring_slice *slice,
		       const struct fgt_filter *filter, uint64_t after_ns);

#endif
