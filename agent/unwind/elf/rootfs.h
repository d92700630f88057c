/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files as a target sees them, without being led out of its root.
 */
#ifndef FGT_AGENT_UNWIND_ELF_ROOTFS_H
#define FGT_AGENT_UNWIND_ELF_ROOTFS_H

/*
 * Opens a regular file read-only below root_fd (a descriptor of
 * /proc/PID/root, or of "/") with openat2 RESOLVE_IN_ROOT |
 * RESOLVE_NO_MAGICLINKS, O_NONBLOCK, O_CLOEXEC. Anything but a regular file:
 * -EINVAL (FAULTS X7, X8). Else errno of openat2.
 *
 * MT-Safe | AS-Safe
 */
int fgt_rootfs_open(int root_fd, const char *path, int *ret_fd);

#endif
