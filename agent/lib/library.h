/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's middle: whether it records, with which backend, and what its
 * parts (spans, activity file, transactions, outbox) hang on to. A part knows
 * this header and backend.h, never another part's insides.
 */
#ifndef FGT_AGENT_LIB_LIBRARY_H
#define FGT_AGENT_LIB_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/lib/backend.h"
#include "agent/lib/fgtrace.h"

/*
 * Something that lives as long as the library records. Any member may be NULL.
 * A part defines one constant of this type, whose name stands in parts.c.
 */
struct fgt_part {
	/* fgt_start(), before the backend is opened; texts and numbers of the
	 * options stay valid until stop. An error fails the start. */
	int (*start)(const struct fgt_options *options);
	/* Undoes start; nothing of this part runs any more on the worker. The
	 * program's threads may still be inside its public functions. */
	void (*stop)(void);
	/* memfd of the span log: told to whoever records. Borrowed; another
	 * one after the program has closed it. */
	int (*get_spans_fd)(void);
	/*
	 * Worker thread, after each fgt_library_wake() and once a second:
	 * does what there is to do. Returns when it wants to be called again
	 * at the latest (CLOCK_MONOTONIC), UINT64_MAX: as above.
	 */
	uint64_t (*work)(uint64_t now_ns);
	/* Worker thread: is there nothing left that fgt_flush() and fgt_stop()
	 * (for one second) should wait for? */
	bool (*is_idle)(void);
	/* fgt_stop() waits no longer for what is_idle told of: it is lost, and
	 * is counted and told so. On the worker; in the thread of fgt_stop()
	 * where the worker does not come back from work. */
	void (*give_up)(void);
	/* Of a thread that it has: never sampled. 0: there is none. */
	int32_t (*own_tid)(void);
	/* Adds its counters; any thread, also while nothing records. */
	void (*add_status)(struct fgt_status *status);
	/* In the child of a fork, also where nothing records: forgets what
	 * belongs to the parent. Only what is async-signal-safe. start may
	 * follow without a stop. */
	void (*forked)(void);
};

/* One that has not been linked in has the address NULL. */
#define FGT_PART(name) extern const struct fgt_part name __attribute__((weak))
FGT_PART(fgt_span_part);
FGT_PART(fgt_activity_part);
FGT_PART(fgt_transaction_part);
FGT_PART(fgt_preload_part);
FGT_PART(fgt_crash_link_part);

/* $FGTRACE_OUT has begun it, and ends it at exit. NULL as the parts are. */
bool fgt_preload_holds(void) __attribute__((weak));

/* In the order of their start. */
extern const struct fgt_part *const fgt_parts[];
extern const unsigned int fgt_part_count;

/* Of one start at a time. An error leaves what did start to stop. */
int fgt_parts_start(const struct fgt_options *options);
/* Those that have been started, in the opposite order. */
void fgt_parts_stop(void);
/* The memfd of the span log, -1; borrowed. */
int fgt_parts_spans_fd(void);
/* Of the one thread that a part has, 0. */
int32_t fgt_parts_own_tid(void);
/* In the child of a fork: none is started. */
void fgt_parts_forked(void);

enum fgt_phase {
	FGT_PHASE_IDLE, /* before the first start, after a stop */
	FGT_PHASE_STARTING,
	FGT_PHASE_RUNNING,
	FGT_PHASE_STOPPING,
	FGT_PHASE_FORKED, /* the parent recorded */
};

/* One writer at a time: who holds the library's lock. */
extern atomic_int fgt_library_phase;

/* A glance without a lock, for calls that must be cheap. */
static inline bool fgt_library_is_started(void)
{
	/* Acquire: pairs with the release of fgt_start(), so that what parts
	 * have set up is seen. */
	return atomic_load_explicit(&fgt_library_phase, memory_order_acquire) ==
	       FGT_PHASE_RUNNING;
}

/* 0 while it records; -ENOTCONN, -ECHILD, -ESHUTDOWN: why it does not.
 * MT-Safe | AS-Safe */
int fgt_library_check(void);

/*
 * Between enter and leave fgt_stop() frees nothing (it waits a while, then
 * leaves the freeing to the last one that leaves). Errors as _check.
 */
int fgt_library_enter(void);
void fgt_library_leave(void);

/* With defaults filled in. Between enter and leave, in a part's start, work
 * and stop. */
const struct fgt_options *fgt_library_options(void);

/* The worker looks at all parts soon. Any thread, also while nothing records;
 * takes no lock. MT-Safe | AS-Safe */
void fgt_library_wake(void);

/* To the backend's deliver; worker thread only. */
int fgt_library_deliver(const struct fgt_delivery *delivery, char *ret_why);

/* -ESHUTDOWN if fgt_stop() comes first. Between enter and leave. */
int fgt_library_wait_until(uint64_t when_ns);

/* Between enter and leave: to_ns has passed. As backend.cut. */
int fgt_library_cut(uint64_t from_ns, uint64_t to_ns,
		    struct fgt_slice **ret_slice);
/* As backend.cut_transaction, which is there; worker. */
int fgt_library_cut_transaction(uint64_t from_ns, uint64_t to_ns,
				struct fgt_slice **ret_slice);
/* Of those that fgt_get_slice() returned. */
void fgt_library_count_slice(void);
/* The ring is this process's own. Between enter and leave, or on the worker. */
bool fgt_library_is_embedded(void);
/* The memfd of the ring, borrowed, -1: it is the agent's. Worker. */
int fgt_library_ring_fd(void);
/* 0 if it is not known. Between enter and leave. */
double fgt_library_hz(void);

#endif
