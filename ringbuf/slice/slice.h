/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slice: an immutable cut [from, to] of one target's ring. Holds only the
 * threads, stacks, frames and images that its runs use. Symbols and state
 * names are added once after the cut; from then on it is only read.
 */
#ifndef FGT_RINGBUF_SLICE_SLICE_H
#define FGT_RINGBUF_SLICE_SLICE_H

#include "ringbuf/base/owner.h"
#include "ringbuf/base/strings.h"
#include "ringbuf/slice/frame.h"
#include "ringbuf/slice/service.h"
#include "ringbuf/slice/wait.h"

#define FGT_NODE_NONE UINT32_MAX
/* No stack is deeper: FGT_STACK_DEPTH_MAX frames and some markers. */
#define FGT_SLICE_DEPTH_MAX (FGT_STACK_DEPTH_MAX + 8)

/* More inlined calls than this at one address are not kept. */
#define FGT_SYMBOLS_PER_FRAME_MAX 64

struct fgt_slice_thread {
	int32_t tid;
	uint32_t name; /* string id */
	uint64_t start_time; /* clock ticks since boot, /proc/…/stat field 22 */
	uint32_t process; /* index into processes; 0 if there are none */
	/* When it last did something else, got or left a CPU, or was woken,
	 * unless the slice shows a later time; 0: not known. Not in files. */
	uint64_t moved_ns;
};

/* A process of which the slice has threads. */
struct fgt_slice_process {
	uint64_t start_time; /* clock ticks since boot */
	int32_t pid;
	uint32_t name, exe; /* string ids: comm, path */
	/* String id: what it calls itself in the place of its command line,
	 * "postgres: checkpointer"; 0: nothing else than that. */
	uint32_t title;
	uint64_t from_ns; /* its first tick; 0: not known. Not in files. */
};

/* In .fgt files only: threads keep their process themselves. */
struct fgt_slice_member {
	uint32_t thread; /* index into threads */
	uint32_t process; /* index into processes */
};

/* A stack is a node; walking parents leads from the leaf to the root. */
struct fgt_slice_node {
	uint32_t parent; /* node, FGT_NODE_NONE at the root */
	uint32_t frame;
};

struct fgt_slice_frame {
	struct fgt_frame frame; /* image: index + 1 into images; 0 = none */
	/* Its symbols, innermost inlined call first, the real function last. */
	uint32_t symbol_first;
	uint32_t symbol_count; /* 0: not resolved (yet) */
};

/* Why a frame has no function name; stable: in .fgt files. */
enum fgt_symbol_reason {
	FGT_SYMBOL_FOUND = 0,
	FGT_SYMBOL_STRIPPED, /* the file has no symbol that covers it */
	FGT_SYMBOL_NO_FILE, /* the file is gone or not readable */
	FGT_SYMBOL_OTHER_FILE, /* another file is at that path now */
	FGT_SYMBOL_BAD_FILE, /* not an ELF file that can be understood */
	FGT_SYMBOL_NO_MAP, /* code without a file and without a perf map */
};

struct fgt_symbol {
	uint32_t function; /* string id, demangled; if unknown image!0xstart of
			    * the function, or image+0xoffset */
	uint32_t file; /* string id, 0 if unknown */
	uint32_t line; /* 0 if unknown */
	uint32_t reason; /* enum fgt_symbol_reason */
};

struct fgt_slice_image {
	uint32_t path; /* string id */
	uint32_t build_id_len;
	uint8_t build_id[FGT_BUILD_ID_MAX];
	uint32_t is_deleted;
	uint64_t bias, start, end, dev, ino;
};

/* The name of a state that runs of the slice use. */
struct fgt_slice_state {
	uint32_t state; /* enum fgt_state */
	uint32_t name; /* string id: "running", "futex", "epoll_wait", … */
};

/* Consecutive ticks of one thread with the same stack, state and wait. */
struct fgt_run {
	uint32_t thread; /* index into threads */
	uint32_t first_tick; /* index into tick_ns */
	uint32_t tick_count; /* >= 1 */
	uint32_t stack; /* leaf node, FGT_NODE_NONE: nothing known */
	uint32_t state; /* enum fgt_state */
	/* Index into waits + 1; 0: not blocked, or not known. */
	uint32_t wait;
};

