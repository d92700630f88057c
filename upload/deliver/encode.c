/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice and facts as payloads: for Sentry a transaction, followed by the chunks
 * of its profile, or together with a profile of version 1; else one payload.
 * Runs in a thread or process that may wait as long as the taker does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/clock.h"
#include "upload/deliver/destination.h"
#include "upload/deliver/dsn.h"
#include "upload/format/format.h"
#include "upload/format/parts/gzip.h"
#include "upload/format/parts/thread_runs.h"
#include "upload/format/sentry/sentry_chunk.h"
#include "upload/format/sentry/sentry_profile.h"

#define ID_KEPT_DIGITS	24 /* of the event id; the rest numbers its chunks */
#define PROFILER_NUMBER 0xffffffffu

struct encoding {
	const struct fgt_destination *destination;
	const struct fgt_ring_slice *slice;
	struct fgt_format_options options;
	struct fgt_payload_head head;
	char event_id[33];
	struct fgt_dsn dsn; /* of a destination that has one */
	const struct fgt_payload_taker *taker;
	struct fgt_why *why;
};

struct part {
	const struct fgt_ring_slice *slice;
	enum fgt_format_kind format;
	struct fgt_format_options options;
	struct fgt_sentry_chunk_ticks ticks; /* of a chunk */
	bool is_chunk, is_gzip;
};

/* ---- The body ------------------------------------------------------------ */

static int write_plain(const struct part *part, const struct fgt_sink *sink)
{
	if (part->is_chunk)
		return fgt_sentry_chunk_write_ticks(part->slice, &part->options,
						    &part->ticks, sink);
	return fgt_format_write(part->slice, part->format, &part->options,
				sink);
}

static int write_part(const void *context, const struct fgt_sink *sink)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;
	const struct part *part = context;
	int r;

	if (!part->is_gzip)
		return write_plain(part, sink);
	r = fgt_gzip_new(sink, &gzip);
	if (r == 0)
		r = write_plain(part, fgt_gzip_sink(gzip));
	return r < 0 ? r : fgt_gzip_finish(gzip);
}

/* id, category: NULL: those of the slice. */
static int give(const struct encoding *encoding, const struct part *part,
		const char *category)
{
	struct fgt_payload payload = { .head = encoding->head,
				       .body = { write_part, part } };

	if (part->options.event_id)
		snprintf(payload.head.id, sizeof(payload.head.id), "%s",
			 part->options.event_id);
	snprintf(payload.head.category, sizeof(payload.head.category), "%s",
		 category);
	return encoding->taker->take(encoding->taker->context, &payload,
				     encoding->why);
}

/* ---- Sentry -------------------------------------------------------------- */

/* An id that is the same when all is sent again. */
static void number_id(const struct encoding *encoding, uint32_t number,
		      char ret_id[33])
{
	snprintf(ret_id, 33, "%.*s%08x", ID_KEPT_DIGITS, encoding->event_id,
		 number);
}

static int give_chunks(const struct encoding *encoding,
		       const struct fgt_ring_slice *slice,
		       const char *profiler_id)
{
	struct part part = { .slice = slice,
			     .options = encoding->options,
			     .is_chunk = true };
	uint32_t number = 0;
	char id[33];

	part.options.profiler_id = profiler_id;
	part.options.event_id = id;
	while (fgt_sentry_chunk_next(slice, &part.ticks)) {
		int r;

		number_id(encoding, ++number, id);
		r = give(encoding, &part, "profile_chunk");
		/* No data: no thread has two samples in this chunk. */
		if (r < 0 && r != -ENODATA)
			return r;
	}
	return 0;
}

/* They find each other by the profiler's id, a thread and the time. */
static int give_apart(const struct encoding *encoding, uint64_t begin_ns,
		      uint64_t end_ns)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_transaction_facts *facts = encoding->options.facts;
	struct part part = { .slice = encoding->slice,
			     .format = FGT_KIND_SENTRY,
			     .options = encoding->options };
	char profiler_id[33];
	bool has_profile;
	int r = fgt_slice_narrow(encoding->slice, begin_ns, end_ns, 0, &slice);

	if (r == 0 && facts)
		r = fgt_thread_runs_clip(facts, slice);
	/* No data: the ring does not reach back that far, or the transaction
	 * lies between two ticks; it is sent alone. */
	has_profile = r == 0;
	if (r < 0 && !(r == -ENODATA && facts))
		return r;
	number_id(encoding, PROFILER_NUMBER, profiler_id);
	if (has_profile)
		part.options.profiler_id = profiler_id;
	r = give(encoding, &part, "transaction");
	if (r == 0 && has_profile)
		r = give_chunks(encoding, slice, profiler_id);
	return r;
}

/* A chunk in the life of a process: one item, whose profile is as long as a
 * server accepts, unless it is too large for one. */
static int give_chunk(const struct encoding *encoding, const char *profiler_id)
{
	struct part part = { .slice = encoding->slice,
			     .format = FGT_KIND_SENTRY_CHUNK,
			     .options = encoding->options };

	if (!fgt_sentry_chunk_is_one(encoding->slice))
		return give_chunks(encoding, encoding->slice, profiler_id);
	part.options.profiler_id = profiler_id;
	return give(encoding, &part, "profile_chunk");
}

