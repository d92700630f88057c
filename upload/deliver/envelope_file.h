/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts envelopes into a directory, each whole or not at all.
 */
#ifndef FGT_UPLOAD_DELIVER_ENVELOPE_FILE_H
#define FGT_UPLOAD_DELIVER_ENVELOPE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "upload/format/sentry/sentry_envelope.h"

#define FGT_ENVELOPE_NAME_MAX 80 /* bytes of what a program calls it */

/*
 * Writes NAME-YYYYMMDDTHHMMSS.mmmZ.envelope, mode 0600, by the wall clock
 * given; a number is added where there is one already. Of name, what is not a
 * letter, a digit, '.', '-' or '_' becomes '_', several of it one. -ENOTDIR,
 * errno of open, write and rename, the envelope's errors; why names cause and
 * remedy.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_envelope_file_write(const char *directory, const char *name,
			    uint64_t wall_ns,
			    const struct fgt_envelope *envelope,
			    size_t *ret_bytes, struct fgt_why *why);

#endif