/*
 * Where context switches of a thread are known: when it got a CPU after a block
 * (on), and when it blocked (off), since the tick before and up to this one.
 * Where there are more of both, a tick has more edges. They follow each other,
 * and in each the one of the two that came first is further from the tick.
 */
struct fgt_edge {
	uint32_t thread; /* index into threads */
	uint32_t tick; /* index into tick_ns */
	uint32_t on_us, off_us; /* before that tick; 0: not known */
};

/*
 * What the program reported, see span_log.h. Times are CLOCK_MONOTONIC; an end
 * of 0: it had not ended when the slice was cut. All of it overlaps the slice's
 * ticks, parts may lie outside.
 */
struct fgt_slice_task {
	uint64_t number; /* as the program knows it */
	uint64_t begin_ns, end_ns;
	uint32_t track; /* tasks of one track never overlap */
	uint32_t parent; /* index into tasks + 1, which began before; 0: none */
	uint32_t name; /* string id; its unique name, "" if that was lost */
	int32_t tid; /* of the thread that began it */
};

#define FGT_SPAN_DEPTH_MAX 64u /* spans around one another in a task */

struct fgt_slice_span {
	uint64_t number;
	uint64_t begin_ns, end_ns; /* within the span around it */
	uint32_t task; /* index into tasks */
	uint32_t depth; /* 0: none around it; else one more than its parent,
			 * the last span before it that is less deep */
	uint32_t name; /* string id */
	int32_t tid;
};

struct fgt_slice_mark {
	uint64_t at_ns;
	uint32_t name; /* string id */
	int32_t tid;
};

struct fgt_slice_counter {
	uint64_t at_ns;
	double value; /* finite */
	uint32_t name; /* string id */
};

struct fgt_slice_label {
	uint32_t span; /* index into spans */
	uint32_t key, value; /* string ids */
};

/* What is known of the slice as a whole, such as why it was cut. */
#define FGT_SLICE_NOTES_MAX 32
#define FGT_NOTE_TRIGGER    "trigger" /* its name */
#define FGT_NOTE_CAUSE	    "cause" /* what the trigger saw */
/* Of a chunk in the life of a process, as 32 hex digits: */
#define FGT_NOTE_PROFILER "profiler_id" /* of all its chunks */
#define FGT_NOTE_CHUNK	  "chunk_id"

struct fgt_slice_note {
	uint32_t key, value; /* string ids */
};

/* From first_tick on each tick stands for so many periods. */
struct fgt_pace {
	uint32_t first_tick;
	uint32_t periods; /* 1 … FGT_PACE_MAX */
	uint64_t periods_before; /* that all ticks before it stand for */
};

/* Wall clock and monotonic clock read at the same instant. */
struct fgt_anchor {
	uint64_t mono_ns;
	uint64_t wall_ns; /* since the epoch */
};

#define FGT_TITLE_MAX 128 /* NUL included */

#define FGT_ENDED_BY_MAX 24 /* NUL included */

/* The target as it was; set with fgt_ring_set_process(). */
struct fgt_process_info {
	int32_t pid;
	uint32_t uid;
	uint64_t start_time; /* clock ticks since boot */
	char name[64]; /* comm */
	char exe[512]; /* path, "" if unknown */
	char host[65]; /* host name */
	char arch[16]; /* "x86_64", "aarch64" */
	char os_release[65]; /* kernel release */
	/* What it calls itself in the place of its command line, as "postgres:
	 * checkpointer"; "": nothing else than that. */
	char title[FGT_TITLE_MAX];
	struct fgt_service service;
};

struct fgt_ring_slice {
	/* Of several processes the one that was asked for, or the first. */
	struct fgt_process_info process;
	/* The signal that ended that process, "SIGSEGV"; "": none, or not known,
	 * or it lived when the slice was cut. */
	char ended_by[FGT_ENDED_BY_MAX];
	/* None, if it is one process. */
	struct fgt_slice_process *processes;
	uint32_t process_count;
	struct fgt_slice_member *members; /* while it is read or written */
	uint32_t member_count;

