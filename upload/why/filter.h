/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a slice: some threads, states or functions.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_FILTER_H
#define FGT_UPLOAD_WHY_FILTER_H

#include <stdbool.h>

#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/* Patterns are those of fnmatch(3); NULL: all. { 0 } takes everything. */
struct fgt_filter {
	const char *thread; /* its name, or its number */
	const char *state; /* "futex", "epoll_*"; "blocked": all but running and
			    * runnable */
	const char *function; /* anywhere on the stack; "f" is f(int), too */
	bool is_running; /* or runnable */
	bool is_busy; /* threads that have changed at all */
};

bool fgt_filter_is_any(const struct fgt_filter *filter);

/* With its own patterns, for fgt_filter_done(). -ENOMEM. */
int fgt_filter_copy(const struct fgt_filter *filter,
		    struct fgt_filter *ret_copy);
void fgt_filter_done(struct fgt_filter *copy);

/* Is that thread's name or number taken? state, function, … do not count. */
bool fgt_filter_takes_thread(const struct fgt_filter *filter,
			     const struct fgt_ring_slice *slice,
			     uint32_t thread);

/* [run_count]: does a run pass? The caller frees it. -ENOMEM. */
int fgt_filter_mark(const struct fgt_filter *filter,
		    const struct fgt_ring_slice *slice, bool **ret_marks);

/* What there is, where nothing passes. Returns -ENODATA. */
int fgt_filter_explain(const struct fgt_filter *filter,
		       const struct fgt_ring_slice *slice, struct fgt_why *why);

/*
 * The samples that pass, as a slice that is independent of the given one; what
 * lies between samples is lost unless whole threads pass. slice: with symbols
 * and state names. -ENODATA: none passes, and why names what there is; -ENOMEM.
 */
int fgt_filter_apply(const struct fgt_filter *filter,
		     const struct fgt_ring_slice *slice,
		     struct fgt_ring_slice **ret_part, struct fgt_why *why);

#endif
