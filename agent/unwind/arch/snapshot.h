/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread at one instant: registers and a piece of its stack. The unwinder
 * sees nothing else of a thread.
 */
#ifndef FGT_AGENT_UNWIND_ARCH_SNAPSHOT_H
#define FGT_AGENT_UNWIND_ARCH_SNAPSHOT_H

#include "agent/unwind/arch/arch.h"

/* Enough for 99 % of stacks in the first read; more is read on demand. */
#define FGT_SNAPSHOT_FIRST_BYTES 8192
#define FGT_SNAPSHOT_MAX_BYTES	 (256 * 1024)

struct fgt_snapshot {
	struct fgt_regs regs; /* at least sp and pc; others if known */
	uint64_t stack_start; /* address of stack[0]; at or below sp */
	const uint8_t *stack; /* borrowed */
	size_t stack_len; /* bytes */
	/* End of the stack's mapping, 0 if unknown: a read past stack_len but
	 * below this is "more stack than was copied". */
	uint64_t stack_limit;
	bool is_blocked; /* in a system call: pc is after the trap */
	/*
	 * A piece of another stack, from the address that
	 * fgt_unwind_result.need_other asked for: where a signal found the
	 * thread whose handler runs on an alternate stack. NULL if none.
	 */
	const uint8_t *other; /* borrowed */
	uint64_t other_start;
	size_t other_len; /* bytes */
	bool is_other_later; /* read when the thread may have run on */
};

#endif
