/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a timeline shows of each thread, and from when on: its runs, and what
 * its edges show between two ticks.
 *
 * Where context switches are known, what lies between two ticks is drawn as it
 * was, runs between blocked ticks and blocks between running ones. Elsewhere
 * a change is drawn midway, and from or to running so that the time shown
 * running is that of the ticks: which intervals are known is no chance, since
 * those with many switches are not.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_DRAWING_H
#define FGT_UPLOAD_FORMAT_PARTS_DRAWING_H

#include "upload/format/parts/levels.h"

struct fgt_shown {
	uint32_t stack, state; /* as those of a run */
	/* False: no tick showed it, fgt_levels_expand_unsampled(). */
	bool is_sampled;
	/* A run so short that it may be a gap between the blocks around
	 * it: their stack, without a state. */
	bool is_brief;
	uint32_t blocked_stack;
};

/* How a format draws. Functions get the context. */
struct fgt_drawing {
	void *context;
	/* What comes next is of this thread, an index into threads. */
	void (*begin_thread)(void *context, uint32_t thread);
	/*
	 * From mono_ns on the thread shows this; NULL: nothing is known, which
	 * also ends each thread. Times of a thread never go back. Returns false
	 * if it looks the same as what was shown before.
	 */
	bool (*show)(void *context, const struct fgt_shown *shown,
		     uint64_t mono_ns);
	/* More levels of a stack are not shown: fgt_levels_init(). */
	uint32_t levels_max;
};

/* Draws all threads, one after another. -ENOMEM. */
int fgt_draw(const struct fgt_ring_slice *slice,
	     const struct fgt_drawing *drawing);

/* The levels of what is shown. */
void fgt_levels_expand_shown(struct fgt_levels *levels,
			     const struct fgt_shown *shown);

/* How many levels both have in common, from the root. */
uint32_t fgt_levels_in_common(const struct fgt_levels *a,
			      const struct fgt_levels *b);

#endif
