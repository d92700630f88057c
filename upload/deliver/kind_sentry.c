/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes to a Sentry DSN, compressed on their way. Blocks as an upload does;
 * must not let a key into a message.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/clock.h"
#include "upload/deliver/kinds.h"
#include "upload/format/sentry/sentry_fresh.h"

/* What may work when it is sent again: for Sentry, any answer is final. */
static bool is_temporary(int error, const struct fgt_upload_outcome *outcome)
{
	switch (error) {
	case -ETIMEDOUT:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -EPROTO:
		return outcome->status == 0;
	default:
		return false;
	}
}

static int post(const struct fgt_sending *sending, const struct fgt_dsn *dsn)
{
	struct fgt_sentry_report report = {
		.discards = sending->limits->discards,
		.wall_ns = fgt_clock_ns(CLOCK_REALTIME),
	};
	const struct fgt_sentry_body body = { fgt_sentry_report_put, &report };
	const bool is_reporting = report.discards &&
				  fgt_sentry_discards_are_any(report.discards);
	const struct fgt_sentry_fresh fresh = {
		.stored = &sending->payload->body,
		.dsn = dsn->clean,
		.report = is_reporting ? &body : NULL,
	};
	const struct fgt_envelope envelope = fgt_sentry_fresh(&fresh);
	struct fgt_upload_limits limits = *sending->limits;
	struct fgt_upload_outcome outcome;
	int r;

	limits.ca_file = sending->destination->ca_file;
	limits.proxy = sending->destination->proxy;
	limits.client_pem = sending->destination->client_pem;
	r = fgt_sentry_post(&envelope, sending->payload->head.id, dsn, &limits,
			    &outcome, sending->why);
	sending->outcome->status = outcome.status;
	sending->outcome->limits = outcome.limits;
	if (r == 0) {
		sending->outcome->bytes = outcome.sent_bytes;
		sending->outcome->is_reported = is_reporting;
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
