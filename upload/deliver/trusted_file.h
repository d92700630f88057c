/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a small file that no other user but root can have written.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_TRUSTED_FILE_H
#define FGT_UPLOAD_DELIVER_TRUSTED_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "ringbuf/base/why.h"

struct fgt_trust {
	size_t max_bytes;
	const char *max_text; /* the same for messages: "1 MiB" */
	mode_t refused_mode; /* none of these bits may be set */
	const char *mode_text; /* cause and remedy, for messages */
};

/*
 * Only a regular file of at most max_bytes, owned by root or by the effective
 * user. Links are followed, since package managers and containers use them; the
 * checks are of the file. Never waits: a FIFO or a device is refused. bytes has
 * room for max_bytes + 1, to notice a file that grows; after an error its
 * content is undefined. -EINVAL, -EACCES, errno of open and read; why names the
 * file.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_trusted_file_read(const char *path, const struct fgt_trust *trust,
			  char *bytes, size_t *ret_len, struct fgt_why *why);

/*
 * Makes a path absolute, for a process with another working directory: into
 * buffer, of size bytes. -EINVAL: it is longer, or relative to a working
 * directory that is gone; why calls it name. MT-Safe | AS-Unsafe
 */
int fgt_trusted_file_absolute(const char *name, const char *path, char *buffer,
			      size_t size, struct fgt_why *why);

/* The end of a path, short enough for a message. */
const char *fgt_trusted_file_name(const char *path);

#endif
