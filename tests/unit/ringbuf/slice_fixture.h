/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices built by hand for the tests of codec and formats. Every function
 * fails the running test when it cannot do its work.
 */
#ifndef FGT_TESTS_UNIT_SLICE_FIXTURE_H
#define FGT_TESTS_UNIT_SLICE_FIXTURE_H

#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice.h"

#define FIXTURE_START_NS  5000000000ull
#define FIXTURE_WALL_NS	  1767225600000000000ull /* 2026-01-01T00:00:00Z */
#define FIXTURE_PERIOD_NS 10000000ull

/* ticks at FIXTURE_START_NS + i × FIXTURE_PERIOD_NS; process 4242 "app". */
struct fgt_ring_slice *fixture_new(uint32_t ticks);

/* Tables grow by one; each returns the new index. Threads: ascending tid. */
uint32_t fixture_thread(struct fgt_ring_slice *slice, int32_t tid,
			const char *name);
uint32_t fixture_image(struct fgt_ring_slice *slice, const char *path,
		       uint64_t bias, const char *build_id);
/* A frame named function, at a new address in the first image. */
uint32_t fixture_frame(struct fgt_ring_slice *slice, const char *function);
uint32_t fixture_marker(struct fgt_ring_slice *slice, uint32_t marker);
/* Finds or adds (parent, frame). */
uint32_t fixture_node(struct fgt_ring_slice *slice, uint32_t parent,
		      uint32_t frame);
/*
 * "main;work;read", root first: finds or adds the frames by name. Parts that
 * begin with '#' are markers by number; "libc.so.6!read" is of that image.
 */
uint32_t fixture_stack(struct fgt_ring_slice *slice, const char *folded);
/* Appends; adds the state with name if it is new. */
void fixture_run(struct fgt_ring_slice *slice, uint32_t thread,
		 uint32_t first_tick, uint32_t tick_count, uint32_t stack,
		 uint32_t state);

/* The first thread, "main", with its first run. */
static inline void fixture_main(struct fgt_ring_slice *slice, uint32_t ticks,
				const char *folded, uint32_t state)
{
	uint32_t thread = fixture_thread(slice, 4242, "main");

	fixture_run(slice, thread, 0, ticks, fixture_stack(slice, folded),
		    state);
}

/* Appends; by thread, then tick. */
void fixture_edge(struct fgt_ring_slice *slice, uint32_t thread, uint32_t tick,
		  uint32_t on_us, uint32_t off_us);

/* The last run's wait; each one is a new wait. Returns it, to be filled. */
struct fgt_slice_wait *fixture_wait(struct fgt_ring_slice *slice, uint32_t kind,
				    int32_t owner_tid, const char *text);
/* Appends a waker of the process, and a wake-up by it at_ms after
 * FIXTURE_START_NS; by thread, then time. */
void fixture_wake(struct fgt_ring_slice *slice, uint32_t thread, int at_ms,
		  int32_t waker_tid, uint32_t stack);

/* Takes waits and wake-ups out again. */
void fixture_drop_waits(struct fgt_ring_slice *slice);

/* What a program reports; times are ms after FIXTURE_START_NS, end 0: open.
 * Each is appended: in the order of slice.h. */
uint32_t fixture_task(struct fgt_ring_slice *slice, uint32_t track,
		      const char *name, int begin_ms, int end_ms,
		      uint32_t parent);
uint32_t fixture_span(struct fgt_ring_slice *slice, uint32_t task,
		      uint32_t depth, const char *name, int begin_ms,
		      int end_ms);
void fixture_mark(struct fgt_ring_slice *slice, int at_ms, const char *name,
		  int32_t tid);
void fixture_counter(struct fgt_ring_slice *slice, int at_ms, const char *name,
		     double value);
void fixture_label(struct fgt_ring_slice *slice, uint32_t span, const char *key,
		   const char *value);
/* A server's task, two requests one after another with spans, and the rest. */
void fixture_add_spans(struct fgt_ring_slice *slice);
/* Takes all of that out again. */
void fixture_drop_spans(struct fgt_ring_slice *slice);

/* A slice that uses every field: threads, inlined calls, markers, gaps. */
struct fgt_ring_slice *fixture_rich(void);

#define FIXTURE_EPOLL (FGT_STATE_SYSCALL_FIRST + 232)
#define FIXTURE_FUTEX (FGT_STATE_SYSCALL_FIRST + 202)

/* A growing buffer as a sink; bytes are NUL-terminated for string tests. */
struct fixture_buffer {
	char *bytes;
	size_t len, capacity;
};
struct fgt_sink fixture_buffer_sink(struct fixture_buffer *buffer);
void fixture_buffer_done(struct fixture_buffer *buffer);
/* Renames the last key of a .fgt file, which then has no checksum. */
static inline void fixture_drop_checksum(struct fixture_buffer *buffer)
{
	buffer->bytes[buffer->len - 13] = 'x';
}

/* At how many places part begins in text. */
unsigned int fixture_count(const char *text, const char *part);

#endif
