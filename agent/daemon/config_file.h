/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a configuration file that may be trusted, whole.
 */
#ifndef FGT_AGENT_DAEMON_CONFIG_FILE_H
#define FGT_AGENT_DAEMON_CONFIG_FILE_H

#include <stddef.h>

#include "ringbuf/why.h"

/*
 * Only a regular file of at most 1 MiB, owned by root or by us, not writable
 * by everybody (FAULTS K4). Links are followed: package managers and
 * containers put them there; it is the file that is checked. Never waits (a
 * FIFO or a device is refused). Caller frees. -EINVAL, -EACCES, errno of open
 * and read.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_config_file_read(const char *path, char **ret_bytes, size_t *ret_len,
			 struct fgt_why *why);

#endif
