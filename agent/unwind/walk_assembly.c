/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of assembly, for which a file has no rules. Runs in the
 * sampler's thread on a snapshot; must not pass off a short stack as a whole
 * one.
 */
#include "agent/unwind/walk.h"

#define PUSHED_WORDS	   16u /* above SP */
#define FUNCTION_BYTES_MAX 256u /* from its start to the call that it is in */

static bool is_in_file(const struct fgt_walk *walk)
{
	const struct fgt_mapping *mapping =
		fgt_maps_find(walk->view.maps, walk->state.pc);

	return mapping && mapping->image != FGT_MAPS_NO_IMAGE &&
	       walk->view.maps->images[mapping->image].file;
}

bool fgt_walk_is_root_without_rules(const struct fgt_walk *walk)
{
	const struct fgt_frame_state *state = &walk->state;
	uint64_t fp;

	return !state->is_exact && is_in_file(walk) &&
	       fgt_regs_get(&state->regs, fgt_arch_host.fp, &fp) && fp == 0;
}

/* crosscall1 of Go pushes six registers and has no rules. */
bool fgt_walk_step_by_call(struct fgt_walk *walk)
{
	struct fgt_frame_state *state = &walk->state;
	uint64_t slot = state->sp, return_pc, target;

	if (state->is_exact || !is_in_file(walk))
		return false;
	for (unsigned int i = 0; i < PUSHED_WORDS; i++, slot += 8) {
		if (fgt_view_read_stack(&walk->view, slot, &return_pc) < 0)
			return false;
		if (!fgt_view_is_code(&walk->view, return_pc - 1) ||
		    !fgt_view_find_call(&walk->view, return_pc, &target) ||
		    target >= state->pc ||
		    state->pc - target > FUNCTION_BYTES_MAX)
			continue;
		state->pc = return_pc;
		state->sp = slot + sizeof(return_pc);
		state->regs.valid = 0;
		return true;
	}
	return false;
}
