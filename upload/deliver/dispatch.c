/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and sends: each payload is sent before the next one is encoded. Runs
 * in a thread or process that may wait as long as an upload or a disk does;
 * must not let a key into a message.
 */
#include "upload/deliver/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct dispatch {
	const struct fgt_destination *destination;
	struct fgt_upload_limits limits; /* what of them is left */
	int root_fd;
	struct fgt_dispatch_outcome *outcome;
};

/* What Sentry wants none of now. A transaction goes without its profile. */
static int leave_out(struct fgt_dispatch_outcome *outcome, struct fgt_why *why)
{
	outcome->limited[outcome->category]++;
	if (outcome->payloads > 0) {
		outcome->is_partial = true;
		return 0;
	}
	return fgt_why_set(why, -EBUSY,
			   "rate limited: the server wants no %s now",
			   fgt_category_name(outcome->category));
}

static int take(void *context, const struct fgt_payload *payload,
		struct fgt_why *why)
{
	struct dispatch *dispatch = context;
	struct fgt_dispatch_outcome *outcome = dispatch->outcome;
	struct fgt_send_outcome sent;
	int r;

	/* The first id: those of chunks follow from it. */
	if (!*outcome->event_id)
		snprintf(outcome->event_id, sizeof(outcome->event_id), "%s",
			 payload->head.id);
	outcome->category = fgt_category_of(payload->head.category);
	if (dispatch->limits.limited & 1u << outcome->category)
		return leave_out(outcome, why);
	r = fgt_destination_send(dispatch->destination, payload,
				 dispatch->root_fd, &dispatch->limits, &sent,
				 why);
	fgt_ratelimits_merge(&outcome->limits, &sent.limits);
	dispatch->limits.limited |= fgt_ratelimits_mask(&sent.limits);
	if (sent.is_reported) {
		outcome->is_reported = true;
		dispatch->limits.discards = NULL;
	}
	if (*sent.where)
		memcpy(outcome->where, sent.where, sizeof(outcome->where));
	outcome->status = sent.status;
	outcome->retry_after_s = sent.retry_after_s;
	outcome->is_refused = sent.is_refused;
	/* Its transaction has arrived. */
	if (r == -EBUSY && outcome->payloads > 0) {
		outcome->is_partial = true;
		return 0;
	}
	if (r < 0)
		return r;
	outcome->payloads++;
	outcome->bytes += sent.bytes;
	return 0;
}

static struct dispatch begin(const struct fgt_destination *destination,
			     const struct fgt_upload_limits *limits,
			     int root_fd, struct fgt_dispatch_outcome *outcome)
{
	memset(outcome, 0, sizeof(*outcome));
	fgt_destination_where(destination, outcome->where);
	return (struct dispatch){
		.destination = destination,
		.limits =
			limits ? *limits
			       : (struct fgt_upload_limits){ .ca_file = NULL },
		.root_fd = root_fd,
		.outcome = outcome,
	};
}

/* A directory may come with its disk, or be given to its user. */
static bool is_mendable(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -EACCES ||
	       error == -EPERM;
}

int fgt_dispatch_payload(const struct fgt_payload *payload,
			 const struct fgt_destination *destination,
			 const struct fgt_upload_limits *limits,
			 struct fgt_dispatch_outcome *ret_outcome,
			 struct fgt_why *why)
{
	struct dispatch dispatch = begin(destination, limits, -1, ret_outcome);
	int r = take(&dispatch, payload, why);

	if (ret_outcome->status)
		return r;
	/* The configuration is to blame, not what was stored. */
	if (r == -EINVAL)
		ret_outcome->is_refused = true;
	return is_mendable(r) ? -EAGAIN : r;
}

int fgt_dispatch(const struct fgt_ring_slice *slice,
		 const struct fgt_destination *destination,
		 const struct fgt_format_options *options, int root_fd,
		 const struct fgt_upload_limits *limits,
		 struct fgt_dispatch_outcome *ret_outcome, struct fgt_why *why)
{
	struct dispatch dispatch =
		begin(destination, limits, root_fd, ret_outcome);
	const struct fgt_payload_taker taker = { .take = take,
						 .context = &dispatch };
	struct fgt_format_options own = { .facts = NULL };

	if (options)
		own = *options;
	if (destination->is_v1 &&
	    dispatch.limits.limited & 1u << FGT_CATEGORY_PROFILE) {
		own.without_profile = true;
		ret_outcome->limited[FGT_CATEGORY_PROFILE]++;
		ret_outcome->is_partial = true;
	}
	return fgt_destination_encode(destination, slice, &own, &taker, why);
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
	parsed->is_v1 = limits && limits->is_sentry_v1;
	parsed->sequence = facts ? facts->ordered_ns : 0;
	return fgt_dispatch(slice, parsed, &options,
			    limits && limits->has_root ? limits->root_fd : -1,
			    limits, ret_outcome, why);
}
