/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bounded HTTP request through libcurl: time-outs, no redirects, TLS
 * verified, size of the answer limited. Blocks its thread.
 */
#ifndef FGT_UPLOAD_DELIVER_HTTP_H
#define FGT_UPLOAD_DELIVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "ringbuf/base/why.h"

#define FGT_HTTP_ANSWER_MAX  65536
#define FGT_HTTP_HEADERS_MAX 16

/* Zero and NULL mean default or none. Keys are secrets. */
struct fgt_http_request {
	const char *url;
	const char *method; /* "PUT"; NULL: POST */
	const char
		*headers[FGT_HTTP_HEADERS_MAX]; /* "Name: value", NULL ends */
	const void *body;
	size_t body_len;
	/* Signed for AWS, version 4, if there are keys: ID:SECRET. */
	const char *aws_keys, *aws_token;
	const char *aws_region, *aws_service; /* us-east-1, s3 */
	const char *client_pem; /* certificate, and its key */
	const char *proxy; /* NULL: of the environment */
	unsigned int connect_timeout_ms; /* 0: 5000 */
	unsigned int total_timeout_ms; /* 0: 30000 */
	unsigned int low_speed_s; /* under 16 bytes/s for so long; 0: 15 */
	const char *ca_file; /* NULL: the system's */
};

struct fgt_http_answer {
	long status; /* 200, 429, … */
	char *body; /* NUL-terminated, at most FGT_HTTP_ANSWER_MAX */
	size_t body_len;
	/* X-Sentry-Rate-Limits, all of such lines; what does not fit is left
	 * out. "" if absent. */
	char rate_limits[4096];
	char retry_after[128]; /* Retry-After, "" if absent */
	char error[512]; /* X-Sentry-Error, "" if absent */
};

/*
 * Sends to an http or https URL without user and password. 0 whenever an HTTP
 * answer came, whatever its status. -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH
 * (name not found), -EPROTO (TLS or HTTP error), -E2BIG (endless answer),
 * -EINVAL (URL), -ENOSYS (no libcurl), -ENOMEM; why holds cause and remedy, no
 * secret. Proxies: http_proxy, https_proxy, all_proxy, no_proxy as curl reads
 * them, from the environment of this process. The first call loads libcurl.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_http_send(const struct fgt_http_request *request,
		  struct fgt_http_answer *ret_answer, struct fgt_why *why);
void fgt_http_answer_done(struct fgt_http_answer *answer);

#endif
