/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a thread got a CPU for the first time between two looks at its
 * switches, by what its slot keeps.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_SWITCH_EDGES_H
#define FGT_AGENT_CAPTURE_LOOK_SWITCH_EDGES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/who_ran/switch_slot.h"

/* What looks have told of already. */
struct fgt_switch_seen {
	uint64_t looked_ns; /* instant of the last one */
	/* First time on a CPU after that, where the slot does not keep it;
	 * 0: it does, UINT64_MAX: nobody knows. */
	uint64_t next_on_ns;
	uint16_t blocks; /* of the slot, then */
	bool is_plain; /* it has blocked once or twice since the one before */
};

/*
 * First time on a CPU after the last look's instant and up to this one's; 0:
 * none, or not known. instant_ns becomes the last look's.
 *
 * MT-Unsafe | AS-Safe
 */
uint64_t fgt_switch_seen_take(struct fgt_switch_seen *seen,
			      const struct fgt_switch_slot *slot,
			      uint64_t instant_ns);

#endif
