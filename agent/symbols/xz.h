/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks xz data (.gnu_debugdata) into a memory file. Runs in the symbol
 * helper.
 */
#ifndef FGT_AGENT_SYMBOLS_XZ_H
#define FGT_AGENT_SYMBOLS_XZ_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns a new memfd with the contents (caller closes). -EFBIG past
 * max_bytes, -EBADMSG broken data, -ENOMEM (the decoder may use 64 MiB).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_xz_unpack(const void *packed, size_t len, uint64_t max_bytes,
		  int *ret_fd);

#endif
