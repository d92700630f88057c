/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends payloads by their destination's kind. Runs in a thread or process that
 * may wait as long as an upload or a disk does.
 */
#include "upload/deliver/destination.h"

#include <errno.h>
#include <string.h>

#include "upload/deliver/kinds.h"

/* What this process lacks at the moment, whatever the destination is. */
static bool is_lacking(int error)
{
	switch (error) {
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -ENOSYS: /* libcurl: its package may be at work */
	case -EIO:
	case -EBADF:
	case -EINTR:
		return true;
	default:
		return false;
	}
}

int fgt_destination_send(const struct fgt_destination *destination,
			 const struct fgt_payload *payload, int root_fd,
			 const struct fgt_upload_limits *limits,
			 struct fgt_send_outcome *ret_outcome,
			 struct fgt_why *why)
{
	static fgt_kind_send *const kinds[FGT_DESTINATION_COUNT] = {
		[FGT_DESTINATION_SENTRY] = fgt_kind_sentry_send,
		[FGT_DESTINATION_DIRECTORY] = fgt_kind_directory_send,
		[FGT_DESTINATION_HTTP] = fgt_kind_http_send,
		[FGT_DESTINATION_PYROSCOPE] = fgt_kind_pyroscope_send,
		[FGT_DESTINATION_PYROSCOPE_PUSH] = fgt_kind_pyroscope_push_send,
		[FGT_DESTINATION_OTLP] = fgt_kind_http_send,
	};
	static const struct fgt_upload_limits DEFAULTS = { .ca_file = NULL };
	const struct fgt_sending sending = {
		.destination = destination,
		.payload = payload,
		.root_fd = root_fd,
		.limits = limits ? limits : &DEFAULTS,
		.outcome = ret_outcome,
		.why = why,
	};
	int r;

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	r = kinds[destination->kind](&sending);
	return is_lacking(r) && !ret_outcome->status ? -EAGAIN : r;
}
