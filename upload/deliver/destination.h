/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination: turns a slice into payloads, and sends payloads. One file for
 * each kind (kind_*.c).
 *
 * MT-Safe for different destinations | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_DESTINATION_H
#define FGT_UPLOAD_DELIVER_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/deliver/payload.h"
#include "upload/deliver/sentry_upload.h"
#include "upload/format/format_list.h"
#include "upload/format/parts/options.h"

/* X(id, name in the configuration) */
#define FGT_DESTINATION_KINDS(X)                                               \
	X(SENTRY, "sentry") /* a DSN */                                        \
	X(DIRECTORY, "directory")                                              \
	X(HTTP, "http") /* PUT or POST of any format to a URL */               \
	X(PYROSCOPE, "pyroscope") /* /ingest with pprof */                     \
	X(PYROSCOPE_PUSH, "pyroscope-push") /* push.v1 with pprof in JSON */   \
	X(OTLP, "otlp") /* OTLP profiles over HTTP */

#define FGT_DESTINATION_KIND(id, name) FGT_DESTINATION_##id,
enum fgt_destination_kind {
	FGT_DESTINATION_KINDS(FGT_DESTINATION_KIND) FGT_DESTINATION_COUNT
};

/*
 * Texts of a destination; NULL: not given. Those marked secret must not reach a
 * log, an argument list or an error. X(member)
 */
#define FGT_DESTINATION_TEXTS(X)                                               \
	X(name) /* of the configuration */                                     \
	X(target) /* secret: DSN, URL template or directory */                 \
	X(headers) /* secret: lines "Name: value" */                           \
	X(aws_keys) /* secret: ID:SECRET */                                    \
	X(aws_token) /* secret: of a session */                                \
	X(aws_region)                                                          \
	X(aws_service)                                                         \
	X(client_pem) /* secret: certificate and key */                        \
	X(ca_file)                                                             \
	X(proxy)

#define FGT_DESTINATION_NUMBERS(X)                                             \
	X(kind) /* enum fgt_destination_kind */                                \
	X(format) /* enum fgt_format_kind */                                   \
	X(is_gzip) /* of text formats */                                       \
	X(is_post) /* of kind http; else PUT */                                \
	X(is_http_allowed)                                                     \
	X(is_sum) /* of kind otlp: sums, else a timestamp for each sample */   \
	X(is_v1) /* of Sentry: profiles of version 1, in their transaction */  \
	X(max_files) /* of a directory; 0: no limit */                         \
	X(max_mb)

struct fgt_destination {
#define FGT_DESTINATION_TEXT(member)   char *member;
#define FGT_DESTINATION_NUMBER(member) uint32_t member;
	FGT_DESTINATION_TEXTS(FGT_DESTINATION_TEXT)
	FGT_DESTINATION_NUMBERS(FGT_DESTINATION_NUMBER)
	uint64_t sequence; /* {seq}: its owner chooses; 0: the encoder does */
};

/* Overwrites what is secret. NULL is fine. */
void fgt_destination_free(struct fgt_destination *destination);
FGT_DEFINE_AUTO(struct fgt_destination *, fgt_destination_free);

/* ---- From text: destination_parse.c, of libc only ------------------------ */

/*
 * An absolute path is a directory, a URL with a key before @ a DSN; any other
 * URL is a template of kind http, or pyroscope, pyroscope-push, otlp by the end
 * of its path (/ingest, /push.v1.PusherService/Push, /v1development/profiles).
 * The format of kind http follows the URL's path as a file's does; else it is
 * chrome. https, http to this machine, or http to another one where
 * is_http_allowed. -EINVAL, -ENOMEM; why names the part that is wrong, no
 * secret.
 */
int fgt_destination_parse(const char *text, bool is_http_allowed,
			  struct fgt_destination **ret_destination,
			  struct fgt_why *why);

/* Only the checks of _parse(): needs little memory. */
int fgt_destination_check(const char *text, bool is_http_allowed,
			  struct fgt_why *why);

/* "http"; never NULL. */
const char *fgt_destination_kind_name(enum fgt_destination_kind kind);

/* The destination without secrets, for messages: of a URL neither its query nor
 * the key of a DSN. */
#define FGT_DESTINATION_WHERE_MAX 512
void fgt_destination_where(const struct fgt_destination *destination,
			   char ret_where[FGT_DESTINATION_WHERE_MAX]);
/* The same for an address that was made from its template. */
void fgt_destination_where_url(const char *url,
			       char ret_where[FGT_DESTINATION_WHERE_MAX]);

/* ---- From slice to destination ------------------------------------------ */

/*
 * Calls the taker once for each payload: one, or for Sentry one for the
 * transaction and one for each chunk of its profile (version 1 has both in one,
 * if the transaction is not longer than 30 s). Each
 * payload's body may be written once or more, within the call. options may be
 * NULL; facts, release, environment, state frames and event_id count.
 * -EINVAL, -ENOMEM, the taker's errors and, from the body's write,
 * fgt_format_write()'s.
 */
int fgt_destination_encode(const struct fgt_destination *destination,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_format_options *options,
			   const struct fgt_payload_taker *taker,
			   struct fgt_why *why);

struct fgt_send_outcome {
	long status; /* of HTTP; 0: no answer, or no server */
	size_t bytes; /* that left, or were written */
	unsigned int retry_after_s; /* with errors; 0: not named */
	struct fgt_ratelimits limits; /* of Sentry */
	/* A URL without its query; "": that of the destination. */
	char where[FGT_DESTINATION_WHERE_MAX];
	bool is_refused; /* 401, 403: no use before the configuration changes */
	bool is_reported; /* limits->discards have arrived */
};

/*
 * Sends one payload. root_fd: below which directories lie, -1: this process's
 * root. limits: times only; NULL: default. 0; -EAGAIN: it may work later (no
 * answer; but of Sentry 429, 502, 503, 504; no memory, descriptors or libcurl;
 * a directory that is full or read-only); other errors are final: -EACCES 401
 * and 403, -EBUSY 429 of Sentry, -EMSGSIZE 413 or too large, -EREMOTEIO,
 * -EPROTO, -EINVAL (no status: the configuration's), errno of open and write.
 * why never holds a secret. Blocks as fgt_http_send().
 */
int fgt_destination_send(const struct fgt_destination *destination,
			 const struct fgt_payload *payload, int root_fd,
			 const struct fgt_upload_limits *limits,
			 struct fgt_send_outcome *ret_outcome,
			 struct fgt_why *why);

#endif
