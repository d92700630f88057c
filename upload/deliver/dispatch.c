/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and sends: each payload is sent before the next one is encoded. Runs
 * in a thread or process that may wait as long as an upload or a disk does; must
 * not let a key into a message.
 */
#include "upload/deliver/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct dispatch {
	const struct fgt_destination *destination;
	const struct fgt_upload_limits *limits;
	int root_fd;
	struct fgt_dispatch_outcome *outcome;
};

static int take(void *context, const struct fgt_payload *payload,
		struct fgt_why *why)
{
	const struct dispatch *dispatch = context;
	struct fgt_dispatch_outcome *outcome = dispatch->outcome;
	struct fgt_send_outcome sent;
	int r;

	/* The first id: those of chunks follow from it. */
	if (!*outcome->event_id)
		snprintf(outcome->event_id, sizeof(outcome->event_id), "%s",
			 payload->head.id);
	r = fgt_destination_send(dispatch->destination, payload,
				 dispatch->root_fd, dispatch->limits, &sent,
				 why);
	outcome->status = sent.status;
	outcome->retry_after_s = sent.retry_after_s;
	outcome->is_refused = sent.is_refused;
	if (r < 0)
		return r;
	outcome->payloads++;
	outcome->bytes += sent.bytes;
	return 0;
}

int fgt_dispatch(const struct fgt_ring_slice *slice,
		 const struct fgt_destination *destination,
		 const struct fgt_format_options *options, int root_fd,
		 const struct fgt_upload_limits *limits,
		 struct fgt_dispatch_outcome *ret_outcome, struct fgt_why *why)
{
	struct dispatch dispatch = { .destination = destination,
				     .limits = limits,
				     .root_fd = root_fd,
				     .outcome = ret_outcome };
	const struct fgt_payload_taker taker = { .take = take,
						 .context = &dispatch };

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	fgt_destination_where(destination, ret_outcome->where);
	return fgt_destination_encode(destination, slice, options, &taker, why);
}

struct fgt_format_options
fgt_dispatch_options(const struct fgt_transaction_facts *facts)
{
	return (struct fgt_format_options){
		.facts = fgt_facts_of_transaction(facts),
		.event_id = facts && *facts->event_id ? facts->event_id : NULL,
		.release = facts ? facts->release : NULL,
		.environment = facts ? facts->environment : NULL,
	};
}

int fgt_dispatch_text(const struct fgt_ring_slice *slice,
		      const char *destination,
		      const struct fgt_transaction_facts *facts,
		      const struct fgt_upload_limits *limits,
		      struct fgt_dispatch_outcome *ret_outcome,
		      struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free) struct fgt_destination *parsed = NULL;
	const struct fgt_format_options options = fgt_dispatch_options(facts);
	int r;

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	r = fgt_destination_parse(
		destination, limits && limits->is_http_allowed, &parsed, why);
	if (r == 0 && limits && limits->ca_file) {
		parsed->ca_file = strdup(limits->ca_file);
		if (!parsed->ca_file)
			r = fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	}
	if (r < 0)
		return r;
	return fgt_dispatch(slice, parsed, &options,
			    limits && limits->has_root ? limits->root_fd : -1,
			    limits, ret_outcome, why);
}
