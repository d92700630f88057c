/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice and facts as envelopes to a DSN or into a directory: a transaction with
 * its profile, or alone and followed by the chunks of a profile that is too
 * long for one envelope. Runs in a thread or process that may wait as long as
 * an upload or a disk does; must not let a key into a message.
 */
#include "upload/deliver/dispatch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "upload/deliver/envelope_file.h"
#include "upload/format/parts/thread_runs.h"
#include "upload/format/sentry/sentry_chunk.h"
#include "upload/format/sentry/sentry_profile.h"

#define ID_KEPT_DIGITS	24 /* of the event id; the rest numbers its chunks */
#define PROFILER_NUMBER 0xffffffffu

struct dispatch {
	const struct fgt_ring_slice *slice;
	struct fgt_format_options options;
	int (*send)(const struct dispatch *dispatch,
		    const struct fgt_envelope *envelope, const char *event_id);
	struct fgt_dispatch_outcome *outcome;
	struct fgt_why *why;

	/* To a DSN. */
	struct fgt_dsn dsn;
	const struct fgt_upload_limits *limits;
	/* Into a directory. */
	const char *directory, *name;
	uint64_t wall_ns;
};

/* ---- One envelope to its destination ----------------------------------- */

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

static int send_to_dsn(const struct dispatch *dispatch,
		       const struct fgt_envelope *envelope,
		       const char *event_id)
{
	struct fgt_upload_outcome outcome;
	int r = fgt_sentry_post(envelope, event_id, &dispatch->dsn,
				dispatch->limits, &outcome, dispatch->why);

	if (r == 0) {
		dispatch->outcome->bytes += outcome.sent_bytes;
		return 0;
	}
	dispatch->outcome->retry_after_s = outcome.retry_after_s;
	return is_temporary(r, &outcome) ? -EAGAIN : r;
}

static int send_to_directory(const struct dispatch *dispatch,
			     const struct fgt_envelope *envelope,
			     const char *event_id)
{
	const struct fgt_upload_limits *limits = dispatch->limits;
	int root_fd = limits && limits->has_root ? limits->root_fd : -1;
	size_t bytes = 0;
	int r = fgt_envelope_file_write(root_fd, dispatch->directory,
					dispatch->name, dispatch->wall_ns,
					envelope, &bytes, dispatch->why);

	(void)event_id; /* it is in the envelope */
	dispatch->outcome->bytes += bytes;
	return r == -ENOSPC || r == -EDQUOT || r == -EMFILE || r == -ENFILE
		       ? -EAGAIN
		       : r;
}

/* ---- The envelopes of a slice ------------------------------------------ */

struct envelope_part {
	const struct fgt_ring_slice *slice;
	struct fgt_format_options options;
	struct fgt_sentry_chunk_ticks ticks; /* of a chunk */
	bool is_chunk;
};

static int write_part(const void *context, const struct fgt_sink *sink)
{
	const struct envelope_part *part = context;

	if (part->is_chunk)
		return fgt_sentry_chunk_write_ticks(part->slice, &part->options,
						    &part->ticks, sink);
	return fgt_format_write(part->slice, FGT_KIND_SENTRY, &part->options,
				sink);
}

static int send_part(const struct dispatch *dispatch,
		     const struct envelope_part *part)
{
	const struct fgt_envelope envelope = { write_part, part };
	int r = dispatch->send(dispatch, &envelope, part->options.event_id);

	if (r == 0)
		dispatch->outcome->envelopes++;
	return r;
}

/* An id that is the same when all is sent again. */
static void number_id(const struct dispatch *dispatch, uint32_t number,
		      char ret_id[33])
{
	snprintf(ret_id, 33, "%.*s%08x", ID_KEPT_DIGITS,
		 dispatch->outcome->event_id, number);
}

static int send_chunks(const struct dispatch *dispatch,
		       const struct fgt_ring_slice *slice,
		       const char *profiler_id)
{
	struct envelope_part part = { .slice = slice,
				      .options = dispatch->options,
				      .is_chunk = true };
	uint32_t number = 0;
	char id[33];

	part.options.profiler_id = profiler_id;
	part.options.event_id = id;
	while (fgt_sentry_chunk_next(slice, &part.ticks)) {
		int r;

		number_id(dispatch, ++number, id);
		r = send_part(dispatch, &part);
		/* No data: no thread has two samples in this chunk. */
		if (r < 0 && r != -ENODATA)
			return r;
	}
	return 0;
}

