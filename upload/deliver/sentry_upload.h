/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a slice to a Sentry DSN as a gzipped envelope and tells the outcome.
 */
#ifndef FGT_UPLOAD_DELIVER_SENTRY_UPLOAD_H
#define FGT_UPLOAD_DELIVER_SENTRY_UPLOAD_H

#include "ringbuf/slice.h"
#include "ringbuf/why.h"
#include "upload/deliver/dsn.h"
#include "upload/format/format.h"

struct fgt_upload_outcome {
	long status; /* HTTP status, 0 if there was no answer */
	char event_id[33]; /* of the envelope that was sent */
	size_t sent_bytes; /* on the wire, compressed */
	size_t plain_bytes; /* the envelope */
	unsigned int retry_after_s; /* with 429: when to try again, ≤ 86400 */
};

/*
 * 0: accepted (2xx). -EACCES 401/403, -EMSGSIZE 413, -EBUSY 429, -EREMOTEIO
 * other answers, else as fgt_http_post() and fgt_format_write(). ret_outcome
 * is filled as far as things got, also on errors. ca_file may be NULL.
 * Retrying is the caller's business.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_upload(const struct fgt_slice *slice, const struct fgt_dsn *dsn,
		      const struct fgt_format_options *options,
		      const char *ca_file,
		      struct fgt_upload_outcome *ret_outcome,
		      struct fgt_why *why);

#endif