static int give_sentry(const struct encoding *encoding)
{
	const struct part part = { .slice = encoding->slice,
				   .format = FGT_KIND_SENTRY,
				   .options = encoding->options };
	const struct fgt_transaction_facts *facts = encoding->options.facts;
	const char *profiler_id =
		fgt_slice_note(encoding->slice, FGT_NOTE_PROFILER);
	const struct fgt_destination *destination = encoding->destination;
	const struct fgt_ring_slice *slice = encoding->slice;
	uint64_t begin_ns = slice->tick_ns[0];
	uint64_t end_ns = slice->tick_ns[slice->tick_count - 1];

	if (!facts && profiler_id)
		return give_chunk(encoding, profiler_id);
	if (facts)
		fgt_sentry_facts_range(facts, slice, &begin_ns, &end_ns);
	/* A file is one envelope. */
	if ((destination->is_v1 ||
	     destination->kind != FGT_DESTINATION_SENTRY) &&
	    (!facts || end_ns - begin_ns <= FGT_SENTRY_PROFILE_MAX_NS))
		return give(encoding, &part, "transaction");
	return give_apart(encoding, begin_ns, end_ns);
}

/* Compressed on the way only. */
static bool is_coded(const struct fgt_destination *destination)
{
	return destination->kind == FGT_DESTINATION_OTLP;
}

/* ---- Any format ---------------------------------------------------------- */

static int give_slice(const struct encoding *encoding)
{
	const struct part part = {
		.slice = encoding->slice,
		.format = (enum fgt_format_kind)encoding->destination->format,
		.options = encoding->options,
		.is_gzip = encoding->destination->is_gzip ||
			   is_coded(encoding->destination),
	};

	return give(encoding, &part, "profile");
}

/* ---- The head ------------------------------------------------------------ */

static const char *content_type_of(const struct fgt_destination *destination)
{
	if (destination->is_gzip)
		return "application/gzip";
	switch (destination->format) {
	case FGT_KIND_CHROME:
	case FGT_KIND_SPEEDSCOPE:
		return "application/json";
	case FGT_KIND_SENTRY:
	case FGT_KIND_SENTRY_CHUNK:
		return "application/x-sentry-envelope";
	case FGT_KIND_FOLDED:
		return "text/plain; charset=utf-8";
	case FGT_KIND_OTLP:
		return "application/x-protobuf";
	default:
		return "application/octet-stream";
	}
}

#define SET(array, ...) snprintf(array, sizeof(array), __VA_ARGS__)

static void fill_head(struct encoding *encoding)
{
	const struct fgt_ring_slice *slice = encoding->slice;
	const struct fgt_destination *destination = encoding->destination;
	const struct fgt_transaction_facts *facts = encoding->options.facts;
	struct fgt_payload_head *head = &encoding->head;
	enum fgt_format_kind format = destination->format;
	bool has_times = facts && facts->begin_ns;
	char service[FGT_SERVICE_TEXT_MAX];

	head->version = FGT_PAYLOAD_VERSION;
	head->pid = slice->process.pid;
	/* Without an owner that counts: what does not repeat. */
	head->sequence = destination->sequence ? destination->sequence
					       : fgt_clock_ns(CLOCK_REALTIME);
	head->from_wall_ns = fgt_slice_wall_ns(
		slice, has_times ? facts->begin_ns : slice->tick_ns[0]);
	head->to_wall_ns = fgt_slice_wall_ns(
		slice, has_times && facts->end_ns
			       ? facts->end_ns
			       : slice->tick_ns[slice->tick_count - 1]);
	SET(head->destination, "%s",
	    destination->name ? destination->name : "");
	SET(head->id, "%s", encoding->event_id);
	SET(head->format, "%s", fgt_format_name(format));
	SET(head->ending, "%s%s", fgt_format_ending(format),
	    destination->is_gzip ? ".gz" : "");
	SET(head->content_type, "%s", content_type_of(destination));
	SET(head->content_encoding, "%s", is_coded(destination) ? "gzip" : "");
	SET(head->name, "%s",
	    facts && facts->name && *facts->name ? facts->name
						 : slice->process.name);
	fgt_service_name(&slice->process.service, slice->process.name, service);
	SET(head->service, "%s", service);
	SET(head->host, "%s", slice->process.host);
}

/* Its header names the DSN, without the secret. */
static int choose_dsn(struct encoding *encoding)
{
	const struct fgt_destination *destination = encoding->destination;
	int r;

	if (destination->kind != FGT_DESTINATION_SENTRY)
		return 0;
	r = fgt_dsn_parse(destination->target, destination->is_http_allowed,
			  &encoding->dsn, encoding->why);
	if (r == 0)
		encoding->options.dsn = encoding->dsn.clean;
	return r;
}

int fgt_destination_encode(const struct fgt_destination *destination,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_format_options *options,
			   const struct fgt_payload_taker *taker,
			   struct fgt_why *why)
{
	struct encoding encoding = { .destination = destination,
				     .slice = slice,
				     .taker = taker,
				     .why = why };
	int r;

	if (options)
		encoding.options = *options;
	/* Sent again, a chunk keeps its id. */
	if (!encoding.options.event_id || !*encoding.options.event_id)
		encoding.options.event_id =
			fgt_slice_note(slice, FGT_NOTE_CHUNK);
	r = fgt_sentry_choose_id(encoding.options.event_id, encoding.event_id);
	if (r < 0)
		return fgt_why_set(why, r,
				   "the event id is not 32 hexadecimal digits");
	encoding.options.event_id = encoding.event_id;
	if (destination->is_sum)
		encoding.options.otlp_shape = FGT_OTLP_SUM;
	encoding.options.is_stored = taker->is_stored;
	r = choose_dsn(&encoding);
	if (r == 0) {
		fill_head(&encoding);
		r = destination->format == FGT_KIND_SENTRY
			    ? give_sentry(&encoding)
			    : give_slice(&encoding);
	}
	explicit_bzero(&encoding.dsn, sizeof(encoding.dsn));
	return r;
}
