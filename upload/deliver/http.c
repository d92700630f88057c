/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bounded HTTP request through libcurl. Blocks its thread for at most the
 * total time-out; must not follow redirects, trust a certificate that it
 * cannot check, believe the length of an answer, raise a signal, or print a
 * header (they hold keys).
 */
#include "upload/deliver/http.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"
#include "upload/deliver/curl_functions.h"
#include "upload/deliver/url.h"

#define CONNECT_TIMEOUT_MS 5000
#define TOTAL_TIMEOUT_MS   30000
#define LOW_SPEED_BYTES	   16 /* a second */
#define LOW_SPEED_S	   15
#define HEADER_BYTES_MAX   32768 /* of all answers to one request */
#define HEADER_LINES_MAX   256
#define AWS_TOKEN_MAX	   4096

struct transfer {
	struct fgt_http_answer answer;
	size_t header_bytes;
	unsigned int header_lines;
	bool has_headers; /* the final answer's are complete */
	bool is_too_big;
	char error_text[CURL_ERROR_SIZE];
};

void fgt_http_answer_done(struct fgt_http_answer *answer)
{
	free(answer->body);
	answer->body = NULL;
	answer->body_len = 0;
}

static size_t take_body(char *bytes, size_t one, size_t len, void *context)
{
	struct transfer *transfer = context;
	struct fgt_http_answer *answer = &transfer->answer;

	(void)one; /* always 1 */
	if (len > FGT_HTTP_ANSWER_MAX - answer->body_len) {
		transfer->is_too_big = true;
		return 0; /* aborts the transfer */
	}
	memcpy(answer->body + answer->body_len, bytes, len);
	answer->body_len += len;
	answer->body[answer->body_len] = 0;
	return len;
}

/* Keeps the value if line[len] is the header name (with its colon). */
static void keep_header(const char *line, size_t len, const char *name,
			char *ret_value, size_t size)
{
	size_t name_len = strlen(name);

	if (len < name_len || strncasecmp(line, name, name_len) != 0)
		return;
	line += name_len;
	len -= name_len;
	while (len && (*line == ' ' || *line == '\t')) {
		line++;
		len--;
	}
	while (len && strchr(" \t\r\n", line[len - 1]))
		len--;
	if (len >= size)
		return;
	memcpy(ret_value, line, len);
	ret_value[len] = 0;
}

/* Several lines are one list (RFC 9110): each is a part of it. */
static void add_limits(const char *line, size_t len, char *limits, size_t size)
{
	size_t used = strlen(limits);

	if (used + 2 >= size)
		return;
	limits[used + 1] = 0;
	keep_header(line, len, "X-Sentry-Rate-Limits:", limits + used + 1,
		    size - used - 1);
	if (limits[used + 1])
		limits[used] = ',';
}

static size_t take_header(char *line, size_t one, size_t len, void *context)
{
	struct transfer *transfer = context;
	struct fgt_http_answer *answer = &transfer->answer;

	(void)one; /* always 1 */
	transfer->header_bytes += len;
	if (++transfer->header_lines > HEADER_LINES_MAX ||
	    transfer->header_bytes > HEADER_BYTES_MAX) {
		transfer->is_too_big = true;
		return 0; /* aborts the transfer */
	}
	if (len >= 5 && !strncasecmp(line, "HTTP/", 5)) {
		/* An interim answer preceded: clear its headers. */
		answer->rate_limits[0] = 0;
		answer->retry_after[0] = 0;
		answer->error[0] = 0;
		transfer->has_headers = false;
	}
	add_limits(line, len, answer->rate_limits, sizeof(answer->rate_limits));
	keep_header(line, len, "Retry-After:", answer->retry_after,
		    sizeof(answer->retry_after));
	keep_header(line, len, "X-Sentry-Error:", answer->error,
		    sizeof(answer->error));
	transfer->has_headers |= len <= 2;
	return len;
}

static int append_header(struct curl_slist **list, const char *header)
{
	struct curl_slist *grown = fgt_curl.slist_append(*list, header);

	if (!grown)
		return -ENOMEM;
	*list = grown;
	return 0;
}

