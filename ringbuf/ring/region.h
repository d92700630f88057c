/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring's region: what it holds and where. One flat piece of memory with
 * ids and positions but no pointers, so that any process can map it.
 *
 * Order of all accesses. The region has one writer. It stores every shared
 * word with release order (fgt_region_store), readers load every shared word
 * with acquire order (fgt_region_load); both are plain moves on x86. Two
 * chains follow from that and everything else stands on them:
 *  - publish: the writer fills log and tables, then stores len_words, then
 *    head_seq. A reader that sees the new length sees all that it covers.
 *  - lap: before the writer reuses anything that an evicted segment needed,
 *    it stores the new tail_seq. A reader that saw a reused word therefore
 *    sees, when it loads tail_seq afterwards, that the segment is gone.
 */
#ifndef FGT_RINGBUF_RING_REGION_H
#define FGT_RINGBUF_RING_REGION_H

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/frame.h"
#include "ringbuf/slice/slice.h"

#include <stdatomic.h>

#define FGT_REGION_MAGIC   0x31474e4952544746u /* "FGTRING1", little endian */
#define FGT_REGION_VERSION 8

#define FGT_REGION_HZ_MAX      10000u
#define FGT_REGION_SECONDS_MAX 3600u
#define FGT_REGION_SIZE_MIN    (1u << 20)
#define FGT_REGION_SLOTS_MAX   (1u << 20) /* 20 bits in a word */
#define FGT_REGION_IDS_MAX     (UINT32_MAX - 1) /* the last one means none */

#define FGT_REGION_IMAGE_WORDS	 (sizeof(struct fgt_image) / 8)
#define FGT_REGION_NAME_WORDS	 (FGT_THREAD_NAME_MAX / 8)
#define FGT_REGION_PROCESS_WORDS ((sizeof(struct fgt_process_info) + 7) / 8)
#define FGT_REGION_WAIT_WORDS	 (sizeof(struct fgt_wait) / 8)
#define FGT_REGION_WAKER_WORDS	 (sizeof(struct fgt_region_waker_row) / 8)

typedef _Atomic uint64_t fgt_word;

/* How many of each; fixed when the ring is made. */
struct fgt_region_shape {
	uint32_t hz, seconds;
	uint32_t segments, threads, images, frames, nodes, waits, wakers;
	uint64_t log_words;
};

/* About one second of ticks. Complete once head_seq covers it. */
struct fgt_region_segment {
	fgt_word log_start; /* words logged before it since the ring began */
	fgt_word len_words; /* published; grows while it is the newest */
	fgt_word first_tick; /* number of its first tick, from 0 on */
	fgt_word tick_count; /* may run ahead of len_words by one tick */
	fgt_word first_ns; /* CLOCK_MONOTONIC of its first tick … */
	fgt_word wall_ns; /* … and the wall clock at the same instant */
	fgt_word reach_tick; /* oldest tick that a CREDIT in it belongs to */
	fgt_word unused;
};

/* Two copies; the one that version's low bit names is complete. */
struct fgt_region_thread {
	fgt_word tid, start_time;
	fgt_word version;
	fgt_word names[2 * FGT_REGION_NAME_WORDS];
	fgt_word moved_ns; /* of its latest change, switch or wake-up */
};

struct fgt_region_image {
	fgt_word words[FGT_REGION_IMAGE_WORDS]; /* struct fgt_image */
};

struct fgt_region_frame {
	fgt_word address;
	fgt_word image_flags; /* image << 32 | flags */
};

struct fgt_region_wait {
	fgt_word words[FGT_REGION_WAIT_WORDS]; /* struct fgt_wait */
};

struct fgt_region_waker_row {
	int32_t pid, tid;
	uint32_t context, node; /* FGT_NODE_NONE: no stack */
	char name[FGT_THREAD_NAME_MAX];
};

struct fgt_region_waker {
	fgt_word words[FGT_REGION_WAKER_WORDS]; /* fgt_region_waker_row */
};

struct fgt_region_header {
	uint64_t magic;
	uint32_t version, unused;
	struct fgt_region_shape shape;
	uint64_t region_bytes;
	uint64_t total_bytes; /* with the writer's own tables */

	fgt_word head_seq; /* newest published segment, from 1 on; 0: none */
	fgt_word tail_seq; /* oldest segment that is still whole */
	fgt_word first_ns; /* first tick ever */
	fgt_word newest_ns; /* last tick committed */

	/* Counters, see struct fgt_ring_stats. */
	fgt_word ticks, missed_ticks, changes, overflows, dropped_ticks;
	fgt_word log_used_words, nodes, frames, images, threads;
	fgt_word lost_waits, lost_wakes;

	fgt_word process_version;
	fgt_word process[2 * FGT_REGION_PROCESS_WORDS];
};

