/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all rooms of the library share: its state, which only agent/lib/start
 * writes, and the interface of a part (spans, activity file, transactions,
 * crash link), which lives as long as the library records.
 */
#ifndef FGT_AGENT_LIB_LIBRARY_H
#define FGT_AGENT_LIB_LIBRARY_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/lib/backend.h"
#include "agent/lib/fgtrace.h"
#include "agent/lib/settings.h"

/* ---- Parts ------------------------------------------------------------- */

/* Any member may be NULL. A part defines one constant of this type, which is in
 * the table in start.c. */
struct fgt_part {
	/* In fgt_start(), before the backend is opened. The options stay valid
	 * until stop. An error fails the start. */
	int (*start)(const struct fgt_options *options);
	/* Undoes start; the worker calls this part no more. Threads of the
	 * program may still be inside its public functions. */
	void (*stop)(void);
	/*
	 * Worker thread, after each fgt_library_wake() and once a second: does
	 * what is due. Returns the latest time of the next call
	 * (CLOCK_MONOTONIC); UINT64_MAX: as above.
	 */
	uint64_t (*work)(uint64_t now_ns);
	/* Worker thread. False: fgt_flush() and fgt_stop() (for one second)
	 * wait for this part. */
	bool (*is_idle)(void);
	/* fgt_stop() waits no longer: what is_idle waited for is lost, is
	 * counted and logged. On the worker, or in the thread of fgt_stop() if
	 * the worker does not return from work. */
	void (*give_up)(void);
	/* Adds its counters; any thread, also while nothing records. */
	void (*add_status)(struct fgt_status *status);
	/* In the child of a fork, also where nothing records: forgets what
	 * belongs to the parent. AS-Safe calls only. start may follow without a
	 * stop. */
	void (*forked)(void);
};

extern const struct fgt_part fgt_context_part, fgt_span_part, fgt_activity_part,
	fgt_transaction_part, fgt_crash_link_part, fgt_preload_part;

/* ---- State ------------------------------------------------------------- */

enum fgt_phase {
	FGT_PHASE_IDLE, /* before the first start, after a stop */
	FGT_PHASE_STARTING,
	FGT_PHASE_RUNNING,
	FGT_PHASE_STOPPING,
	FGT_PHASE_FORKED, /* the parent recorded */
};

struct fgt_library {
	atomic_int phase; /* enum fgt_phase; written under start.c's lock */
	sem_t wake; /* of the worker */
	_Atomic uint64_t slices; /* that the program got; relaxed: a number */

	/* The agent delivers transactions whose program names no destination.
	 * Relaxed: nothing depends on it. */
	atomic_bool has_default_destination;

	/* From fgt_start() until fgt_stop(). To be read by its users (see
	 * start.h), on the worker, and in start, work and stop of a part. */
	struct fgt_settings settings; /* defaults filled in */
	const struct fgt_backend *backend; /* NULL: none is open */
};

extern struct fgt_library fgt_library;

/* Takes no lock, for calls that must be cheap. */
static inline enum fgt_phase fgt_library_phase(void)
{
	/* Acquire: pairs with the release of fgt_start(), so that what parts
	 * have set up is seen. */
	return (enum fgt_phase)atomic_load_explicit(&fgt_library.phase,
						    memory_order_acquire);
}

static inline bool fgt_library_is_started(void)
{
	return fgt_library_phase() == FGT_PHASE_RUNNING;
}

/* 0 while it records; else why not: -ENOTCONN, -ECHILD, -ESHUTDOWN.
 * MT-Safe | AS-Safe */
int fgt_library_check(void);

/* All parts work soon. Also while nothing records; takes no lock.
 * MT-Safe | AS-Safe */
void fgt_library_wake(void);

/* In the child of a fork, where no thread waits for it. */
void fgt_library_init_wake(void);

#endif
