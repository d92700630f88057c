/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slice request at work: cut, narrow, name, encode, send.
 */
#ifndef FGT_AGENT_DAEMON_SLICES_SLICE_WORKER_H
#define FGT_AGENT_DAEMON_SLICES_SLICE_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/target.h"
#include "agent/daemon/slices/slices.h"
#include "agent/symbols/symbolizer.h"
#include "ringbuf/slice/slice.h"

struct fgt_slice_work {
	struct fgt_target *target;
	struct fgt_symbolizer *symbolizer;
	struct fgt_slice_request request;
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
