/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes to a Sentry DSN, compressed on their way. Blocks as an upload does;
 * must not let a key into a message.
 */
#include <errno.h>
#include <string.h>

#include "upload/deliver/kinds.h"
#include "upload/format/sentry/sentry_fresh.h"

/* What may work when it is sent again. */
static bool is_temporary(int error, const struct fgt_upload_outcome *outcome)
{
	switch (error) {
	case -EBUSY:
	case -ETIMEDOUT:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
		return true;
	default:
		/* No answer at all, or that of a server that is in trouble. */
		return (error == -EPROTO && outcome->status == 0) ||
		       outcome->status >= 500;
	}
}

static int post(const struct fgt_sending *sending, const struct fgt_dsn *dsn)
{
	const struct fgt_sentry_fresh fresh = {
		.stored = &sending->payload->body,
		.dsn = dsn->clean,
	};
	const struct fgt_envelope envelope = fgt_sentry_fresh(&fresh);
	struct fgt_upload_limits limits = *sending->limits;
	struct fgt_upload_outcome outcome;
	int r;

	limits.ca_file = sending->destination->ca_file;
	r = fgt_sentry_post(&envelope, sending->payload->head.id, dsn, &limits,
			    &outcome, sending->why);
	sending->outcome->status = outcome.status;
	if (r == 0) {
		sending->outcome->bytes = outcome.sent_bytes;
		return 0;
	}
	sending->outcome->retry_after_s = outcome.retry_after_s;
	sending->outcome->is_refused = r == -EACCES;
	return is_temporary(r, &outcome) ? -EAGAIN : r;
}

int fgt_kind_sentry_send(const struct fgt_sending *sending)
{
	const struct fgt_destination *destination = sending->destination;
	struct fgt_dsn dsn;
	int r = fgt_dsn_parse(destination->target, destination->is_http_allowed,
			      &dsn, sending->why);

	if (r == 0)
		r = post(sending, &dsn);
	explicit_bzero(&dsn, sizeof(dsn));
	return r;
}
