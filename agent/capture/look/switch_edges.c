/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First times on a CPU, told apart by the instants of looks. Runs in the
 * sampler's thread.
 *
 * The kernel's half keeps the first one after the last look, and hears of a
 * look only some time after its instant. What came in between is either what
 * it has kept (nothing came before the instant), or was kept nowhere.
 */
#include "agent/capture/look/switch_edges.h"

/* The first time on a CPU after the instant, which is not in first_on_ns. */
static uint64_t on_after(const struct fgt_switch_slot *slot,
			 uint64_t instant_ns)
{
	if (slot->on_ns <= instant_ns)
		return 0;
	return slot->is_first ? slot->on_ns : UINT64_MAX;
}

uint64_t fgt_switch_seen_take(struct fgt_switch_seen *seen,
			      const struct fgt_switch_slot *slot,
			      uint64_t instant_ns)
{
	uint64_t on_ns = seen->next_on_ns;

	if (!on_ns && slot->first_on_ns > seen->looked_ns)
		on_ns = slot->first_on_ns;
	seen->looked_ns = instant_ns;
	if (on_ns > instant_ns && on_ns != UINT64_MAX)
		return 0; /* the next look's, wherever it is kept */
	seen->next_on_ns =
		slot->first_on_ns > instant_ns ? 0 : on_after(slot, instant_ns);
	return on_ns == UINT64_MAX ? 0 : on_ns;
}
