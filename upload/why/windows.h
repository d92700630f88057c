/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of a slice, and the rest of the slice cut into windows of the same
 * length: what is usual there.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_WINDOWS_H
#define FGT_UPLOAD_WHY_WINDOWS_H

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"

/* More would add nothing; those nearest to the range are taken. */
#define FGT_WINDOWS_MAX 300u

/* Ticks [first, end). */
struct fgt_window {
	uint32_t first, end;
};

#define FGT_WINDOW_NONE UINT32_MAX

struct fgt_windows {
	double length_ms; /* of each */
	/* Number 0 is the range; the others do not overlap it or one another,
	 * in no order. */
	struct fgt_window *windows;
	uint32_t count;
	uint32_t *of_tick; /* [tick_count]: its window, or FGT_WINDOW_NONE */
	/* [tick_count]: what the tick stands for in its window, so that a
	 * thread that was there all the time has length_ms, whatever was
	 * missed. */
	double *tick_ms;
	/* [tick_count]: how many ticks of that window follow without a gap, this
	 * one included, and what they stand for. */
	uint32_t *rest;
	double *rest_ms;
};

/*
 * [from_ns, to_ns], CLOCK_MONOTONIC, is clamped to the slice. most: windows, at
 * least 1, at most FGT_WINDOWS_MAX. Windows of which
 * less than half was recorded are left out. -EINVAL if from > to; -ENODATA with
 * fewer than two ticks in the range, -ENOMEM.
 */
int fgt_windows_new(const struct fgt_ring_slice *slice, uint64_t from_ns,
		    uint64_t to_ns, uint32_t most,
		    struct fgt_windows **ret_windows);
void fgt_windows_free(struct fgt_windows *windows);
FGT_DEFINE_AUTO(struct fgt_windows *, fgt_windows_free);

/* Ticks from the given one on that are of one window, or of none. */
struct fgt_window_part {
	uint32_t window; /* FGT_WINDOW_NONE */
	uint32_t end;
	double ms;
};

/* At most up to end. */
struct fgt_window_part fgt_windows_part(const struct fgt_windows *windows,
					uint32_t tick, uint32_t end);

#define FGT_RANK_PER_HIGH 20u

/* What a value of the range is beside those of the other windows. */
struct fgt_rank {
	double usual_ms; /* the median of the others */
	double most_ms; /* the largest of the others */
	double high_ms; /* one in FGT_RANK_PER_HIGH of them is larger */
	uint32_t place; /* 1: no other one is as large */
	uint32_t others;
};

/* values: [count], number 0 is the range's; the others are sorted here. */
struct fgt_rank fgt_rank_of(double *values, uint32_t count);

#endif