	/* CLOCK_MONOTONIC, ns; covered = [tick_ns[0], tick_ns[count - 1]]. */
	uint64_t requested_from_ns, requested_to_ns;
	uint64_t period_ns; /* nominal distance of two ticks */
	double effective_hz; /* what was reached within the slice */
	uint64_t missed_ticks; /* the sampler came too late for these */
	uint64_t evicted_ticks; /* asked for, but already dropped */
	uint64_t lapped_ticks; /* overwritten while the slice was cut */
	/* Threads that ended before a tick knew them, to within a second of the
	 * covered range; 0: not counted. Their CPU time, and without a count
	 * what other threads used between their last look and their end. */
	uint64_t brief_threads, brief_cpu_ns;

	/* Clock anchors, about one a second, in order; at least one. */
	struct fgt_anchor *anchors;
	uint32_t anchor_count;

	/* Of the whole machine, about two a second, in order. */
	struct fgt_slice_pressure *pressures;
	uint32_t pressure_count;

	uint64_t *tick_ns; /* strictly increasing */
	uint32_t tick_count;

	/* Where the rate was lowered on purpose, see pace.h; in order. Before
	 * the first one each tick stands for one period. */
	struct fgt_pace *paces;
	uint32_t pace_count;

	/* Ordered by thread, then first_tick; never overlapping. */
	struct fgt_run *runs;
	uint32_t run_count;

	struct fgt_edge *edges; /* by thread, then tick, then time */
	uint32_t edge_count;

	struct fgt_slice_wait *waits;
	uint32_t wait_count;
	struct fgt_slice_waker *wakers;
	uint32_t waker_count;
	struct fgt_slice_wake *wakes; /* by thread, then at_ns */
	uint32_t wake_count;
	uint64_t lost_wakes; /* that found no room */
	struct fgt_run_wait *run_waits; /* while it is read or written */
	uint32_t run_wait_count;

	struct fgt_slice_task *tasks; /* by track, then begin_ns */
	uint32_t task_count;
	/* Ordered by task, then each before those in it. */
	struct fgt_slice_span *spans;
	uint32_t span_count;
	struct fgt_slice_mark *marks; /* by at_ns */
	uint32_t mark_count;
	struct fgt_slice_counter *counters; /* by name, then at_ns */
	uint32_t counter_count;
	struct fgt_slice_label *labels; /* by span, then key; each pair once */
	uint32_t label_count;
	struct fgt_slice_note *notes; /* each key once */
	uint32_t note_count;

	struct fgt_slice_thread *threads; /* by tid, then start_time */
	uint32_t thread_count;
	struct fgt_slice_node *nodes; /* parents before children */
	uint32_t node_count;
	struct fgt_slice_frame *frames;
	uint32_t frame_count;
	struct fgt_slice_image *images;
	uint32_t image_count;
	struct fgt_slice_state *states; /* each state in runs, ascending */
	uint32_t state_count;
	struct fgt_symbol *symbols;
	uint32_t symbol_count, symbol_capacity;
	struct fgt_strings strings;
};

/* Where its last tick ends, if none was missed. At least one tick. */
static inline uint64_t fgt_slice_end_ns(const struct fgt_ring_slice *slice)
{
	return slice->tick_ns[slice->tick_count - 1] + slice->period_ns;
}

/* An empty slice with its string table. -ENOMEM. */
int fgt_slice_new(struct fgt_ring_slice **ret_slice);
void fgt_ring_slice_free(struct fgt_ring_slice *slice);
FGT_DEFINE_AUTO(struct fgt_ring_slice *, fgt_ring_slice_free);

/* Never NULL; "" for unknown ids. */
const char *fgt_slice_string(const struct fgt_ring_slice *slice, uint32_t id);

/* The enum fgt_marker that is the leaf of a stack; 0: code, or no stack. */
uint64_t fgt_slice_leaf_marker(const struct fgt_ring_slice *slice,
			       uint32_t stack);

/* Index of the first thread with that number, which several in turn may have
 * had; thread_count if there is none. No thread has number 0. */
