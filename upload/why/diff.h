/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two slices, compared: what threads did more, and less. Threads with similar
 * names are one row, as are equal functions, states and reasons; a row has how
 * many threads did that on average, so that slices of any length compare.
 *
 * MT-Safe for slices that nothing else uses | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_DIFF_H
#define FGT_UPLOAD_WHY_DIFF_H

#include "ringbuf/base/id_map.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/strings.h"
#include "ringbuf/slice/slice.h"
#include "upload/why/filter.h"
#include "upload/why/group.h"

enum fgt_diff_side {
	FGT_DIFF_BEFORE,
	FGT_DIFF_AFTER,
	FGT_DIFF_SIDES
};

struct fgt_diff_row {
	/* Ids in the diff's strings; 0: none. state has the reason. */
	uint32_t threads, function, call, state;
	uint32_t callers; /* of a blocked thread: "WaitLatch, ProcSleep" */
	bool shows_callers; /* nothing else distinguishes it from another one */
	struct fgt_group_pids pids; /* of slices with several processes */
	uint64_t samples[FGT_DIFF_SIDES];
	double average[FGT_DIFF_SIDES]; /* threads at once, or ms */
};

struct fgt_diff {
	struct fgt_diff_row *rows; /* by the size of the change */
	uint32_t count, capacity;
	struct fgt_strings strings;
	uint64_t ticks[FGT_DIFF_SIDES];
	uint64_t from_ns[FGT_DIFF_SIDES], to_ns[FGT_DIFF_SIDES]; /* monotonic */
	double seconds[FGT_DIFF_SIDES], threads[FGT_DIFF_SIDES];
	/* Averages are ms of so many instances; 0: of threads at once. */
	uint32_t instances[FGT_DIFF_SIDES];
};

/* Both slices need symbols and state names; their states get their reasons.
 * Keeps nothing of them. instances: see struct fgt_diff; NULL: 0. filter: which
 * samples; on one side there may be none. -ENODATA: on neither side there are;
 * -ENOMEM. */
int fgt_diff_new(struct fgt_ring_slice *before, struct fgt_ring_slice *after,
		 const uint32_t instances[FGT_DIFF_SIDES],
		 const struct fgt_filter *filter, struct fgt_diff **ret_diff);
void fgt_diff_free(struct fgt_diff *diff);
FGT_DEFINE_AUTO(struct fgt_diff *, fgt_diff_free);

static inline double fgt_diff_change(const struct fgt_diff_row *row)
{
	return row->average[FGT_DIFF_AFTER] - row->average[FGT_DIFF_BEFORE];
}

#endif
