/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The centre of the library: whether it records and with which backend, and the
 * parts (spans, activity file, transactions, crash link) that live as long as it
 * does. A part includes this header, never that of another room's part.
 */
#ifndef FGT_AGENT_LIB_LIBRARY_H
#define FGT_AGENT_LIB_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/lib/backend.h"
#include "agent/lib/fgtrace.h"

/* ---- Parts ------------------------------------------------------------- */

/* Any member may be NULL. A part defines one constant of this type, which is in
 * the table in library.c. */
struct fgt_part {
	/* In fgt_start(), before the backend is opened. The options stay valid
	 * until stop. An error fails the start. */
	int (*start)(const struct fgt_options *options);
	/* Undoes start; the worker calls this part no more. Threads of the
	 * program may still be inside its public functions. */
	void (*stop)(void);
	/* The memfd of the span log, for the recorder. Borrowed; another one
	 * after the program has closed it. */
	int (*get_spans_fd)(void);
	/*
	 * Worker thread, after each fgt_worker_wake() and once a second: does
	 * what is due. Returns the latest time of the next call
	 * (CLOCK_MONOTONIC); UINT64_MAX: as above.
	 */
	uint64_t (*work)(uint64_t now_ns);
	/* Worker thread. False: fgt_flush() and fgt_stop() (for one second) wait
	 * for this part. */
	bool (*is_idle)(void);
	/* fgt_stop() waits no longer: what is_idle waited for is lost, is
	 * counted and logged. On the worker, or in the thread of fgt_stop() if
	 * the worker does not return from work. */
	void (*give_up)(void);
	/* The thread of this part, which is never sampled; 0: none. */
	int32_t (*own_tid)(void);
	/* Adds its counters; any thread, also while nothing records. */
	void (*add_status)(struct fgt_status *status);
	/* In the child of a fork, also where nothing records: forgets what
	 * belongs to the parent. AS-Safe calls only. start may follow without a
	 * stop. */
	void (*forked)(void);
};

/* The address is NULL if the part is not linked. */
#define FGT_PART(name) extern const struct fgt_part name __attribute__((weak))
FGT_PART(fgt_span_part);
FGT_PART(fgt_activity_part);
FGT_PART(fgt_transaction_part);
FGT_PART(fgt_preload_part);
FGT_PART(fgt_crash_link_part);

/* $FGTRACE_OUT started the recording, which then ends at exit. NULL if not
 * linked. */
bool fgt_preload_holds(void) __attribute__((weak));

/* In the order of their start. */
extern const struct fgt_part *const fgt_parts[];
extern const unsigned int fgt_part_count;

/* The memfd of the span log, -1: none. Borrowed. */
int fgt_library_spans_fd(void);

/* ---- State ------------------------------------------------------------- */

enum fgt_phase {
	FGT_PHASE_IDLE, /* before the first start, after a stop */
	FGT_PHASE_STARTING,
	FGT_PHASE_RUNNING,
	FGT_PHASE_STOPPING,
	FGT_PHASE_FORKED, /* the parent recorded */
};

/* Written under the library's lock only. */
extern atomic_int fgt_library_phase;

/* Takes no lock, for calls that must be cheap. */
static inline bool fgt_library_is_started(void)
{
	/* Acquire: pairs with the release of fgt_start(), so that what parts
	 * have set up is seen. */
	return atomic_load_explicit(&fgt_library_phase, memory_order_acquire) ==
	       FGT_PHASE_RUNNING;
}

/* 0 while it records; else why not: -ENOTCONN, -ECHILD, -ESHUTDOWN.
 * MT-Safe | AS-Safe */
int fgt_library_check(void);

/*
 * Between enter and leave fgt_stop() frees nothing: it waits, at most
 * timeout_ms or 1.25 s, then leaves the freeing to the last caller that leaves.
 * Errors as _check.
 */
int fgt_library_enter(void);
void fgt_library_leave(void);

/* With defaults filled in. Between enter and leave, in start, work and stop of a
 * part. */
const struct fgt_options *fgt_library_options(void);

/* Between enter and leave, or on the worker. */
const struct fgt_open_backend *fgt_library_backend(void);

/* Worker, after each round. is_idle: the parts have done all that was due before
 * the round; wanted: see fgt_worker_want(). */
void fgt_library_round_ended(bool is_idle, uint64_t wanted);

/* ---- Slices ------------------------------------------------------------ */

/* -ESHUTDOWN if fgt_stop() comes first. Between enter and leave. */
int fgt_library_wait_until(uint64_t when_ns);

/* Cuts a slice for the program, and counts it. Between enter and leave: to_ns
 * has passed. As cut of struct fgt_backend; -ESHUTDOWN. */
int fgt_library_cut(uint64_t from_ns, uint64_t to_ns,
		    struct fgt_slice **ret_slice);

#endif