/* S3 wants it; where no function can hash, TLS protects the body. */
static int append_hash(struct curl_slist **list,
		       const struct fgt_http_request *request)
{
	char header[128] = "X-Amz-Content-Sha256: ";
	unsigned char digest[32];
	size_t len = strlen(header);

	if (!fgt_curl.sha256) {
		strcpy(header + len, "UNSIGNED-PAYLOAD");
		return append_header(list, header);
	}
	fgt_curl.sha256(request->body ? request->body : (const void *)"",
			request->body_len, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		len += (size_t)sprintf(header + len, "%02x", digest[i]);
	return append_header(list, header);
}

static int append_aws(struct curl_slist **list,
		      const struct fgt_http_request *request)
{
	char token[AWS_TOKEN_MAX];
	int error = append_hash(list, request);

	if (error || !request->aws_token)
		return error;
	if (snprintf(token, sizeof(token), "X-Amz-Security-Token: %s",
		     request->aws_token) >= (int)sizeof(token))
		return -EINVAL;
	error = append_header(list, token);
	explicit_bzero(token, sizeof(token));
	return error;
}

static int build_headers(const struct fgt_http_request *request,
			 struct curl_slist **ret_list)
{
	FGT_AUTO(fgt_curl_list_free) struct curl_slist *list = NULL;
	/* Servers do not answer 100-continue in time, and curl waits a second.
	 * curl 7.88 signs what is not sent, too. */
	int error = request->aws_keys ? append_aws(&list, request)
				      : append_header(&list, "Expect:");

	for (size_t i = 0; i < FGT_HTTP_HEADERS_MAX && !error; i++) {
		if (!request->headers[i])
			break;
		error = append_header(&list, request->headers[i]);
	}
	if (error)
		return error;
	*ret_list = FGT_TAKE(list);
	return 0;
}

static bool allow_http_only(CURL *handle)
{
#if CURL_AT_LEAST_VERSION(7, 85, 0)
	return fgt_curl.easy_setopt(handle, CURLOPT_PROTOCOLS_STR,
				    "http,https") == CURLE_OK;
#else
	return fgt_curl.easy_setopt(handle, CURLOPT_PROTOCOLS,
				    CURLPROTO_HTTP | CURLPROTO_HTTPS) ==
	       CURLE_OK;
#endif
}

/* All limits of time. */
static bool set_limits(CURL *handle, const struct fgt_http_request *request)
{
	long connect_ms = request->connect_timeout_ms
				  ? (long)request->connect_timeout_ms
				  : CONNECT_TIMEOUT_MS;
	long total_ms = request->total_timeout_ms
				? (long)request->total_timeout_ms
				: TOTAL_TIMEOUT_MS;
	long low_s = request->low_speed_s ? (long)request->low_speed_s
					  : LOW_SPEED_S;

#if CURL_AT_LEAST_VERSION(7, 87, 0)
	/* Does not wait for a resolver that hangs. */
	if (fgt_curl.easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L))
		return false;
#endif
	return !fgt_curl.easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
				     connect_ms) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_TIMEOUT_MS, total_ms) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT,
				     (long)LOW_SPEED_BYTES) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, low_s) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
}

/* Replaces the system's authorities, which are a file and a directory. */
static bool trust_only(CURL *handle, const char *ca_file)
{
	CURLcode code = fgt_curl.easy_setopt(handle, CURLOPT_CAPATH, NULL);

	/* Some TLS libraries do not support a directory. */
	return (code == CURLE_OK || code == CURLE_NOT_BUILT_IN ||
		code == CURLE_UNKNOWN_OPTION) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_CAINFO, ca_file);
}

/* Fails closed: no check of a certificate can be switched off. */
static bool set_trust(CURL *handle, const struct fgt_http_request *request)
{
	return allow_http_only(handle) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_SSLVERSION,
				     (long)CURL_SSLVERSION_TLSv1_2) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 1L) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 2L) &&
	       (!request->ca_file || trust_only(handle, request->ca_file)) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS,
				     1L);
}

