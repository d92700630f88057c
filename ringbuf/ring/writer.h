/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of a ring: its private state, and its five parts: intern
 * (stacks, frames, images and their reference counts), log (segments and their
 * eviction), ring_tick (threads and ticks), ring_edge, ring_wait (what threads
 * wait for, and what wakes them). One thread; must never wait for a reader.
 */
#ifndef FGT_RINGBUF_RING_WRITER_H
#define FGT_RINGBUF_RING_WRITER_H

#include "ringbuf/ring/id_table.h"
#include "ringbuf/ring/region.h"
#include "ringbuf/ring/ring.h"

/*
 * A segment is closed early when it has eaten this part of the log or of a
 * table, so that the oldest one can go without taking everything with it.
 */
#define FGT_WRITER_SHARE 16

/* EDGEs of a tick, for each thread on average. */
#define FGT_WRITER_EDGE_WORDS 1u

/* Words of a tick's wakes, for each thread on average; there are two for each,
 * in one second no more than this part of the log's. */
#define FGT_WRITER_WAKE_WORDS 2u
#define FGT_WRITER_WAKE_SHARE 4

/* Deeper stacks lose their middle: leaves room for the markers of the ring. */
#define FGT_WRITER_DEPTH_MAX (FGT_STACK_DEPTH_MAX + 6)

enum fgt_thread_phase {
	FGT_THREAD_FREE,
	FGT_THREAD_ADDED, /* in no tick yet */
	FGT_THREAD_LIVE,
	FGT_THREAD_ENDED, /* its log records hold the slot */
};

/* What a thread is doing; references on its nodes are held. There is one for
 * each thread that fits: no larger than it must be. */
struct fgt_writer_thread {
	uint32_t node, next_node; /* next: to be committed */
	uint32_t past_node; /* before that: see past_ticks */
	uint32_t wait, next_wait; /* number + 1, reference held; 0: none */
	uint16_t state, next_state, past_state;
	uint16_t phase : 2; /* enum fgt_thread_phase */
	uint16_t is_changing : 1, is_ending : 1;
	uint16_t is_put_off : 1; /* not there at the tick that is open */
	uint16_t is_logged : 1; /* in the tick that is being committed */
	uint16_t has_next_wait : 1, has_moved : 1;
	uint32_t edge_word; /* its first one, of fgt_writer.edge_words */
	uint8_t edge_count : 7, is_on_first : 1;
	uint8_t past_ticks; /* belong to the past; 0: none */
	uint16_t credit_ticks; /* belong to next, too */
	uint32_t live_index; /* into fgt_writer.live */
	uint64_t first_tick;
};

/* Ids that were made since the newest segment began. */
struct fgt_writer_level {
	uint64_t log_words;
	uint32_t nodes, frames, images, threads;
};

struct fgt_writer {
	struct fgt_region region;
	void *memory; /* of the tables below */
	size_t len_bytes;

	struct fgt_id_table nodes, frames, images, waits, wakers, slots;
	struct fgt_writer_thread *threads;
	uint32_t *live; /* slots of threads that exist */
	uint32_t live_count;
	uint32_t *changing; /* slots with something to commit */
	uint32_t changing_count;
	uint64_t *edge_words; /* EDGEs to commit, of all threads */
	uint32_t edge_word_count;
	/* WAKEs and WAKE_TIMEs to commit; the wakers' references are held. */
	uint64_t *wake_words;
	uint32_t wake_word_count;
	uint64_t wakes_since_ns, wake_words_since; /* of the second */
	uint32_t overflow_node;

	uint64_t log_end; /* words logged since the ring began */
	uint64_t segment_seq; /* the one being written, 0: none yet */
	struct fgt_writer_level made;

	bool is_tick_open;
	bool opens_segment; /* the tick that is open will */
	uint64_t tick_count;
	uint64_t now_ns, wall_ns, last_ns;
	uint64_t missed_ticks, lost_wakes; /* not yet logged */
	uint32_t periods; /* that each tick stands for */
};

struct fgt_ring {
	/* Only region is used in a ring that was opened. */
	struct fgt_writer writer;
};

/* ---- intern ----------------------------------------------------------- */

/* Hash of the entry that a table of the region has under a number. */
uint64_t fgt_intern_hash_node(const void *nodes, uint32_t id);
uint64_t fgt_intern_hash_frame(const void *frames, uint32_t id);
uint64_t fgt_intern_hash_image(const void *images, uint32_t id);
uint64_t fgt_intern_hash_wait(const void *waits, uint32_t id);
uint64_t fgt_intern_hash_waker(const void *wakers, uint32_t id);

