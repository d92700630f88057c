/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file systems that a target's paths mean: its root while it lives, the
 * root of this machine otherwise. Opens files without being led out of them.
 */
#ifndef FGT_AGENT_UNWIND_ELF_ROOTFS_H
#define FGT_AGENT_UNWIND_ELF_ROOTFS_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/slice/slice.h"

/*
 * Opens a regular file read-only below root_fd (a descriptor of
 * /proc/PID/root, or of "/") with openat2 RESOLVE_IN_ROOT |
 * RESOLVE_NO_MAGICLINKS: paths come from the target. Anything else (FIFO,
 * device, directory) is not opened: -EINVAL. errno of openat2 and open.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_rootfs_open(int root_fd, const char *path, int *ret_fd);

/*
 * Opens the file behind an O_PATH descriptor for reading: the same file, also
 * if its name leads to another one by now. The caller has seen by fstat() that
 * it may be opened. errno of open.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_rootfs_reopen(int path_fd, int *ret_fd);

struct fgt_target_root {
	int target_fd; /* /proc/PID/root, -1 if gone or not permitted */
	int host_fd; /* "/" */
	int32_t ns_pid; /* the innermost NSpid; 0 if unknown */
	bool is_this_host; /* the process ran on this machine */
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