/* A POST by another name: curl then signs the body, too. */
static bool set_body(CURL *handle, const struct fgt_http_request *request)
{
	return !fgt_curl.easy_setopt(handle, CURLOPT_POST, 1L) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_CUSTOMREQUEST,
				     request->method ? request->method
						     : "POST") &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
				     (curl_off_t)request->body_len) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_POSTFIELDS,
				     request->body ? request->body : "");
}

static bool set_client_certificate(CURL *handle, const char *pem)
{
	/* Copied: the request may end before the handle does. */
	struct curl_blob blob = { .data = (void *)(uintptr_t)pem,
				  .len = pem ? strlen(pem) : 0,
				  .flags = CURL_BLOB_COPY };

	return !pem ||
	       (!fgt_curl.easy_setopt(handle, CURLOPT_SSLCERT_BLOB, &blob) &&
		!fgt_curl.easy_setopt(handle, CURLOPT_SSLKEY_BLOB, &blob));
}

/* AWS's signature, version 4. */
static bool set_signature(CURL *handle, const struct fgt_http_request *request)
{
	char provider[128];

	if (!request->aws_keys)
		return true;
	snprintf(provider, sizeof(provider), "aws:amz:%.50s:%.50s",
		 request->aws_region ? request->aws_region : "us-east-1",
		 request->aws_service ? request->aws_service : "s3");
	return !fgt_curl.easy_setopt(handle, CURLOPT_EXPECT_100_TIMEOUT_MS,
				     1L) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_AWS_SIGV4, provider) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_USERPWD,
				     request->aws_keys);
}

/* no_proxy of the environment is for the proxies that are named there. */
static bool set_proxy(CURL *handle, const char *proxy)
{
	return !proxy || (!fgt_curl.easy_setopt(handle, CURLOPT_PROXY, proxy) &&
			  !fgt_curl.easy_setopt(handle, CURLOPT_NOPROXY, ""));
}

static bool set_request(CURL *handle, const struct fgt_http_request *request,
			struct curl_slist *headers, struct transfer *transfer)
{
	return !fgt_curl.easy_setopt(handle, CURLOPT_URL, request->url) &&
	       set_body(handle, request) &&
	       set_client_certificate(handle, request->client_pem) &&
	       set_signature(handle, request) &&
	       set_proxy(handle, request->proxy) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_HTTPHEADER, headers) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_WRITEFUNCTION,
				     take_body) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_WRITEDATA, transfer) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_HEADERFUNCTION,
				     take_header) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_HEADERDATA, transfer) &&
	       !fgt_curl.easy_setopt(handle, CURLOPT_ERRORBUFFER,
				     transfer->error_text);
}

/*
 * TLS libraries may write to a socket that the peer has closed. This thread
 * removes the SIGPIPE, which the program may not handle.
 */
static CURLcode perform_without_sigpipe(CURL *handle)
{
	const struct timespec no_wait = { .tv_sec = 0 };
	sigset_t pipe_set, old_set, pending;
	bool was_pending;
	CURLcode code;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &old_set);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	code = fgt_curl.easy_perform(handle);
	sigpending(&pending);
	if (!was_pending && sigismember(&pending, SIGPIPE) == 1)
		sigtimedwait(&pipe_set, NULL, &no_wait);
	pthread_sigmask(SIG_SETMASK, &old_set, NULL);
	return code;
}

static int explain_connect(CURL *handle, const char *text, struct fgt_why *why)
{
	long os_error = 0;
	int error;

	fgt_curl.easy_getinfo(handle, CURLINFO_OS_ERRNO, &os_error);
	error = os_error == ENETUNREACH || os_error == EHOSTUNREACH ||
				os_error == ETIMEDOUT
			? -(int)os_error
			: -ECONNREFUSED;
	return fgt_why_set(why, error,
			   "%s; check that the server runs and that no "
			   "firewall blocks it",
			   text);
}

/* By the text: of these libcurl has one code. */
static const char *remedy_of_certificate(const char *text)
{
	if (strstr(text, "expired") || strstr(text, "not yet valid"))
		return "renew the server's certificate, or set the clock of "
		       "this machine";
	if (strstr(text, "host name"))
		return "use a name in the URL that the certificate has";
	return "for a private authority, name its certificate in ca_file";
}

