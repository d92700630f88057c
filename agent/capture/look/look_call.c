/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which system call a thread is blocked, by its slot: two reads of procfs are
 * saved for each wait. Runs in the sampler's thread; reads only.
 */
#include "agent/capture/look/look_parts.h"

#include <string.h>

bool fgt_look_call(const struct fgt_look *look, const struct fgt_thread *thread,
		   struct fgt_blocked *ret_blocked, uint64_t *ret_since_ns)
{
	const struct fgt_thread_switches *switches =
		fgt_thread_table_switches(&look->threads, thread);
	struct fgt_switch_slot slot;

	if (!look->switches || !switches ||
	    !fgt_switches_read(look->switches, switches->index, &slot) ||
	    !slot.version || slot.is_on || !slot.off.task_state ||
	    slot.off.woken_us || slot.off.call < 0)
		return false;
	*ret_blocked = (struct fgt_blocked){
		.call = slot.off.call,
		.sp = slot.off.sp,
		.pc = slot.off.pc,
	};
	memcpy(ret_blocked->args, slot.off.args, sizeof(slot.off.args));
	*ret_since_ns = slot.off.ns;
	return true;
}