static int send_long(const struct dispatch *dispatch, uint64_t begin_ns,
		     uint64_t end_ns)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct envelope_part part = { .slice = dispatch->slice,
				      .options = dispatch->options };
	char profiler_id[33];
	int r;

	number_id(dispatch, PROFILER_NUMBER, profiler_id);
	part.options.profiler_id = profiler_id;
	r = send_part(dispatch, &part);
	if (r < 0)
		return r;
	r = fgt_slice_narrow(dispatch->slice, begin_ns, end_ns, 0, &slice);
	if (r == 0)
		r = fgt_thread_runs_clip(dispatch->options.facts, slice);
	if (r == 0)
		r = send_chunks(dispatch, slice, profiler_id);
	/* No data: the ring does not reach back that far, and the transaction
	 * has been sent. */
	return r == -ENODATA ? 0 : r;
}

static int send_all(const struct dispatch *dispatch)
{
	const struct envelope_part part = { .slice = dispatch->slice,
					    .options = dispatch->options };
	const struct fgt_transaction_facts *facts = dispatch->options.facts;
	uint64_t begin_ns, end_ns;

	if (facts) {
		fgt_sentry_facts_range(facts, dispatch->slice, &begin_ns,
				       &end_ns);
		if (end_ns - begin_ns > FGT_SENTRY_PROFILE_MAX_NS)
			return send_long(dispatch, begin_ns, end_ns);
	}
	return send_part(dispatch, &part);
}

/* ---- Where to ---------------------------------------------------------- */

static int aim_at_dsn(struct dispatch *dispatch, const char *dsn)
{
	const struct fgt_upload_limits *limits = dispatch->limits;
	int r = fgt_dsn_parse(dsn, limits && limits->is_http_allowed,
			      &dispatch->dsn, dispatch->why);

	if (r < 0)
		return r;
	snprintf(dispatch->outcome->where, sizeof(dispatch->outcome->where),
		 "%.500s", dispatch->dsn.redacted);
	dispatch->options.dsn = dispatch->dsn.clean;
	dispatch->send = send_to_dsn;
	return 0;
}

static void aim_at_directory(struct dispatch *dispatch, const char *directory,
			     const struct fgt_transaction_facts *facts)
{
	const struct fgt_ring_slice *slice = dispatch->slice;
	uint64_t begin_ns = facts && facts->begin_ns ? facts->begin_ns
						     : slice->tick_ns[0];

	snprintf(dispatch->outcome->where, sizeof(dispatch->outcome->where),
		 "%.500s", directory);
	dispatch->directory = directory;
	dispatch->name = facts && facts->name && *facts->name
				 ? facts->name
				 : slice->process.name;
	dispatch->wall_ns = fgt_slice_wall_ns(slice, begin_ns);
	dispatch->send = send_to_directory;
}

static int choose_options(struct dispatch *dispatch,
			  const struct fgt_transaction_facts *facts)
{
	struct fgt_format_options *options = &dispatch->options;
	int r = fgt_sentry_choose_id(facts ? facts->event_id : NULL,
				     dispatch->outcome->event_id);

	if (r < 0)
		return fgt_why_set(dispatch->why, r,
				   "the event id is not 32 hexadecimal digits");
	options->event_id = dispatch->outcome->event_id;
	if (facts) {
		options->release = facts->release;
		options->environment = facts->environment;
		options->facts = fgt_facts_of_transaction(facts);
	}
	return 0;
}

int fgt_dispatch(const struct fgt_ring_slice *slice, const char *destination,
		 const struct fgt_transaction_facts *facts,
		 const struct fgt_upload_limits *limits,
		 struct fgt_dispatch_outcome *ret_outcome, struct fgt_why *why)
{
	struct dispatch dispatch = { .slice = slice,
				     .limits = limits,
				     .outcome = ret_outcome,
				     .why = why };
	int r = 0;

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	if (*destination == '/')
		aim_at_directory(&dispatch, destination, facts);
	else
		r = aim_at_dsn(&dispatch, destination);
	if (r == 0)
		r = choose_options(&dispatch, facts);
	if (r == 0)
		r = send_all(&dispatch);
	explicit_bzero(&dispatch.dsn, sizeof(dispatch.dsn));
	return r;
}
