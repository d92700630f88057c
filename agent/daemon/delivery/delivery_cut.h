/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slice of a delivery: cut out of a target's ring, named, and written into
 * a memfd that the delivering process gets.
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_CUT_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/target.h"
#include "agent/symbols/symbolizer.h"

struct fgt_delivery_cut {
	struct fgt_target *target;
	struct fgt_symbolizer *symbolizer;
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	bool is_transaction; /* delivered even if nothing was sampled then */
};

/*
 * May take seconds. -ENODATA fewer than two ticks, unless it is a transaction;
 * -EFBIG larger than FGT_DELIVERY_DATA_MAX, -ENOMEM, errno of memfd_create and
 * write; others as fgt_ring_cut().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_delivery_cut(const struct fgt_delivery_cut *cut, int *ret_fd,
		     uint64_t *ret_bytes);

/* What a memfd takes of memory: it may be larger than what of it has ever been
 * touched. 0 for -1. */
uint64_t fgt_delivery_bytes(int fd);

#endif
