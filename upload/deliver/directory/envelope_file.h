/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes envelopes and other payloads into a directory, each whole or not at
 * all.
 */
#ifndef FGT_UPLOAD_DELIVER_DIRECTORY_ENVELOPE_FILE_H
#define FGT_UPLOAD_DELIVER_DIRECTORY_ENVELOPE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "upload/format/sentry/sentry_envelope.h"

#define FGT_ENVELOPE_NAME_MAX 80 /* bytes of the name that a program gives */
#define FGT_ENVELOPE_FILE_MAX 192 /* of the file's, with its NUL */

struct fgt_envelope_written {
	size_t bytes;
	char name[FGT_ENVELOPE_FILE_MAX]; /* of the file, in its directory */
};

struct fgt_envelope_place {
	int root_fd; /* the root that the path begins in, whatever links it
		      * has; -1: this process's */
	const char *directory;
	const char *name; /* of the file, without time and ending */
	const char *ending; /* ".envelope" */
	uint64_t wall_ns; /* since the epoch */
	/* 0: no limit. Beyond it the oldest files with this ending and a time
	 * in their name are removed; the newest one always stays. */
	uint32_t max_files;
	uint64_t max_bytes;
};

/*
 * Writes NAME-YYYYMMDDTHHMMSS.mmmZENDING, mode 0600; a number is added if that
 * file exists with other bytes. A sequence of characters of name other than letters, digits,
 * '.', '-' and '_' becomes one '_'. -ENOTDIR, errno of open, write and rename,
 * the envelope's errors; why has cause and remedy.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_envelope_file_write(const struct fgt_envelope_place *place,
			    const struct fgt_envelope *envelope,
			    struct fgt_envelope_written *ret_written,
			    struct fgt_why *why);

/*
 * Removes the oldest files whose names are of the pattern above until the
 * limits are kept. A directory that this user may not list is left as it is.
 * directory_fd: may be O_PATH.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_envelope_file_prune(int directory_fd,
			     const struct fgt_envelope_place *place);

#endif
