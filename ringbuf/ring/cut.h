/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the parts of the reader's side of a ring, which copies what the
 * wanted ticks need, checks whether the writer overtook the copy, and turns the
 * rest into a slice. Any thread of any process; must not write to the region,
 * must check everything in it.
 *
 * MT-Unsafe for one cut | AS-Unsafe
 */
#ifndef FGT_RINGBUF_RING_CUT_H
#define FGT_RINGBUF_RING_CUT_H

#include "ringbuf/ring/region.h"

/* A segment's entry in the directory, copied. */
struct fgt_cut_segment {
	uint64_t seq, log_start, len_words, first_tick, tick_count;
	uint64_t first_ns, wall_ns, reach_tick;
};

/* Ticks [first, end) of a slot with one stack and state. */
struct fgt_cut_piece {
	uint32_t slot, first, end;
	uint32_t node, state;
	uint32_t wait; /* number + 1; 0: none */
	uint32_t previous; /* the slot's piece before this one + 1; 0: none */
};

/* What replay knows of a slot. */
struct fgt_cut_track {
	uint32_t latest; /* its newest finished piece + 1; 0: none */
	uint32_t born; /* first tick seen */
	uint32_t first, node, state, wait; /* the piece that has not ended */
	uint32_t credit_ticks, next_wait; /* for its next change */
	bool is_open;
	uint32_t thread; /* its number in the slice + 1; 0: none */
};

/* Raw copies of table entries; out: number in the slice + 1, 0: none yet. */
struct fgt_cut_node {
	uint32_t parent, frame, out, depth;
};

struct fgt_cut_frame {
	struct fgt_frame frame;
	uint32_t out;
};

struct fgt_cut_image {
	struct fgt_image image;
	uint32_t out;
};

struct fgt_cut_wait {
	struct fgt_wait wait;
	uint32_t out;
};

struct fgt_cut_waker {
	struct fgt_region_waker_row row;
	uint32_t out;
};

struct fgt_cut_wake {
	uint64_t at_ns;
	uint32_t slot, waker, delay_us;
};

struct fgt_cut_edge {
	uint32_t slot, tick, on_us, off_us;
};

/* From that tick on each stands for so many periods. */
struct fgt_cut_pace {
	uint32_t tick, periods;
};

struct fgt_cut_thread {
	uint32_t slot;
	int32_t tid;
	uint64_t start_time, moved_ns;
	char name[FGT_THREAD_NAME_MAX];
	uint32_t run_count;
};

/* Which raw copy belongs to an id: index + 1 by id. */
struct fgt_cut_rows {
	uint32_t *index;
	uint32_t count, capacity;
};

struct fgt_cut {
	const struct fgt_region *region;
	uint64_t from_ns, to_ns;

	/* Copied before the log: a move after it is in the log. */
	uint64_t *moved_ns; /* by slot */
	uint32_t moved_count;

	/* Copied: segments[first_segment … segment_count), their words. */
	struct fgt_cut_segment *segments;
	uint32_t first_segment, segment_count;
	uint64_t *words;
	uint32_t words_segment; /* the segment of the first word */
	uint64_t oldest_tick; /* number of the oldest one that can be cut */
	uint64_t lapped_ticks;

	/* Replayed. Ticks count from the first segment's first one. */
	uint64_t *tick_ns;
	uint32_t tick_count, tick_capacity;
	struct fgt_cut_pace *paces;
	uint32_t pace_count, pace_capacity;
	uint32_t kept_first, kept_count; /* the wanted ones */
	uint64_t missed_ticks, lost_wakes;
	struct fgt_cut_track *tracks; /* by slot */
	uint32_t slot_count; /* one past the highest slot seen */
	struct fgt_cut_piece *pieces;
	uint32_t piece_count, piece_capacity;
	struct fgt_cut_edge *edges; /* by tick */
	uint32_t edge_count, edge_capacity;
	struct fgt_cut_wake *wakes; /* within the wanted ticks */
	uint32_t wake_count, wake_capacity;

	/* Collected. */
	struct fgt_cut_rows thread_rows, node_rows, frame_rows, image_rows;
	struct fgt_cut_rows wait_rows, waker_rows;
	struct fgt_cut_thread *threads;
	struct fgt_cut_node *nodes;
	struct fgt_cut_frame *frames;
	struct fgt_cut_image *images;
	struct fgt_cut_wait *waits;
	struct fgt_cut_waker *wakers;
};

/* Clips a piece to the wanted ticks; false if nothing is left. */
bool fgt_cut_clip(const struct fgt_cut *cut, struct fgt_cut_piece *piece);

/* Words to pieces. -EBADMSG if they contradict each other, -ENOMEM. */
int fgt_cut_replay(struct fgt_cut *cut);

/* Copies every table entry that pieces use; torn ones too. -ENOMEM. */
int fgt_cut_collect(struct fgt_cut *cut);

/* Pieces and copies to a slice. -EBADMSG if a copy is invalid, -ENOMEM. */
int fgt_cut_build(struct fgt_cut *cut, struct fgt_ring_slice **ret_slice);

/* ---- Between the parts of the build; errors as there ------------------ */

/* The stack's leaf in the slice, whose tables have room. */
int fgt_cut_build_stack(const struct fgt_cut *cut, struct fgt_ring_slice *slice,
			uint32_t id, uint32_t *ret_stack);
/* Gives the run its reason. */
int fgt_cut_build_wait(struct fgt_cut *cut, struct fgt_ring_slice *slice,
		       uint32_t id, struct fgt_run *run);
/* After the runs and edges: wake-ups of their threads, and the wakers. */
int fgt_cut_build_wakes(struct fgt_cut *cut, struct fgt_ring_slice *slice);

/* Its texts are terminated, even from a damaged region. */
void fgt_cut_process(const struct fgt_region *region,
		     struct fgt_process_info *ret_process);

#endif
