/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file a descriptor is of. In somebody else's program its number may be
 * closed, and be another file's afterwards.
 */
#ifndef FGT_RINGBUF_BASE_FILE_ID_H
#define FGT_RINGBUF_BASE_FILE_ID_H

#include <stdbool.h>
#include <sys/types.h>

/* { 0 } is no file's. */
struct fgt_file_id {
	dev_t device;
	ino_t inode;
};

/* errno of fstat(2). MT-Safe | AS-Safe */
int fgt_file_id_get(int fd, struct fgt_file_id *ret_id);

/* Is the descriptor, which may be -1, that of this file? MT-Safe | AS-Safe */
bool fgt_file_id_is(const struct fgt_file_id *id, int fd);

#endif
