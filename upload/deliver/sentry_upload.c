/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice → envelope → gzip → POST → outcome.
 * Blocks its thread as long as fgt_http_send() may; must not let a key into a
 * message, not even one that the server sends back.
 */
#include "upload/deliver/sentry_upload.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "ringbuf/base/sink.h"
#include "upload/deliver/http.h"
#include "upload/deliver/ratelimit.h"
#include "upload/format/parts/gzip.h"

/* Relay's limits: a profile of 50 MiB beside its transaction of 1 MiB, 20 MiB
 * on the wire. It refuses a larger envelope. */
#define PLAIN_BYTES_MAX (51u << 20)
#define WIRE_BYTES_MAX	(20u << 20)

/* Counts and bounds the plain envelope on its way into the compressor. */
struct plain_counter {
	struct fgt_sink sink;
	const struct fgt_sink *target;
	size_t len_bytes;
};

static int count_plain(void *context, const void *bytes, size_t len)
{
	struct plain_counter *counter = context;

	if (len > PLAIN_BYTES_MAX - counter->len_bytes)
		return -EMSGSIZE;
	counter->len_bytes += len;
	return fgt_sink_write(counter->target, bytes, len);
}

static int encode(const struct fgt_envelope *envelope,
		  struct fgt_memory_sink *memory, size_t *ret_plain_bytes)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;
	struct plain_counter counter = { .len_bytes = 0 };
	int error = fgt_gzip_new(&memory->sink, &gzip);

	if (error)
		return error;
	counter.sink.write = count_plain;
	counter.sink.context = &counter;
	counter.target = fgt_gzip_sink(gzip);
	error = envelope->write(envelope->context, &counter.sink);
	if (!error)
		error = fgt_gzip_finish(gzip);
	*ret_plain_bytes = counter.len_bytes;
	return error;
}

static int explain_encode(int error, struct fgt_why *why)
{
	switch (error) {
	case -EMSGSIZE:
		return fgt_why_set(why, error,
				   "the envelope is too large for Sentry; "
				   "choose a shorter range or fewer threads");
	case -ENODATA:
		return fgt_why_set(why, error,
				   "no thread has two samples in the last 30 s "
				   "of this range; choose another range");
	case -ENOMEM:
		return fgt_why_set(why, error, FGT_NO_MEMORY);
	default:
		return fgt_why_set(why, error, "cannot encode the slice: %s",
				   strerror(-error));
	}
}

/* Overwrites each occurrence of a key, in any case of letters. */
static void hide(char *text, const char *key)
{
	size_t len = strlen(key);
	char *found;

	while (len && (found = strcasestr(text, key)))
		memset(found, '*', len);
}

static int post(const struct fgt_memory_sink *memory, const struct fgt_dsn *dsn,
		const struct fgt_upload_limits *limits,
		struct fgt_http_answer *ret_answer, struct fgt_why *why)
{
	const char *client = "fgtrace/" FGT_VERSION;
	char authentication[400];
	struct fgt_http_request request = {
		.url = dsn->url,
		.headers = { authentication,
			     "Content-Type: application/x-sentry-envelope",
			     "Content-Encoding: gzip",
			     "User-Agent: fgtrace/" FGT_VERSION },
		.body = memory->bytes,
		.body_len = memory->len_bytes,
		.connect_timeout_ms = limits->connect_timeout_ms,
		.total_timeout_ms = limits->total_timeout_ms,
		.low_speed_s = limits->low_speed_s,
		.ca_file = limits->ca_file,
		.proxy = limits->proxy,
		.client_pem = limits->client_pem,
	};
	bool has_secret = *dsn->secret_key;
	int error;

	snprintf(authentication, sizeof(authentication),
		 "X-Sentry-Auth: Sentry sentry_version=7, sentry_key=%s, "
		 "sentry_client=%s%s%s",
		 dsn->public_key, client, has_secret ? ", sentry_secret=" : "",
		 dsn->secret_key);
	error = fgt_http_send(&request, ret_answer, why);
	explicit_bzero(authentication, sizeof(authentication));
	return error;
}

/* Digits in any case, with or without the hyphens of a UUID. */
static bool is_same_id(const char *text, const char *event_id)
{
	for (; *text; text++) {
		if (*text == '-')
			continue;
		if (tolower((unsigned char)*text) !=
		    tolower((unsigned char)*event_id++))
			return false;
	}
	return !*event_id;
}

/*
 * A 2xx must look like Sentry's {"id":"…"}: login pages and captive portals
 * answer 200 too. Servers of the same protocol may leave the id out.
 */
static int check_accepted(const struct fgt_http_answer *answer,
			  const char *event_id, struct fgt_why *why)
{
	const char *body = answer->body + strspn(answer->body, " \t\r\n");
	const char *at = strstr(body, "\"id\"");
	char id[40];

	if (*body && *body != '{')
		return fgt_why_set(why, -EREMOTEIO,
				   "answered %ld, but not as Sentry does; "
				   "check the address for a proxy or a login "
				   "page",
				   answer->status);
	if (at && sscanf(at, "\"id\" : \"%39[^\"]", id) == 1 &&
	    !is_same_id(id, event_id))
		return fgt_why_set(why, -EREMOTEIO,
				   "answered %ld with the id of another "
				   "event; check the address for a proxy",
				   answer->status);
	return 0;
}

