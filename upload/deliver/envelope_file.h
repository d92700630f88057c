/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes envelopes into a directory, each whole or not at all.
 */
#ifndef FGT_UPLOAD_DELIVER_ENVELOPE_FILE_H
#define FGT_UPLOAD_DELIVER_ENVELOPE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "upload/format/sentry/sentry_envelope.h"

#define FGT_ENVELOPE_NAME_MAX 80 /* bytes of the name that a program gives */

/*
 * Writes NAME-YYYYMMDDTHHMMSS.mmmZ.envelope, mode 0600, by the wall clock
 * given; a number is added if that file exists. A sequence of characters of
 * name other than letters, digits, '.', '-' and '_' becomes one '_'. -ENOTDIR,
 * errno of open, write and rename, the envelope's errors; why has cause and
 * remedy. root_fd: the root that the path begins in, whatever links it has;
 * -1: this process's.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_envelope_file_write(int root_fd, const char *directory,
			    const char *name, uint64_t wall_ns,
			    const struct fgt_envelope *envelope,
			    size_t *ret_bytes, struct fgt_why *why);

#endif
