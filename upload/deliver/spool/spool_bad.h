/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged entries: kept in the directory bad/, cut and few, for a look at them.
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_BAD_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_BAD_H

#include "upload/deliver/spool/spool_disk.h"
#include "upload/deliver/spool/spool_index.h"

#define FGT_SPOOL_BAD_MAX   16 /* files; the oldest goes */
#define FGT_SPOOL_BAD_BYTES 65536 /* of each */

/*
 * Moves the file of an entry there, or removes it where that fails. Negative
 * errno: it is still there.
 *
 * MT-Unsafe for one directory | AS-Unsafe
 */
int fgt_spool_bad_take(const struct fgt_spool_disk *disk, int directory_fd,
		       const struct fgt_spool_id *id);

#endif
