/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each kind of destination sends. Only destination.c and the kinds include
 * this.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_KINDS_H
#define FGT_UPLOAD_DELIVER_KINDS_H

#include "upload/deliver/destination.h"
#include "upload/deliver/http.h"

struct fgt_sending {
	const struct fgt_destination *destination;
	const struct fgt_payload *payload;
	int root_fd;
	const struct fgt_upload_limits *limits; /* never NULL */
	struct fgt_send_outcome *outcome;
	struct fgt_why *why;
};

typedef int fgt_kind_send(const struct fgt_sending *sending);

fgt_kind_send fgt_kind_sentry_send;
fgt_kind_send fgt_kind_directory_send;
fgt_kind_send fgt_kind_http_send; /* OTLP too */
fgt_kind_send fgt_kind_pyroscope_send;
fgt_kind_send fgt_kind_pyroscope_push_send;

/* ---- What the HTTP kinds share: kind_http.c ------------------------------ */

/* More is refused before it is sent. */
#define FGT_KIND_BODY_MAX ((size_t)256 << 20)

struct fgt_kind_request {
	const char *url;
	const char *content_type, *content_encoding; /* "": none */
	const void *body;
	size_t body_len;
	bool is_post; /* else PUT */
};

/*
 * Sends with what the destination has: headers, keys, certificates. Judges the
 * answer: as fgt_destination_send().
 */
int fgt_kind_post(const struct fgt_sending *sending,
		  const struct fgt_kind_request *request);

/* The body in memory; errors with why. The caller frees it by
 * fgt_memory_sink_done(), also after errors. */
int fgt_kind_read_body(const struct fgt_sending *sending,
		       struct fgt_memory_sink *memory);

/* The answer of a temporary failure? */
bool fgt_kind_is_temporary(int error);

#endif