/* The region as this process has mapped it; shape was checked. */
struct fgt_region {
	struct fgt_region_shape shape;
	void *memory;
	size_t len_bytes;
	int memfd; /* -1: not shared, or mapped from another process */

	struct fgt_region_header *header;
	struct fgt_region_segment *segments; /* by sequence % shape.segments */
	struct fgt_region_thread *threads; /* by slot */
	struct fgt_region_image *images; /* by id - 1 */
	struct fgt_region_frame *frames;
	fgt_word *nodes; /* parent << 32 | frame */
	struct fgt_region_wait *waits;
	struct fgt_region_waker *wakers;
	fgt_word *log; /* by position % shape.log_words */
};

/* Pairs with fgt_region_store(): see the top of this file. */
static inline uint64_t fgt_region_load(const fgt_word *word)
{
	return atomic_load_explicit((fgt_word *)word, memory_order_acquire);
}

/* Pairs with fgt_region_load(): see the top of this file. */
static inline void fgt_region_store(fgt_word *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

/* For the writer's counters: only the writer stores, so no atomic addition. */
static inline void fgt_region_add(fgt_word *word, uint64_t amount)
{
	fgt_region_store(word, fgt_region_load(word) + amount);
}

static inline struct fgt_region_segment *
fgt_region_segment_at(const struct fgt_region *region, uint64_t seq)
{
	return &region->segments[seq % region->shape.segments];
}

/* ---- Log words: what happened, in 8 bytes ----------------------------- */

enum fgt_word_kind {
	FGT_WORD_TICK, /* ns since the tick before (0 opens a segment), and
			* how many periods it stands for */
	FGT_WORD_CHANGE, /* slot, state, node: from this tick on */
	FGT_WORD_CREDIT, /* slot, ticks: its next CHANGE began so much earlier */
	FGT_WORD_MISSED, /* ticks missed before this one */
	FGT_WORD_WAIT = FGT_WORD_CREDIT | 4, /* slot, wait: the reason of its
					      * next CHANGE, which has none
					      * otherwise */
	FGT_WORD_EDGE = FGT_WORD_MISSED | 4, /* slot, µs from its coming on a
					      * CPU and from its leaving it to
					      * this tick */
	FGT_WORD_WAKE = FGT_WORD_CREDIT | 8, /* slot, waker … */
	FGT_WORD_WAKE_TIME = FGT_WORD_WAIT | 8, /* … always the next word: ns
						 * to this tick, delay */
	FGT_WORD_LOST_WAKES = FGT_WORD_MISSED | 8, /* before this tick */
};

#define FGT_WORD_VALUE_MAX (UINT64_MAX >> 2)
#define FGT_WORD_COUNT_MAX (UINT64_MAX >> 4)

/* Two bits for TICK and CHANGE, three for EDGE, four for all others. */
static inline enum fgt_word_kind fgt_word_kind(uint64_t word)
{
	if ((word & 3) < FGT_WORD_CREDIT)
		return (enum fgt_word_kind)(word & 3);
	return (enum fgt_word_kind)((word & 7) == FGT_WORD_EDGE ? word & 7
								: word & 15);
}

/* Of MISSED or LOST_WAKES. */
static inline uint64_t fgt_word_of_count(enum fgt_word_kind kind,
					 uint64_t count)
{
	return (count < FGT_WORD_COUNT_MAX ? count : FGT_WORD_COUNT_MAX) << 4 |
	       kind;
}

static inline uint64_t fgt_word_count(uint64_t word)
{
	return word >> 4;
}

/* An EDGE has 20 bits for each of slot, on and off. 0: not known. */
#define FGT_WORD_EDGE_US_MAX ((1u << 20) - 1)

static inline uint64_t fgt_word_of_edge(uint32_t slot, uint32_t on_us,
					uint32_t off_us)
{
	return (uint64_t)off_us << 43 | (uint64_t)on_us << 23 |
	       (uint64_t)slot << 3 | FGT_WORD_EDGE;
}

static inline uint32_t fgt_word_edge_slot(uint64_t word)
{
	return (uint32_t)(word >> 3) & (FGT_REGION_SLOTS_MAX - 1);
}

static inline uint32_t fgt_word_edge_on_us(uint64_t word)
{
	return (uint32_t)(word >> 23) & FGT_WORD_EDGE_US_MAX;
}

static inline uint32_t fgt_word_edge_off_us(uint64_t word)
{
	return (uint32_t)(word >> 43) & FGT_WORD_EDGE_US_MAX;
}

/* A segment is opened within a second and some: 42 bits are plenty. */
#define FGT_WORD_TICK_NS_MAX ((UINT64_C(1) << 42) - 1)

static inline uint64_t fgt_word_of_tick(uint64_t delta_ns, uint32_t periods)
{
	if (delta_ns > FGT_WORD_TICK_NS_MAX)
		delta_ns = FGT_WORD_TICK_NS_MAX;
	return (uint64_t)(periods - 1) << 44 | delta_ns << 2 | FGT_WORD_TICK;
}

static inline uint64_t fgt_word_tick_ns(uint64_t word)
{
	return word >> 2 & FGT_WORD_TICK_NS_MAX;
}

static inline uint32_t fgt_word_tick_periods(uint64_t word)
{
	return (uint32_t)(word >> 44) + 1;
}

static inline uint64_t fgt_word_of_change(uint32_t slot, uint32_t state,
					  uint32_t node)
{
	return (uint64_t)node << 32 | (uint64_t)state << 22 |
	       (uint64_t)slot << 2 | FGT_WORD_CHANGE;
}

/* A CREDIT of ticks, a WAIT, or a WAKE by a waker. */
static inline uint64_t fgt_word_of(enum fgt_word_kind kind, uint32_t slot,
				   uint32_t value)
{
	return (uint64_t)value << 32 | (uint64_t)slot << 4 | kind;
}

/* Of all these, and CHANGE. */
static inline uint32_t fgt_word_slot(uint64_t word)
{
	uint32_t shift = (word & 3) == FGT_WORD_CHANGE ? 2 : 4;

	return (uint32_t)(word >> shift) & (FGT_REGION_SLOTS_MAX - 1);
}

static inline uint32_t fgt_word_state(uint64_t word)
{
	return (uint32_t)(word >> 22) & 1023;
}

/* Node of a CHANGE, ticks of a CREDIT, number of a WAIT, waker of a WAKE. */
static inline uint32_t fgt_word_high(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* A WAKE_TIME has 32 bits for ns and 28 for µs. */
#define FGT_WORD_DELAY_US_MAX ((1u << 28) - 1) /* itself: not known */

static inline uint64_t fgt_word_of_wake_time(uint32_t before_ns,
					     uint32_t delay_us)
{
	if (delay_us > FGT_WORD_DELAY_US_MAX)
		delay_us = delay_us == FGT_WAKE_DELAY_UNKNOWN
				   ? FGT_WORD_DELAY_US_MAX
				   : FGT_WORD_DELAY_US_MAX - 1;
	return (uint64_t)before_ns << 32 | (uint64_t)delay_us << 4 |
	       FGT_WORD_WAKE_TIME;
}

static inline uint32_t fgt_word_before_ns(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint32_t fgt_word_delay_us(uint64_t word)
{
	uint32_t delay_us = (uint32_t)(word >> 4) & FGT_WORD_DELAY_US_MAX;

	return delay_us < FGT_WORD_DELAY_US_MAX ? delay_us
						: FGT_WAKE_DELAY_UNKNOWN;
}

/* ---- The region's life ------------------------------------------------ */

/* What the writer's own tables need for one of each. */
struct fgt_region_costs {
	size_t thread_bytes, image_bytes, frame_bytes, node_bytes;
	size_t wait_bytes, waker_bytes;
};

/*
 * Splits size_bytes among log and tables, the writer's included. -EINVAL if
 * options are out of range.
 */
int fgt_region_plan(unsigned int hz, unsigned int seconds, size_t size_bytes,
		    const struct fgt_region_costs *costs,
		    struct fgt_region_shape *ret_shape);

/* Makes an empty region; call fgt_region_done() also after an error. -ENOMEM,
 * errno of memfd_create and mmap. */
int fgt_region_init(struct fgt_region *region,
		    const struct fgt_region_shape *shape, bool is_shared);

/* Maps a region for reading. -EINVAL if it is none, -ENOMEM, errno of mmap. */
int fgt_region_map(struct fgt_region *region, int memfd);
void fgt_region_done(struct fgt_region *region);

/* ---- Texts that change while readers look ----------------------------- */

/* Stores the copy that no reader uses, then directs readers to it. */
void fgt_region_write_pair(fgt_word *version, fgt_word *copies, size_t words,
			   const uint64_t *values);

/* The latest copy. Tries a bounded number of times to get it in one piece. */
void fgt_region_read_pair(const fgt_word *version, const fgt_word *copies,
			  size_t words, uint64_t *ret_values);

/* The most ticks that can be cut. */
static inline uint64_t fgt_region_window(const struct fgt_region *region)
{
	uint64_t ticks = (uint64_t)region->shape.hz * region->shape.seconds;

	return ticks < 2 ? 2 : ticks;
}

/* Nominal distance of two ticks. */
static inline uint64_t fgt_region_period_ns(const struct fgt_region *region)
{
	return (1000000000u + region->shape.hz / 2) / region->shape.hz;
}

#endif
