/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads of a slice do, as numbers that can be compared: a function of
 * the program, the library's function that it called, the state, and the
 * reason of a wait. Where the reason leaves open what a wait is for, the
 * callers show it: a program may wait for a lock and for its client in one
 * function. Equal doings of threads of one group are one row of any table.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_DOING_H
#define FGT_UPLOAD_WHY_DOING_H

#include "ringbuf/base/id_map.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"
#include "ringbuf/slice/wait.h"
#include "upload/why/place.h"

struct fgt_doing {
	struct fgt_place place; /* 0 where the thread waits for a CPU */
	uint32_t state; /* enum fgt_state */
	uint32_t kind; /* enum fgt_wait_kind of a blocked thread */
	uint32_t wait; /* the first such one, index into waits + 1; 0: none */
	uint32_t thread; /* of that one */
	uint32_t stack; /* likewise, a leaf */
	uint32_t callers[FGT_PLACE_CALLERS]; /* string ids, 0: the reason
					      * is enough */
	bool shows_callers; /* nothing else distinguishes it from another one */
	/* Its waits do not all have the holder, or the length, of that one. */
	bool has_other_owners, has_other_times;
};

struct fgt_doings {
	struct fgt_doing *doings;
	uint32_t count, capacity;
	struct fgt_id_map map, stacks, parts;
	struct fgt_place *places; /* of all stacks */
	uint32_t *run_doings; /* [run_count] */
	uint32_t *wait_lasts; /* [run_count]: the last run of the same wait */
	uint32_t *thread_runs; /* [thread_count + 1]: its first run */
	uint32_t *thread_groups; /* [thread_count] */
	uint32_t group_count;
	uint32_t *group_sizes; /* [group_count]: threads */
};

/* Needs symbols and state names. -ENOMEM. */
int fgt_doings_new(const struct fgt_ring_slice *slice,
		   struct fgt_doings **ret_doings);
void fgt_doings_free(struct fgt_doings *doings);
FGT_DEFINE_AUTO(struct fgt_doings *, fgt_doings_free);

/* The run of a thread that covers a tick; FGT_ID_NONE if there is none. */
uint32_t fgt_doings_run_at(const struct fgt_doings *doings,
			   const struct fgt_ring_slice *slice, uint32_t thread,
			   uint32_t tick);

/* What a run does: owner and time-out are those of this very run. */
struct fgt_doing fgt_doings_of_run(const struct fgt_doings *doings,
				   const struct fgt_ring_slice *slice,
				   uint32_t run);

/* The kind of a wait by the name of its system call, where the reason was not
 * read. */
enum fgt_wait_kind fgt_doing_kind_of_state(const struct fgt_ring_slice *slice,
					   uint32_t state);

/* Does a thread that does this wait for something to do? Threads of a pool
 * do so for most of their time, so that more of it explains little. */
bool fgt_doing_is_passive(const struct fgt_ring_slice *slice,
			  const struct fgt_doing *doing);

#endif
