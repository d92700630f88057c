/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a small file of ours, whole, if nobody else could have written it.
 */
#ifndef FGT_UPLOAD_DELIVER_TRUSTED_FILE_H
#define FGT_UPLOAD_DELIVER_TRUSTED_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "ringbuf/base/why.h"

struct fgt_trust {
	size_t max_bytes;
	const char *max_text; /* the same for people: "1 MiB" */
	mode_t refused_mode; /* none of these bits may be set */
	const char *mode_text; /* what is wrong with them; the remedy */
};

/*
 * Only a regular file of at most max_bytes, owned by root or by us. Links are
 * followed: package managers and containers put them there; it is the file
 * that is checked. Never waits (a FIFO or a device is refused). bytes has room
 * for max_bytes + 1: one that grows is noticed; what it holds after an error
 * is undefined. -EINVAL, -EACCES, errno of open and read; why names the file.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_trusted_file_read(const char *path, const struct fgt_trust *trust,
			  char *bytes, size_t *ret_len, struct fgt_why *why);

/*
 * A path as who opens it later can use it, who may stand elsewhere by then: in
 * buffer, of size bytes. -EINVAL: it is longer, or relative to a working
 * directory that is gone; why tells it of that name. MT-Safe | AS-Unsafe
 */
int fgt_trusted_file_absolute(const char *name, const char *path, char *buffer,
			      size_t size, struct fgt_why *why);

/* The end of a path, short enough for a message. */
const char *fgt_trusted_file_name(const char *path);

#endif
