/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the directory of a spool, which no other user may change, for one
 * process at a time.
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_DIRECTORY_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_DIRECTORY_H

#include <stdbool.h>

#include "ringbuf/base/why.h"

/*
 * Makes the directory (mode 0700) if only its last part is missing, and takes
 * the lock in it; ret_lock_fd NULL: not. The lock is the process's, and ends
 * when the process closes any descriptor of it: the directory must not be
 * opened twice with a lock. -EACCES: another user owns it, or may write to it;
 * -EBUSY: another process has it; errno of open, mkdir and fcntl; why is set.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_spool_directory_open(const char *path, int *ret_fd, int *ret_lock_fd,
			     struct fgt_why *why);

/* Does another process have the lock? */
bool fgt_spool_directory_is_locked(int directory_fd);

#endif