uint32_t fgt_slice_find_thread(const struct fgt_ring_slice *slice, int32_t tid);

/* Name of a state of the slice, "unknown" if it has none. Never NULL. */
const char *fgt_slice_state_name(const struct fgt_ring_slice *slice,
				 uint32_t state);

/* "[kernel]", "[truncated: no unwind rule]", …; never NULL. */
const char *fgt_marker_name(uint64_t marker);

/* Wall clock of an instant, from the anchor at or before it. ns since epoch. */
uint64_t fgt_slice_wall_ns(const struct fgt_ring_slice *slice,
			   uint64_t mono_ns);

/*
 * Narrows a slice: ticks within [from_ns, to_ns] and, unless tid is 0, one
 * thread. The result is independent and holds only what it uses, symbols
 * included. -ENODATA with fewer than two ticks or no run left, -EINVAL if from
 * > to, -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_narrow(const struct fgt_ring_slice *slice, uint64_t from_ns,
		     uint64_t to_ns, int32_t tid,
		     struct fgt_ring_slice **ret_slice);
/*
 * All ticks, but of the samples only the runs of view: a copy of a slice's
 * struct whose runs (and edges and wakes) the caller has replaced by some of
 * them. Independent of view, as above. -ENODATA without a run, -ENOMEM.
 */
int fgt_slice_narrow_runs(const struct fgt_ring_slice *view,
			  struct fgt_ring_slice **ret_slice);

/*
 * Appends the symbols of one frame (at most FGT_SYMBOLS_PER_FRAME_MAX; text is
 * copied). Call once per frame. -ENOMEM, -EINVAL for a frame that does not
 * exist or that has symbols already.
 */
struct fgt_symbol_text {
	const char *function; /* never NULL */
	const char *file; /* NULL if unknown */
	uint32_t line;
	enum fgt_symbol_reason reason;
};
int fgt_slice_add_symbols(struct fgt_ring_slice *slice, uint32_t frame,
			  const struct fgt_symbol_text *symbols, size_t count);

/* Adds a note; the texts are copied. -EEXIST: it has one of that key; -ENOSPC:
 * it has FGT_SLICE_NOTES_MAX; -ENOMEM. */
int fgt_slice_add_note(struct fgt_ring_slice *slice, const char *key,
		       const char *value);
/* The value of the note with that key, NULL if there is none. */
const char *fgt_slice_note(const struct fgt_ring_slice *slice, const char *key);
/* Adds a mark at an instant, in its place; one outside of the slice's ticks is
 * moved to their nearest end. -ENOMEM. */
int fgt_slice_add_mark(struct fgt_ring_slice *slice, uint64_t at_ns,
		       int32_t tid, const char *name);

/* Sets the name of each state through name_of(); -ENOMEM. */
int fgt_slice_name_states(struct fgt_ring_slice *slice,
			  const char *(*name_of)(const char *arch,
						 uint32_t state));

/*
 * True if the invariants stated above hold (every index in range, order, at
 * least one tick and anchor, depth <= FGT_SLICE_DEPTH_MAX, period_ns not 0,
 * effective_hz finite, texts of process terminated …): the check behind the
 * file reader and the tests. False also when there is no memory for the check.
 */
bool fgt_slice_is_valid(const struct fgt_ring_slice *slice);

/* ---- Between the parts of narrowing ------------------------------------- */

/*
 * A new table of the marked items; marks become numbers from 1 on. NULL without
 * memory.
 */
void *fgt_narrow_table(const void *items, size_t item_bytes, uint32_t count,
		       uint32_t *marks, uint32_t *ret_count);

/* The same for a member of both slices. 0, or -ENOMEM. */
#define FGT_NARROW_TABLE(source, result, table, table_count, marks)            \
	(((result)->table = fgt_narrow_table(                                  \
		  (source)->table, sizeof(*(source)->table),                   \
		  (source)->table_count, marks, &(result)->table_count))       \
		 ? 0                                                           \
		 : -ENOMEM)

/* *id: of a string of source, then of the same one of result. -ENOMEM. */
int fgt_narrow_string(const struct fgt_ring_slice *source,
		      struct fgt_ring_slice *result, uint32_t *id);

#endif
