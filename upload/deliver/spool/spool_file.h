/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of an entry: a fixed part of 48 bytes, the head, the body.
 *
 *   0  "FGTSPOOL"           32  CRC-32C of the head
 *   8  version, 1           36  CRC-32C of the body
 *  12  length of the head   40  CRC-32C of bytes 0 to 39
 *  16  length of the body   44  0
 *  24  created, ns since the epoch
 *
 * Numbers are little-endian; lengths and sums have 4 bytes, those at 16 and 24
 * have 8. A file with more or fewer bytes than that is damaged.
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_FILE_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_FILE_H

#include <stddef.h>
#include <stdint.h>

#define FGT_SPOOL_FIXED	   48
#define FGT_SPOOL_HEAD_MAX 16384
#define FGT_SPOOL_BODY_MAX ((uint64_t)64 << 20)

struct fgt_spool_parts {
	uint64_t created_ns;
	uint32_t head_len, head_sum;
	uint64_t body_len;
	uint32_t body_sum;
};

/* MT-Safe | AS-Unsafe */
void fgt_spool_file_fix(const struct fgt_spool_parts *parts,
			uint8_t ret_fixed[FGT_SPOOL_FIXED]);

/*
 * Reads and checks all but the body, and that the file's length fits. The file
 * may be of a process that means harm. -EBADMSG: it is damaged, or no regular
 * file; errno of fstat and read.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_spool_file_read_head(int fd, uint8_t ret_head[FGT_SPOOL_HEAD_MAX],
			     struct fgt_spool_parts *ret_parts);

/*
 * Reads all and checks the body, too, in the copy that is returned: the file
 * may change. The body is at ret_body, which the caller frees. The errors of
 * _read_head(), -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_spool_file_read(int fd, uint8_t ret_head[FGT_SPOOL_HEAD_MAX],
			struct fgt_spool_parts *ret_parts, uint8_t **ret_body);

#endif