/* A server may limit what it has just accepted, for the next time. One that
 * answers 429 limits everything, unless its list names what is sent here. */
static void take_limits(const struct fgt_http_answer *answer,
			struct fgt_upload_outcome *outcome)
{
	unsigned int seconds;

	fgt_ratelimits_read(&outcome->limits, answer->rate_limits);
	if (answer->status == 429 && !fgt_ratelimits_mask(&outcome->limits)) {
		seconds = fgt_ratelimit_retry_after(answer->retry_after,
						    time(NULL));
		fgt_ratelimits_merge_all(&outcome->limits, seconds);
	}
}

/* 0: none that counts here. */
static unsigned int longest_of(const struct fgt_ratelimits *limits)
{
	unsigned int longest = 0;

	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		if (limits->seconds[i] > longest)
			longest = limits->seconds[i];
	return longest;
}

static int explain_status(const struct fgt_http_answer *answer,
			  struct fgt_upload_outcome *outcome,
			  struct fgt_why *why)
{
	const char *colon = *answer->error ? ": " : "";
	const long status = answer->status;

	if (status == 401 || status == 403)
		return fgt_why_set(why, -EACCES,
				   "refused with %ld%s%.150s; check key and "
				   "project of the DSN",
				   status, colon, answer->error);
	if (status == 413)
		return fgt_why_set(why, -EMSGSIZE,
				   "refused with 413: too large; choose a "
				   "shorter range or fewer threads");
	if (status == 429) {
		outcome->retry_after_s = longest_of(&outcome->limits);
		return fgt_why_set(why, -EBUSY,
				   "rate limited (429); try again in %u s",
				   outcome->retry_after_s);
	}
	if (status >= 300 && status < 400)
		return fgt_why_set(why, -EREMOTEIO,
				   "redirected (%ld): redirects are not "
				   "followed; put the final address into the "
				   "DSN",
				   status);
	if (status == 404)
		return fgt_why_set(why, -EREMOTEIO,
				   "no Sentry at this address (404); check "
				   "host and path of the DSN");
	return fgt_why_set(why, -EREMOTEIO, "answered %ld%s%.150s%s", status,
			   colon, answer->error,
			   status >= 500 ? "; try again later" : "");
}

static int deliver(const struct fgt_memory_sink *memory,
		   const struct fgt_dsn *dsn,
		   const struct fgt_upload_limits *limits,
		   struct fgt_upload_outcome *outcome, struct fgt_why *why)
{
	struct fgt_http_answer answer = { .status = 0 };
	struct fgt_why cause = { .text = "" };
	int error = post(memory, dsn, limits, &answer, &cause);

	if (!error) {
		outcome->status = answer.status;
		take_limits(&answer, outcome);
		error = answer.status >= 200 && answer.status < 300
				? check_accepted(&answer, outcome->event_id,
						 &cause)
				: explain_status(&answer, outcome, &cause);
	}
	fgt_http_answer_done(&answer);
	if (!error)
		return 0;
	hide(cause.text, dsn->public_key);
	hide(cause.text, dsn->secret_key);
	return fgt_why_set(why, error, "%.150s: %s", dsn->redacted, cause.text);
}

int fgt_sentry_post(const struct fgt_envelope *envelope, const char *event_id,
		    const struct fgt_dsn *dsn,
		    const struct fgt_upload_limits *limits,
		    struct fgt_upload_outcome *ret_outcome, struct fgt_why *why)
{
	static const struct fgt_upload_limits DEFAULTS = { .ca_file = NULL };
	struct fgt_memory_sink memory;
	int error;

	*ret_outcome = (struct fgt_upload_outcome){ .status = 0 };
	snprintf(ret_outcome->event_id, sizeof(ret_outcome->event_id), "%s",
		 event_id);
	fgt_memory_sink_init(&memory, WIRE_BYTES_MAX);
	error = encode(envelope, &memory, &ret_outcome->plain_bytes);
	if (error) {
		explain_encode(error, why);
	} else {
		ret_outcome->sent_bytes = memory.len_bytes;
		error = deliver(&memory, dsn, limits ? limits : &DEFAULTS,
				ret_outcome, why);
	}
	fgt_memory_sink_done(&memory);
	return error;
}

struct content {
	const struct fgt_ring_slice *slice;
	struct fgt_format_options options;
};

static int write_content(const void *context, const struct fgt_sink *sink)
{
	const struct content *content = context;

	return fgt_format_write(content->slice, FGT_KIND_SENTRY,
				&content->options, sink);
}

int fgt_sentry_upload(const struct fgt_ring_slice *slice,
		      const struct fgt_dsn *dsn,
		      const struct fgt_format_options *options,
		      const struct fgt_upload_limits *limits,
		      struct fgt_upload_outcome *ret_outcome,
		      struct fgt_why *why)
{
	struct content content = { .slice = slice };
	const struct fgt_envelope envelope = { write_content, &content };
	char event_id[33];
	int error;

	*ret_outcome = (struct fgt_upload_outcome){ .status = 0 };
	if (options)
		content.options = *options;
	error = fgt_sentry_choose_id(content.options.event_id, event_id);
	if (error)
		return fgt_why_set(why, error, "cannot choose an event id: %s",
				   strerror(-error));
	content.options.event_id = event_id;
	if (!content.options.dsn)
		content.options.dsn = dsn->clean;
	return fgt_sentry_post(&envelope, event_id, dsn, limits, ret_outcome,
			       why);
}
