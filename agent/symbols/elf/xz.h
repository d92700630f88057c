/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks xz data (.gnu_debugdata) into memory. Runs in the symbol helper.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_XZ_H
#define FGT_AGENT_SYMBOLS_ELF_XZ_H

#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/names/names.h"

/*
 * Appends the contents to bytes. -EFBIG past its limit, -EBADMSG broken data,
 * -ENOMEM (the decoder may use 64 MiB).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_xz_unpack(const void *packed, size_t len, struct fgt_bytes *bytes);

#endif
