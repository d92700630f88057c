/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file systems that a target's paths mean: its own root while it lives,
 * the root of this machine otherwise. Descriptors only; follows no link out.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_TARGET_ROOT_H
#define FGT_AGENT_SYMBOLS_ELF_TARGET_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"

struct fgt_target_root {
	int target_fd; /* /proc/PID/root, -1 if gone or not permitted */
	int host_fd; /* "/" */
	int32_t ns_pid; /* the innermost NSpid; 0 if unknown */
	bool is_this_host; /* the slice was cut on this machine */
};

/*
 * Opens the roots for a slice. The target's only if is_live and pid and start
 * time still name the process of the slice. Never fails: what cannot be
 * opened is -1.
 */
void fgt_target_root_open(const struct fgt_ring_slice *slice, bool is_live,
			  struct fgt_target_root *ret_root);
void fgt_target_root_close(struct fgt_target_root *root);

static inline void fgt_target_root_close_auto(struct fgt_target_root *root)
{
	fgt_target_root_close(root);
}

#endif
