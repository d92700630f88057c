/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction with its profile, or alone and followed by the chunks of a
 * profile that is too long for one. Runs in any thread.
 */
#include "upload/deliver/dispatch_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "upload/format/parts/thread_runs.h"
#include "upload/format/sentry/sentry_chunk.h"
#include "upload/format/sentry/sentry_envelope.h"
#include "upload/format/sentry/sentry_transaction.h"

#define ID_KEPT_DIGITS	24 /* of the event id; the rest numbers its chunks */
#define PROFILER_NUMBER 0xffffffffu

struct parts {
	const struct fgt_ring_slice *slice;
	struct fgt_format_options options;
	const struct fgt_dispatch_sender *sender;
	struct fgt_dispatch_outcome *outcome;
};

/* One envelope of it. */
struct part {
	const struct fgt_ring_slice *slice;
	struct fgt_format_options options;
	struct fgt_sentry_chunk_ticks ticks; /* of a chunk */
	bool is_chunk;
};

static int write_part(const void *context, const struct fgt_sink *sink)
{
	const struct part *part = context;

	if (part->is_chunk)
		return fgt_sentry_chunk_write_ticks(part->slice, &part->options,
						    &part->ticks, sink);
	return fgt_format_write(part->slice, FGT_KIND_SENTRY, &part->options,
				sink);
}

static int send_part(const struct parts *parts, const struct part *part)
{
	const struct fgt_envelope envelope = { write_part, part };
	int r = parts->sender->send(parts->sender->context, &envelope,
				    part->options.event_id);

	if (r == 0)
		parts->outcome->envelopes++;
	return r;
}

/* An id that is the same when all is sent again. */
static void number_id(const struct parts *parts, uint32_t number,
		      char ret_id[33])
{
	snprintf(ret_id, 33, "%.*s%08x", ID_KEPT_DIGITS,
		 parts->outcome->event_id, number);
}

static int send_chunks(const struct parts *parts,
		       const struct fgt_ring_slice *slice,
		       const char *profiler_id)
{
	struct part part = { .slice = slice,
			     .options = parts->options,
			     .is_chunk = true };
	uint32_t number = 0;
	char id[33];

	part.options.profiler_id = profiler_id;
	part.options.event_id = id;
	while (fgt_sentry_chunk_next(slice, &part.ticks)) {
		int r;

		number_id(parts, ++number, id);
		r = send_part(parts, &part);
		if (r < 0 && r != -ENODATA)
			return r;
	}
	return 0;
}

static int send_long(const struct parts *parts, uint64_t begin_ns,
		     uint64_t end_ns)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct part part = { .slice = parts->slice, .options = parts->options };
	char profiler_id[33];
	int r;

	number_id(parts, PROFILER_NUMBER, profiler_id);
	part.options.profiler_id = profiler_id;
	r = send_part(parts, &part);
	if (r < 0)
		return r;
	r = fgt_slice_narrow(parts->slice, begin_ns, end_ns, 0, &slice);
	if (r == 0)
		r = fgt_thread_runs_clip(parts->options.facts, slice);
	if (r == 0)
		r = send_chunks(parts, slice, profiler_id);
	/* The ring does not go back so far: the transaction is told. */
	return r == -ENODATA ? 0 : r;
}

static int send_all(const struct parts *parts)
{
	const struct part part = { .slice = parts->slice,
				   .options = parts->options };
	const struct fgt_transaction_facts *facts = parts->options.facts;
	uint64_t begin_ns, end_ns;

	if (facts) {
		fgt_sentry_facts_range(facts, parts->slice, &begin_ns, &end_ns);
		if (end_ns - begin_ns > FGT_SENTRY_PROFILE_MAX_NS)
			return send_long(parts, begin_ns, end_ns);
	}
	return send_part(parts, &part);
}

int fgt_dispatch_parts(const struct fgt_ring_slice *slice,
		       const struct fgt_format_options *options,
		       const struct fgt_dispatch_sender *sender,
		       struct fgt_dispatch_outcome *outcome,
		       struct fgt_why *why)
{
	const struct fgt_transaction_facts *facts = options->facts;
	struct parts parts = { .slice = slice,
			       .options = *options,
			       .sender = sender,
			       .outcome = outcome };
	int r = fgt_sentry_choose_id(facts ? facts->event_id : NULL,
				     outcome->event_id);

	if (r < 0)
		return fgt_why_set(why, r, "the event id is not 32 digits");
	parts.options.event_id = outcome->event_id;
	if (facts) {
		parts.options.release = facts->release;
		parts.options.environment = facts->environment;
		parts.options.facts = fgt_facts_of_transaction(facts);
	}
	return send_all(&parts);
}
