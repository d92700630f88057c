/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4), for files that power loss may
 * damage.
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_CRC32C_H
#define FGT_UPLOAD_DELIVER_SPOOL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * Of the bytes that crc is of, followed by bytes[len]; 0 is of no bytes.
 *
 * MT-Safe | AS-Unsafe
 */
uint32_t fgt_crc32c(uint32_t crc, const void *bytes, size_t len);

#endif
