/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a configuration file that may be trusted, whole.
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_FILE_H
#define FGT_AGENT_CONFIG_CONFIG_FILE_H

#include <stddef.h>

#include "ringbuf/base/why.h"

/*
 * As fgt_trusted_file_read(): at most 1 MiB, not writable by everybody (FAULTS
 * K4). Caller frees. -ENOMEM and its errors.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_config_file_read(const char *path, char **ret_bytes, size_t *ret_len,
			 struct fgt_why *why);

#endif