/* For tables whose entries are so many words. */
uint64_t fgt_intern_hash_words(const uint64_t *words, size_t count);
/* The entry that has these words, or FGT_ID_NONE. */
uint32_t fgt_intern_find(const struct fgt_id_table *table, const fgt_word *rows,
			 const uint64_t *words, size_t count, uint64_t hash);

/* Pre-interns what must be there when nothing else fits. -ENOSPC. */
int fgt_intern_init(struct fgt_writer *writer);

/*
 * The stack's node with one reference; evicts to make room, else the overflow
 * node. -EINVAL for a frame of an image that does not exist.
 */
int fgt_intern_stack(struct fgt_writer *writer, const struct fgt_frame *frames,
		     size_t count, uint32_t *ret_node);
/* node's stack under a marker, with one reference; FGT_NODE_NONE if there is no
 * stack and the marker is FGT_MARKER_NOT_SAMPLED. */
uint32_t fgt_intern_marker(struct fgt_writer *writer, uint32_t node,
			   uint32_t marker);
void fgt_intern_hold_node(struct fgt_writer *writer, uint32_t node);
/* Drops a reference; the last one frees the node and what it held. */
void fgt_intern_drop_node(struct fgt_writer *writer, uint32_t node);

/* ---- log -------------------------------------------------------------- */

/* Whether the tick at now_ns must open a segment. */
bool fgt_log_is_segment_due(const struct fgt_writer *writer);
/* Drops what is too old. */
void fgt_log_evict_aged(struct fgt_writer *writer);
/* Drops the oldest segment for room; false if it must stay. */
bool fgt_log_evict_oldest(struct fgt_writer *writer);
/* Makes room for so many words by dropping old segments. */
void fgt_log_make_room(struct fgt_writer *writer, uint64_t words);

void fgt_log_open_segment(struct fgt_writer *writer);
void fgt_log_append(struct fgt_writer *writer, uint64_t word);
/* wait: number + 1; 0: none. */
void fgt_log_append_change(struct fgt_writer *writer, uint32_t slot,
			   uint32_t state, uint32_t node, uint32_t wait);
/* Makes all that was appended visible as one tick. */
void fgt_log_publish(struct fgt_writer *writer);

/* ---- ring ------------------------------------------------------------- */

/* The thread of a slot, NULL if there is none that lives on. */
struct fgt_writer_thread *fgt_ring_find_thread(struct fgt_writer *writer,
					       uint32_t slot);
/* The thread is committed with this tick, though stack and state may stay. */
void fgt_ring_touch(struct fgt_writer *writer, uint32_t slot);
/* The thread did something else, got or left a CPU, or was woken. */
static inline void fgt_ring_note_move(struct fgt_writer *writer, uint32_t slot,
				      uint64_t ns)
{
	fgt_region_store(&writer->region.threads[slot].moved_ns, ns);
}

/* Drops a reference on a slot; the last one frees it. */
void fgt_ring_drop_slot(struct fgt_writer *writer, uint32_t slot);

/* ---- edge ------------------------------------------------------------- */

/* All edges or none: some would show too much of what they are about. */
void fgt_ring_append_edges(struct fgt_writer *writer, uint32_t slot);

/* ---- wait ------------------------------------------------------------- */

/* Without references. wait: number + 1. */
void fgt_ring_free_wait(struct fgt_writer *writer, uint32_t wait);

/* 0: none, no effect. Most changes have none. */
static inline void fgt_ring_hold_wait(struct fgt_writer *writer, uint32_t wait)
{
	if (wait)
		writer->waits.refs[wait - 1]++;
}

static inline void fgt_ring_drop_wait(struct fgt_writer *writer, uint32_t wait)
{
	if (wait && !--writer->waits.refs[wait - 1])
		fgt_ring_free_wait(writer, wait);
}

void fgt_ring_drop_waker(struct fgt_writer *writer, uint32_t waker);
/* The reason of the thread's next stack and state, with its reference; what
 * was set before this is forgotten. */
uint32_t fgt_ring_take_next_wait(struct fgt_writer *writer, uint32_t slot,
				 bool is_same);
/* After all changes of the tick: logs its wakes, and how many were lost. */
void fgt_ring_commit_wakes(struct fgt_writer *writer);

#endif
