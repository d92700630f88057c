/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens in a target, as a stream: made of slices that follow each other.
 * An event is written where a thread's stack or state changes, and where a task
 * or span begins or ends; a thread that stays as it is writes nothing.
 *
 * MT-Unsafe for one stream | AS-Unsafe
 */
#ifndef FGT_AGENT_TAIL_TAIL_H
#define FGT_AGENT_TAIL_TAIL_H

#include "agent/cli/range/range.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/why/filter.h"

#define FGT_TAIL_PERIOD_MS 500 /* between two slices */
#define FGT_TAIL_DELAY_MS  150 /* later ticks may still be corrected */
/* A reader that is further behind is cut off: the ring may drop what it has
 * not read. */
#define FGT_TAIL_BEHIND_MS 10000

enum fgt_tail_form {
	/* A JSON object a line: ts (seconds since the epoch), tid, thread,
	 * state, stack (root first), or left, ended; or task, span, mark. */
	FGT_TAIL_JSON,
	/* Chrome's array without an end: "[", then an event and a comma a
	 * line. ts is in microseconds since the first tick. */
	FGT_TAIL_CHROME,
};

struct fgt_tail;

/* "json", "chrome"; -EINVAL with why. */
int fgt_tail_form_from_name(const char *name, enum fgt_tail_form *ret_form,
			    struct fgt_why *why);

/*
 * filter: a thread is in the stream while its samples pass; a line ends that
 * (left; in Chrome's form its functions end). Copied. -EINVAL with why: it asks
 * for threads that changed, which all of a stream did; -ENOMEM.
 */
int fgt_tail_new(enum fgt_tail_form form, const struct fgt_filter *filter,
		 struct fgt_tail **ret_tail, struct fgt_why *why);
void fgt_tail_free(struct fgt_tail *tail);
FGT_DEFINE_AUTO(struct fgt_tail *, fgt_tail_free);

/*
 * Writes what the slice has after the last tick of those before it. Slices must
 * be of one target, and a later one begin at fgt_tail_last_ns() or before it.
 * Errors of the sink; -ENOMEM.
 */
int fgt_tail_feed(struct fgt_tail *tail, const struct fgt_ring_slice *slice,
		  const struct fgt_sink *sink);

/* Which slice comes next: from the last tick that was written, until a moment
 * ago. */
void fgt_tail_range(const struct fgt_tail *tail, struct fgt_range *ret_range);

/* The last tick that was written, CLOCK_MONOTONIC; 0: none. */
uint64_t fgt_tail_last_ns(const struct fgt_tail *tail);

#endif
