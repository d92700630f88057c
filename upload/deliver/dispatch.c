/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice and facts to a DSN, or to whatever kind of place is named. Runs in a
 * thread or process that may wait as long as an upload does; must not let a
 * key into a message.
 */
#include "upload/deliver/dispatch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "upload/deliver/dispatch_parts.h"

struct post {
	struct fgt_dsn dsn;
	const struct fgt_upload_limits *limits;
	struct fgt_dispatch_outcome *outcome;
	struct fgt_why *why;
};

/* What may be different the next time. */
static bool is_temporary(int error, const struct fgt_upload_outcome *outcome)
{
	switch (error) {
	case -EBUSY:
	case -ETIMEDOUT:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
		return true;
	default:
		/* No answer at all, or one of a server that is in trouble. */
		return (error == -EPROTO && outcome->status == 0) ||
		       outcome->status >= 500;
	}
}

static int send_post(void *context, const struct fgt_envelope *envelope,
		     const char *event_id)
{
	const struct post *post = context;
	struct fgt_upload_outcome outcome;
	int r = fgt_sentry_post(envelope, event_id, &post->dsn, post->limits,
				&outcome, post->why);

	if (r == 0) {
		post->outcome->bytes += outcome.sent_bytes;
		return 0;
	}
	post->outcome->retry_after_s = outcome.retry_after_s;
	return is_temporary(r, &outcome) ? -EAGAIN : r;
}

int fgt_dispatch_to_dsn(const struct fgt_ring_slice *slice, const char *dsn,
			const struct fgt_transaction_facts *facts,
			const struct fgt_upload_limits *limits,
			struct fgt_dispatch_outcome *ret_outcome,
			struct fgt_why *why)
{
	struct post post = { .limits = limits,
			     .outcome = ret_outcome,
			     .why = why };
	const struct fgt_dispatch_sender sender = { send_post, &post };
	struct fgt_format_options options = { .facts = facts };
	int r;

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	r = fgt_dsn_parse(dsn, limits && limits->is_http_allowed, &post.dsn,
			  why);
	if (r == 0) {
		snprintf(ret_outcome->where, sizeof(ret_outcome->where),
			 "%.500s", post.dsn.redacted);
		options.dsn = post.dsn.clean;
		r = fgt_dispatch_parts(slice, &options, &sender, ret_outcome,
				       why);
	}
	explicit_bzero(&post.dsn, sizeof(post.dsn));
	return r;
}

int fgt_dispatch(const struct fgt_ring_slice *slice, const char *destination,
		 const struct fgt_transaction_facts *facts,
		 const struct fgt_upload_limits *limits,
		 struct fgt_dispatch_outcome *ret_outcome, struct fgt_why *why)
{
	if (*destination == '/')
		return fgt_dispatch_to_directory(slice, destination, facts,
						 ret_outcome, why);
	return fgt_dispatch_to_dsn(slice, destination, facts, limits,
				   ret_outcome, why);
}
