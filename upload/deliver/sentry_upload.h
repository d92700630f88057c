/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a slice to a Sentry DSN as a gzipped envelope.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SENTRY_UPLOAD_H
#define FGT_UPLOAD_DELIVER_SENTRY_UPLOAD_H

#include <stdbool.h>

#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/deliver/dsn.h"
#include "upload/deliver/sentry_report.h"
#include "upload/format/format.h"
#include "upload/format/sentry/sentry_envelope.h"

struct fgt_upload_outcome {
	long status; /* HTTP status, 0 if there was no answer */
	char event_id[33]; /* of the envelope that was sent */
	size_t sent_bytes; /* on the wire, compressed */
	size_t plain_bytes; /* the envelope */
	unsigned int retry_after_s; /* with 429: when to try again, ≤ 86400 */
	struct fgt_ratelimits limits; /* of any answer */
};

/* Zero and NULL mean default. */
struct fgt_upload_limits {
	const char *ca_file; /* NULL: the system's authorities */
	const char *proxy, *client_pem; /* see struct fgt_http_request */
	bool is_http_allowed; /* plain, to another machine */
	bool has_root; /* directories lie below root_fd, of O_PATH */
	int root_fd;
	unsigned int connect_timeout_ms; /* 5000 */
	unsigned int total_timeout_ms; /* 30000 */
	unsigned int low_speed_s; /* 15 */
	bool is_sentry_v1; /* of a DSN as text: profiles of version 1 */
	uint32_t limited; /* bit n: Sentry wants none of category n now */
	/* For the report that rides along with the next envelope; NULL: none */
	const struct fgt_sentry_discards *discards;
};

/*
 * 0: accepted (2xx). -EACCES 401/403, -EMSGSIZE 413 or too large for Sentry,
 * -EBUSY 429, -EREMOTEIO other answers or one that is not Sentry's, else as
 * fgt_http_send() and fgt_format_write(). On errors, ret_outcome has what is
 * known by then. why never holds a key.
 * options->dsn and event_id are set here unless given. options and limits may
 * be NULL. The caller tries again.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_upload(const struct fgt_ring_slice *slice,
		      const struct fgt_dsn *dsn,
		      const struct fgt_format_options *options,
		      const struct fgt_upload_limits *limits,
		      struct fgt_upload_outcome *ret_outcome,
		      struct fgt_why *why);

/* The same for an envelope that the caller writes, and whose event_id (32
 * digits) it knows; ret_outcome->event_id is set first. */
int fgt_sentry_post(const struct fgt_envelope *envelope, const char *event_id,
		    const struct fgt_dsn *dsn,
		    const struct fgt_upload_limits *limits,
		    struct fgt_upload_outcome *ret_outcome,
		    struct fgt_why *why);

#endif
