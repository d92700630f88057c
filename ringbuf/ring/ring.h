/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring: the last seconds of one target, in one flat region.
 *
 * One thread writes: it interns what it saw and commits ticks. Any number of
 * readers cut slices at the same time; they never block the writer, and a
 * reader that was lapped gets an error or a count. The region holds ids and
 * offsets, never pointers, so it can live in a memfd that another process maps.
 */
#ifndef FGT_RINGBUF_RING_RING_H
#define FGT_RINGBUF_RING_RING_H

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/edge.h"
#include "ringbuf/slice/frame.h"
#include "ringbuf/slice/slice.h"

struct fgt_ring;

struct fgt_ring_options {
	unsigned int hz; /* nominal ticks a second, 1 … 10000; 0: 101 */
	unsigned int seconds; /* kept, 1 … 3600; 0: 30 */
	size_t size_bytes; /* region and tables together; 0: 64 MiB */
	bool is_shared; /* region in a memfd: see fgt_ring_fd() */
};

/* Counters since the ring was made; read by any thread. */
struct fgt_ring_stats {
	uint64_t ticks; /* committed */
	uint64_t missed_ticks; /* reported by the writer */
	uint64_t changes; /* records of a changed (stack, state) */
	uint64_t overflows; /* stacks that found no room */
	uint64_t lost_waits, lost_wakes; /* as well */
	uint64_t evicted_ticks; /* ticks dropped for room, not for age */
	uint64_t oldest_ns, newest_ns; /* ticks that can be cut; 0 if none */
	/* In the log and the tables; as of a few ticks ago at most. */
	uint64_t log_used_bytes, log_size_bytes;
	uint32_t nodes, frames, images, threads;
	uint64_t size_bytes; /* all memory that the ring may ever touch */
};

/* -EINVAL for options out of range (size below 1 MiB included), -ENOMEM. */
int fgt_ring_new(const struct fgt_ring_options *options,
		 struct fgt_ring **ret_ring);
/* Maps another process's ring for reading; everything in it is checked.
 * -EINVAL if it is not a ring of this version, -ENOMEM, errno of mmap. */
int fgt_ring_open(int memfd, struct fgt_ring **ret_ring);
void fgt_ring_free(struct fgt_ring *ring);
FGT_DEFINE_AUTO(struct fgt_ring *, fgt_ring_free);

/* The memfd of a shared ring (the ring keeps it), -1 otherwise. */
int fgt_ring_fd(const struct fgt_ring *ring);
void fgt_ring_get_stats(const struct fgt_ring *ring,
			struct fgt_ring_stats *ret_stats);

/* ---- The writer: one thread. MT-Unsafe | AS-Unsafe -------------------- */

void fgt_ring_set_process(struct fgt_ring *ring,
			  const struct fgt_process_info *process);

/*
 * Finds or adds an image. The id stays valid until fgt_ring_image_put(), and
 * after that as long as a tick in the ring uses it. -ENOSPC when the image
 * table is full: use FGT_IMAGE_NONE and the PC itself.
 */
int fgt_ring_image_get(struct fgt_ring *ring, const struct fgt_image *image,
		       uint32_t *ret_image);
void fgt_ring_image_put(struct fgt_ring *ring, uint32_t image);

/*
 * A thread of the target, from now on until fgt_ring_thread_end(); its slot
 * number is reused when its last tick has left the ring. -ENOSPC.
 */
int fgt_ring_thread_add(struct fgt_ring *ring, int32_t tid, uint64_t start_time,
			const char *name, uint32_t *ret_slot);
void fgt_ring_thread_rename(struct fgt_ring *ring, uint32_t slot,
			    const char *name);
/*
 * Between begin and commit: nothing is known of a thread that was added, which
 * may have begun after this tick's instant. Its first tick will be the one at
 * which it is set. -EINVAL if it has one.
 */
int fgt_ring_thread_put_off(struct fgt_ring *ring, uint32_t slot);
/* Between begin and commit: the thread does not exist at this tick. */
int fgt_ring_thread_end(struct fgt_ring *ring, uint32_t slot);

/*
 * Opens a tick. mono_ns must exceed the last one (else it is set to last + 1);
 * wall_ns is the wall clock at the same instant; missed: ticks that the sampler
 * was too late for since the last one. Every thread keeps its stack and state
 * unless they are set before fgt_ring_tick_commit(): idle threads cost nothing.
 * May evict the oldest second.
 */
void fgt_ring_tick_begin(struct fgt_ring *ring, uint64_t mono_ns,
			 uint64_t wall_ns, uint64_t missed);

/*
 * From the next tick on each stands for so many periods (1 to FGT_PACE_MAX):
 * the rate is lowered on purpose, and the ticks between are not missed.
 */
void fgt_ring_set_pace(struct fgt_ring *ring, uint32_t periods);

/*
 * Sets stack (frames leaf first; count 0: none known) and state of a thread
 * from this tick on. credit_ticks: so many ticks before this one belong to it
 * too (a runnable thread that waited for a CPU), 65535 at most; never reaches
 * past the thread's first tick. Equal to what the thread has: no cost. A stack
 * that finds no room becomes [overflow] and is counted; -EINVAL for a bad slot
 * or state. At most once per thread and tick; a second call replaces the first.
 */