static int explain(CURL *handle, CURLcode code, const char *text,
		   struct fgt_why *why)
{
	const char *remedy;
	int error = -EPROTO;

	switch (code) {
	case CURLE_OUT_OF_MEMORY:
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	case CURLE_COULDNT_CONNECT:
		return explain_connect(handle, text, why);
	case CURLE_SSL_CACERT_BADFILE:
		return fgt_why_set(why, error,
				   "%s; check ca_file, which user %u must be "
				   "able to read, and the package "
				   "ca-certificates",
				   text, geteuid());
	case CURLE_OPERATION_TIMEDOUT:
		error = -ETIMEDOUT;
		remedy = "server or network is too slow, try again later";
		break;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		error = -EHOSTUNREACH;
		remedy = "check the name and DNS";
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_ISSUER_ERROR:
		remedy = remedy_of_certificate(text);
		break;
	case CURLE_SSL_CERTPROBLEM:
		error = -EINVAL;
		remedy = "check client_cert_file and client_key_file";
		break;
	case CURLE_URL_MALFORMAT:
		error = -EINVAL;
		remedy = "check the URL";
		break;
	default:
		return fgt_why_set(why, error, "%s", text);
	}
	return fgt_why_set(why, error, "%s; %s", text, remedy);
}

static int run(CURL *handle, struct transfer *transfer, struct fgt_why *why)
{
	CURLcode code = perform_without_sigpipe(handle);
	long status = 0;

	fgt_curl.easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
	transfer->answer.status = status;
	if (transfer->is_too_big)
		return fgt_why_set(
			why, -E2BIG,
			"the answer is too large; check the address");
	/* A server may refuse and close before it has read the whole
	 * request. */
	if ((code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR ||
	     code == CURLE_PARTIAL_FILE) &&
	    transfer->has_headers && status >= 400)
		return 0;
	if (code)
		return explain(handle, code,
			       *transfer->error_text
				       ? transfer->error_text
				       : fgt_curl.easy_strerror(code),
			       why);
	return 0;
}

static int post(CURL *handle, const struct fgt_http_request *request,
		struct transfer *transfer, struct fgt_why *why)
{
	FGT_AUTO(fgt_curl_list_free) struct curl_slist *headers = NULL;
	int error = build_headers(request, &headers);

	if (error)
		return error == -ENOMEM
			       ? fgt_why_set(why, error, FGT_NO_MEMORY)
			       : fgt_why_set(why, error,
					     "aws_session_token is too long; "
					     "check the file");
	if (!set_limits(handle, request) || !set_trust(handle, request) ||
	    !set_request(handle, request, headers, transfer))
		return fgt_why_set(why, -EPROTO,
				   "libcurl was built without TLS or HTTP; "
				   "install one with both");
	return run(handle, transfer, why);
}

int fgt_http_send(const struct fgt_http_request *request,
		  struct fgt_http_answer *ret_answer, struct fgt_why *why)
{
	FGT_AUTO(fgt_curl_handle_free) CURL *handle = NULL;
	struct transfer transfer = { .answer = { .status = 0 } };
	struct fgt_why part;
	struct fgt_url url;
	int error;

	if (fgt_url_parse(request->url, &url, &part) < 0)
		return fgt_why_set(why, -EINVAL, "URL: %s", part.text);
	if (url.has_userinfo)
		return fgt_why_set(
			why, -EINVAL,
			"URL: holds a user or password; remove them");
	error = fgt_curl_load(why);
	if (error)
		return error;
	handle = fgt_curl.easy_init();
	transfer.answer.body = calloc(1, FGT_HTTP_ANSWER_MAX + 1);
	if (!handle || !transfer.answer.body)
		error = fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	else
		error = post(handle, request, &transfer, why);
	if (error) {
		fgt_http_answer_done(&transfer.answer);
		return error;
	}
	*ret_answer = transfer.answer;
	return 0;
}
