/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file systems that a target's paths mean: its root while it lives, the
 * root of this machine otherwise.
 */
#ifndef FGT_AGENT_UNWIND_ELF_ROOTFS_H
#define FGT_AGENT_UNWIND_ELF_ROOTFS_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/slice/slice.h"

struct fgt_target_root {
	int proc_fd; /* /proc/PID, -1 if gone */
	int target_fd; /* /proc/PID/root, -1 if gone or not permitted */
	int host_fd; /* "/" */
	int32_t ns_pid; /* the innermost NSpid; 0 if unknown */
	uint32_t uid; /* of the process */
	bool is_this_host; /* it ran on this machine */
	/* Of its memory, while it lives; 0 if unknown: where the heap of brk(2)
	 * begins and the first stack did, and how much is mapped. */
	uint64_t heap_start, stack_start, mapped_bytes;
};

/*
 * Opens the roots for a process; the target's only if is_live, and if pid and
 * start time still name that process. Never fails: what cannot be opened is
 * -1.
 */
void fgt_target_root_open(const struct fgt_process_info *process, bool is_live,
			  struct fgt_target_root *ret_root);
void fgt_target_root_close(struct fgt_target_root *root);

#endif
