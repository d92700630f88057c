/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a configuration file before libconfig reads it.
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_SCAN_H
#define FGT_AGENT_CONFIG_CONFIG_SCAN_H

#include <stddef.h>

#include "ringbuf/base/why.h"

#define FGT_CONFIG_FILE_MAX  (1024 * 1024) /* bytes */
#define FGT_CONFIG_DEPTH_MAX 8
#define FGT_CONFIG_KEYS_MAX  8192 /* libconfig's duplicate check is O(n²) */

/*
 * Refuses what libconfig would misread or accept silently: a directive, deep
 * nesting, a number that it wraps, an escape that cuts a string, text that is
 * not UTF-8. Grammar is left to libconfig. ret_clean gets a NUL-terminated copy
 * of bytes[len] with the same line numbers, without byte order mark and
 * comments; the caller frees it. file_name is for messages. -EINVAL with why
 * "FILE:LINE: …", -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_config_scan(const char *bytes, size_t len, const char *file_name,
		    char **ret_clean, struct fgt_why *why);

#endif
