/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and sends payloads in the delivering process. Must not send a byte of
 * a damaged entry.
 */
#include "agent/daemon/delivery/delivery_payload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/daemon/delivery/delivery_pieces.h"
#include "upload/deliver/spool/spooled.h"

struct output {
	int fd;
	uint64_t at;
	struct fgt_dispatch_outcome *outcome;
};

static int take(void *context, const struct fgt_payload *payload,
		struct fgt_why *why)
{
	struct output *output = context;
	int r = fgt_delivery_piece_write(output->fd, &output->at, payload);

	if (r == -ENODATA)
		return r;
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot encode it into memory: %s: choose a "
				   "shorter time",
				   strerror(-r));
	if (!*output->outcome->event_id)
		snprintf(output->outcome->event_id,
			 sizeof(output->outcome->event_id), "%s",
			 payload->head.id);
	output->outcome->payloads++;
	return 0;
}

int fgt_delivery_payload_encode(const struct fgt_ring_slice *slice,
				const struct fgt_destination *destination,
				const struct fgt_format_options *options,
				int output_fd,
				struct fgt_dispatch_outcome *ret_outcome,
				struct fgt_why *why)
{
	struct output output = { .fd = output_fd, .outcome = ret_outcome };
	const struct fgt_payload_taker taker = { .take = take,
						 .context = &output,
						 .is_stored = true };
	int r;

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	fgt_destination_where(destination, ret_outcome->where);
	r = fgt_destination_encode(destination, slice, options, &taker, why);
	ret_outcome->bytes = (size_t)output.at;
	return r;
}

static int explain(int error, struct fgt_why *why)
{
	if (error == -EBADMSG)
		return fgt_why_set(why, error,
				   "the spool's entry is damaged: check its "
				   "disk");
	return fgt_why_set(why, -EAGAIN,
			   "the spool's entry cannot be read: %s: check its "
			   "disk",
			   strerror(-error));
}

int fgt_delivery_payload_send(int fd, const struct fgt_destination *destination,
			      const struct fgt_upload_limits *limits,
			      struct fgt_dispatch_outcome *ret_outcome,
			      struct fgt_why *why)
{
	struct fgt_spooled spooled;
	struct fgt_payload payload;
	int r = fgt_spooled_read(fd, &spooled);

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	if (r < 0)
		return explain(r, why);
	payload = fgt_spooled_payload(&spooled);
	r = fgt_dispatch_payload(&payload, destination, limits, ret_outcome,
				 why);
	fgt_spooled_done(&spooled);
	/* An answer of this text would mean that the file is damaged. */
	return r == -EBADMSG ? -EREMOTEIO : r;
}
