/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads by PUT or POST: any format, OTLP too. Blocks as an upload does; must
 * not let a header, a key or a query into a message.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/sink.h"
#include "upload/deliver/kinds.h"
#include "upload/deliver/ratelimit.h"
#include "upload/deliver/url.h"
#include "upload/deliver/url_template.h"
#include "upload/format/format.h"

#define HEADER_LINE_MAX 1024 /* of headers_file */

bool fgt_kind_is_temporary(int error)
{
	return error == -ETIMEDOUT || error == -ECONNREFUSED ||
	       error == -EHOSTUNREACH || error == -ENETUNREACH ||
	       error == -EPROTO;
}

/* ---- The body ------------------------------------------------------------ */

int fgt_kind_read_body(const struct fgt_sending *sending,
		       struct fgt_memory_sink *memory)
{
	const struct fgt_envelope *body = &sending->payload->body;
	int r;

	fgt_memory_sink_init(memory, FGT_KIND_BODY_MAX);
	r = body->write(body->context, &memory->sink);
	if (r == -EMSGSIZE)
		return fgt_why_set(sending->why, r,
				   "more than %zu MiB; choose a shorter range, "
				   "fewer threads or a compressed format",
				   FGT_KIND_BODY_MAX >> 20);
	if (r == -ENODATA)
		return fgt_why_set(sending->why, r,
				   "no thread has two samples in this range; "
				   "choose a longer one");
	if (r < 0)
		return fgt_why_set(sending->why, r,
				   "cannot encode the slice: %s", strerror(-r));
	return 0;
}

/* ---- The answer ---------------------------------------------------------- */

static int judge_refusal(const struct fgt_sending *sending, bool is_post,
			 long status, struct fgt_why *why)
{
	switch (status) {
	case 401:
	case 403:
		sending->outcome->is_refused = true;
		return fgt_why_set(why, -EACCES,
				   "refused with %ld; check the keys and "
				   "headers of the destination",
				   status);
	case 404:
	case 405:
		return fgt_why_set(why, -EREMOTEIO,
				   "answered %ld; check the path of the URL "
				   "and whether the server takes %s",
				   status, is_post ? "POST" : "PUT");
	case 413:
		return fgt_why_set(why, -EMSGSIZE,
				   "refused with 413: too large; choose a "
				   "shorter range or fewer threads");
	default:
		return fgt_why_set(why, -EREMOTEIO,
				   status < 400
					   ? "redirected (%ld): redirects are "
					     "not followed; put the final "
					     "address into the URL"
					   : "answered %ld; check the URL, and "
					     "the server's log",
				   status);
	}
}

static int judge(const struct fgt_sending *sending, bool is_post,
		 const struct fgt_http_answer *answer, struct fgt_why *why)
{
	struct fgt_send_outcome *outcome = sending->outcome;
	long status = answer->status;

	outcome->status = status;
	if (status >= 200 && status < 300)
		return 0;
	if (status != 429 && status != 502 && status != 503 && status != 504)
		return judge_refusal(sending, is_post, status, why);
	if (status == 429 || *answer->retry_after)
		outcome->retry_after_s = fgt_ratelimit_retry_after(
			answer->retry_after, time(NULL));
	return fgt_why_set(why, -EAGAIN, "answered %ld; try again %s", status,
			   outcome->retry_after_s ? "when it allows it"
						  : "later");
}

/* ---- The request --------------------------------------------------------- */

/* Splits the lines in place. */
static int add_lines(char *lines, struct fgt_http_request *request,
		     size_t count, struct fgt_why *why)
{
	char *rest = lines;
	char *line;

	while ((line = strsep(&rest, "\n"))) {
		if (!*line)
			continue;
		if (count == FGT_HTTP_HEADERS_MAX - 1)
			return fgt_why_set(why, -EINVAL,
					   "headers_file has more than %zu "
					   "lines; use fewer",
					   count);
		request->headers[count++] = line;
	}
	return 0;
}

static int send_request(const struct fgt_sending *sending,
			const struct fgt_kind_request *wanted,
			struct fgt_http_answer *ret_answer, struct fgt_why *why)
{
	const struct fgt_destination *destination = sending->destination;
	const struct fgt_upload_limits *limits = sending->limits;
	char type[HEADER_LINE_MAX], encoding[64];
	FGT_AUTO(free)
	void *lines = strdup(destination->headers ? destination->headers : "");
	struct fgt_http_request request = {
		.url = wanted->url,
		.headers = { "User-Agent: fgtrace/" FGT_VERSION, type },
		.body = wanted->body,
		.body_len = wanted->body_len,
		.method = wanted->is_post ? "POST" : "PUT",
		.aws_keys = destination->aws_keys,
		.aws_region = destination->aws_region,
		.aws_service = destination->aws_service,
		.aws_token = destination->aws_token,
		.client_pem = destination->client_pem,
		.proxy = destination->proxy,
		.ca_file = destination->ca_file,
		.connect_timeout_ms = limits->connect_timeout_ms,
		.total_timeout_ms = limits->total_timeout_ms,
		.low_speed_s = limits->low_speed_s,
	};
	size_t count = 2;
	int r;

	if (!lines)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	snprintf(type, sizeof(type), "Content-Type: %s", wanted->content_type);
	snprintf(encoding, sizeof(encoding), "Content-Encoding: %s",
		 wanted->content_encoding);
	if (*wanted->content_encoding)
		request.headers[count++] = encoding;
	r = add_lines(lines, &request, count, why);
	if (r == 0)
		r = fgt_http_send(&request, ret_answer, why);
	if (destination->headers)
		explicit_bzero(lines, strlen(destination->headers));
	return r;
}

int fgt_kind_post(const struct fgt_sending *sending,
		  const struct fgt_kind_request *request)
{
	char where[FGT_DESTINATION_WHERE_MAX];
	struct fgt_http_answer answer = { .status = 0 };
	struct fgt_why cause = { "" };
	int r = send_request(sending, request, &answer, &cause);

	if (r == 0)
		r = judge(sending, request->is_post, &answer, &cause);
	else if (fgt_kind_is_temporary(r))
		r = -EAGAIN;
	fgt_http_answer_done(&answer);
	if (r == 0) {
		sending->outcome->bytes += request->body_len;
		return 0;
	}
	if (*sending->outcome->where)
		strcpy(where, sending->outcome->where);
	else
		fgt_destination_where(sending->destination, where);
	return fgt_why_set(sending->why, r, "%.150s: %s", where, cause.text);
}

int fgt_kind_http_send(const struct fgt_sending *sending)
{
	const struct fgt_destination *destination = sending->destination;
	const struct fgt_payload_head *head = &sending->payload->head;
	struct fgt_memory_sink memory;
	char url[FGT_URL_MAX];
	int r = fgt_url_template_expand(destination->target, head, url,
					sizeof(url), sending->why);

	if (r < 0)
		return r;
	fgt_destination_where_url(url, sending->outcome->where);
	r = fgt_kind_read_body(sending, &memory);
	if (r == 0)
		r = fgt_kind_post(
			sending,
			&(struct fgt_kind_request){
				.url = url,
				.content_type = head->content_type,
				.content_encoding = head->content_encoding,
				.body = memory.bytes,
				.body_len = memory.len_bytes,
				.is_post = destination->is_post ||
					   destination->kind ==
						   FGT_DESTINATION_OTLP,
			});
	fgt_memory_sink_done(&memory);
	explicit_bzero(url, sizeof(url));
	return r;
}
