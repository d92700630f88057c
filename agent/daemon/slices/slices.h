/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice requests: those that wait for their end of time, those in the queue,
 * those at work in threads.
 */
#ifndef FGT_AGENT_DAEMON_SLICES_SLICES_H
#define FGT_AGENT_DAEMON_SLICES_SLICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/capture/target.h"
#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/gate.h"
#include "agent/symbols/symbolizer.h"
#include "ringbuf/slice/slice.h"

#define FGT_SLICES_AT_WORK 4
#define FGT_SLICES_QUEUED  16
#define FGT_SLICES_STARTED 8 /* at work or being sent: each is in memory */
/* Slices of one user among those; root and the daemon's own user are not
 * counted. */
#define FGT_SLICES_PER_USER	   2
#define FGT_SLICES_QUEUED_PER_USER 8
/* How long a request waits for a place that slow readers hold, before -EBUSY.
 * Less than the library's own time-out. */
#define FGT_SLICES_WAIT_NS UINT64_C(600000000)

struct fgt_slices;
struct fgt_targets;

struct fgt_slice_request {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC, from ≤ to */
	int32_t tid; /* 0: all */
	bool is_moment; /* what threads do at the last tick */
	bool is_clock_set; /* the wall clock, within the ring's time */
};

struct fgt_slices_counters {
	uint64_t served, failed, busy;
	size_t active, waiting; /* now; waiting: for time or for a thread */
};

/* How long after the end of a range the next two ticks have been committed, so
 * that the gate lets the first through; at most 0.8 s where ticks are rare. */
uint64_t fgt_slices_grace_ns(const struct fgt_target *target);

/* The symbolizer is shared by all and outlives this. -ENOMEM. */
int fgt_slices_new(struct fgt_loop *loop, struct fgt_symbolizer *symbolizer,
		   struct fgt_slices **ret_slices);
/* Cancels, waits for the threads. */
void fgt_slices_free(struct fgt_slices *slices);

/* Answers the client in the end, with what the gate lets through when the slice
 * is cut. Takes its own reference of the target. */
void fgt_slices_submit(struct fgt_slices *slices,
		       struct fgt_control_client *client,
		       struct fgt_target *target,
		       const struct fgt_slice_request *request,
		       const struct fgt_gate *gate);

/* Once a second: nothing more comes of a target that has ended. */
void fgt_slices_refresh(struct fgt_slices *slices);

/* Sends away those that have not begun. */
void fgt_slices_leave(struct fgt_slices *slices);
/* Makes those at work give up. */
void fgt_slices_cancel(struct fgt_slices *slices);

/* The verb slice: maps times by the clock anchors of the target's ring, so that
 * one request is enough. */
struct fgt_slice_verb {
	struct fgt_slices *slices;
	struct fgt_targets *targets;
};

/* context: struct fgt_slice_verb. Answers the client in the end. */
void fgt_slice_verb_handle(void *context, struct fgt_control_client *client,
			   const struct fgt_request *request);

void fgt_slices_get_counters(struct fgt_slices *slices,
			     struct fgt_slices_counters *ret_counters);

/* ---- For this room: one request at work ---------------------------------- */

struct fgt_slice_work {
	struct fgt_target *target;
	struct fgt_symbolizer *symbolizer;
	struct fgt_slice_request request;
	struct fgt_gate gate;
	int fd; /* of the client, non-blocking */
	/* Relaxed: set by the loop, only makes the work end sooner. */
	const atomic_bool *is_cancelled;
};

/*
 * The expensive part. What fails is answered to the client with its cause.
 * -ECANCELED: the client has gone or the daemon leaves.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_work_prepare(const struct fgt_slice_work *work,
			   struct fgt_ring_slice **ret_slice);

/*
 * The part that goes at the client's pace: the reply and the .fgt file in
 * frames. -ETIMEDOUT after 30 s without progress or 5 min in all, -EPIPE,
 * -ECANCELED.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_work_send(const struct fgt_slice_work *work,
			const struct fgt_ring_slice *slice);

#endif