int fgt_ring_set(struct fgt_ring *ring, uint32_t slot,
		 const struct fgt_frame *frames, size_t count, uint32_t state,
		 uint32_t credit_ticks);

/*
 * Keeps the stack and changes the state; with marker != 0 the stack gets that
 * enum fgt_marker as its new leaf (replacing a marker leaf that it has). A
 * thread without a stack has no last one: FGT_MARKER_NOT_SAMPLED leaves it so.
 */
int fgt_ring_set_state(struct fgt_ring *ring, uint32_t slot, uint32_t state,
		       uint32_t marker, uint32_t credit_ticks);

/*
 * What the thread did in the last ticks before this one (255 at most), where it
 * is known only now: from a sample that came after the last of them, before the
 * thread blocked. frames NULL: with the stack that it had at the last of them.
 * Replaces what was set for them, never reaches past the thread's first tick,
 * and leaves this tick to fgt_ring_set(), in any order. No effect if equal to
 * what the thread did at the last one. Errors, and a second call, as there;
 * -EINVAL for 0 ticks.
 */
int fgt_ring_set_past(struct fgt_ring *ring, uint32_t slot,
		      const struct fgt_frame *frames, size_t count,
		      uint32_t state, uint32_t ticks);

/*
 * Between begin and commit: every time that the thread blocked or got a CPU
 * again since the tick before and up to this one. Kept to 1 µs, at most one
 * second back; costs 8 bytes for each two, whether its stack and state changed
 * or not. No effect where they contradict the states at the two ticks.
 * -EINVAL for a bad slot, -ENOSPC with more than two a thread on average.
 */
int fgt_ring_set_edges(struct fgt_ring *ring, uint32_t slot,
		       const struct fgt_edge_list *edges);

/* Between begin and commit: the thread got or left a CPU since the tick before,
 * though its stack and state may be the same and edges may not show it. -EINVAL
 * for a bad slot. */
int fgt_ring_set_moved(struct fgt_ring *ring, uint32_t slot);

/*
 * Between begin and commit: the reason for which a thread that is blocked at
 * this tick waits, until it has another state or stack, or another reason. 8
 * bytes with a new state or stack, 16 without; none if it is the one that the
 * thread has. Credit is the reason's, too. No effect on a thread that is not
 * blocked. A reason that finds no room is unknown, and counted. -EINVAL for a
 * bad slot or kind.
 */
int fgt_ring_set_wait(struct fgt_ring *ring, uint32_t slot,
		      const struct fgt_wait *wait);

/* What woke a thread. Frames leaf first, count 0: none known. */
struct fgt_wake_source {
	int32_t pid, tid;
	uint32_t context; /* enum fgt_wake_context */
	char name[FGT_THREAD_NAME_MAX]; /* comm */
	const struct fgt_frame *frames;
	size_t frame_count;
};

/*
 * Between begin and commit: a wake-up of the thread, since the tick before and
 * up to this one; delay_us as in fgt_slice_wake: where it is not known, a cut
 * finds it by the edges. 16 bytes each. -EINVAL for a
 * bad slot, context or frame; -ENOSPC, and counted as lost: more than one a
 * thread on average, more than a quarter of the log each second, no room for
 * the waker, or more than 4 s back.
 */
int fgt_ring_add_wake(struct fgt_ring *ring, uint32_t slot, uint64_t at_ns,
		      uint32_t delay_us, const struct fgt_wake_source *waker);

/* So many wake-ups since the tick before found no room elsewhere. */
void fgt_ring_lose_wakes(struct fgt_ring *ring, uint64_t count);

/* Publishes the tick to readers. */
void fgt_ring_tick_commit(struct fgt_ring *ring);

/* ---- Readers: any thread, any process. MT-Safe | AS-Unsafe ------------ */

/* The ticks that can be cut. -ENODATA with fewer than two. */
int fgt_ring_range(const struct fgt_ring *ring, uint64_t *ret_oldest_ns,
		   uint64_t *ret_newest_ns);

/*
 * The clock anchors of all that the ring holds, one a second, in order; at
 * least one, of malloc(). Copies no tick. -ENODATA: nothing was recorded;
 * -ENOMEM, -EAGAIN, -EBADMSG: as fgt_ring_cut().
 */
int fgt_ring_read_anchors(const struct fgt_ring *ring,
			  struct fgt_anchor **ret_anchors, uint32_t *ret_count);

/*
 * Cuts [from_ns, to_ns] inclusive, clamped to what exists (at most hz × seconds
 * ticks). -EINVAL if from > to; -ENODATA if fewer than two ticks lie in it, at
 * once also for ranges wholly older or younger than the ring; -ENOMEM; -EAGAIN
 * if the writer lapped all of it; -EBADMSG if the region is damaged
 * (fgt_ring_open() only).
 */
int fgt_ring_cut(const struct fgt_ring *ring, uint64_t from_ns, uint64_t to_ns,
		 struct fgt_ring_slice **ret_slice);

/*
 * A slice of a time without records, for the spans that the process reported
 * then: two ticks at its ends, no thread. -EINVAL unless from < to; -ENOMEM.
 */
int fgt_ring_blank(const struct fgt_ring *ring, uint64_t from_ns,
		   uint64_t to_ns, struct fgt_ring_slice **ret_slice);

#endif
