/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict look over a configuration file before libconfig sees it.
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_SCAN_H
#define FGT_AGENT_CONFIG_CONFIG_SCAN_H

#include <stddef.h>

#include "ringbuf/base/why.h"

#define FGT_CONFIG_FILE_MAX  (1024 * 1024) /* bytes */
#define FGT_CONFIG_DEPTH_MAX 8
#define FGT_CONFIG_NAMES_MAX 8192 /* libconfig's duplicate check is O(n²) */

/*
 * Checks text and grammar of bytes[len]. ret_clean gets a NUL-terminated copy
 * with the same line numbers, without byte order mark and comments, in which
 * libconfig finds nothing that it could misread: no directive, no number that
 * it would wrap, no escape that it would cut at, no deep nesting, no error of
 * grammar. file_name is for messages. -EINVAL with why "FILE:LINE: …",
 * -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_config_scan(const char *bytes, size_t len, const char *file_name,
		    char **ret_clean, struct fgt_why *why);

#endif
