/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encoders of all formats, and their options.
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_OPTIONS_H
#define FGT_UPLOAD_FORMAT_PARTS_OPTIONS_H

#include <stdbool.h>

#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/parts/transaction.h"

enum fgt_state_frames {
	/* Innermost in timelines for Perfetto, where an outermost frame would
	 * begin all frames again with each state; else outermost. */
	FGT_STATE_FRAMES_AUTO,
	FGT_STATE_FRAMES_ROOT, /* a virtual outermost frame names the state */
	FGT_STATE_FRAMES_LEAF, /* innermost */
	FGT_STATE_FRAMES_NO,
};

/* What an OTLP sample has: readers differ. */
enum fgt_otlp_shape {
	FGT_OTLP_TIMESTAMPS, /* the time and duration of each tick */
	FGT_OTLP_SUM, /* the sum of durations, for Grafana Pyroscope */
};

static inline bool fgt_state_is_at_root(enum fgt_state_frames place)
{
	return place == FGT_STATE_FRAMES_ROOT || place == FGT_STATE_FRAMES_AUTO;
}

/* For timelines. */
static inline enum fgt_state_frames
fgt_state_frames_or_leaf(enum fgt_state_frames place)
{
	return place == FGT_STATE_FRAMES_AUTO ? FGT_STATE_FRAMES_LEAF : place;
}

/* Zero or NULL means default; strings are borrowed for the call. */
struct fgt_format_options {
	enum fgt_state_frames state_frames;
	enum fgt_otlp_shape otlp_shape;
	bool with_waits; /* folded stacks only: see folded_waits.c */
	/* Sentry only. */
	const char *dsn; /* without secret; NULL: no dsn in header */
	/* Its header gets DSN and time when it is sent, see sentry_fresh.h. */
	bool is_stored;
	const char *release;
	const char *environment;
	const char *transaction; /* name; default: the process's name */
	const char *event_id; /* 32 hex digits; default: random */
	/* The id of chunks that belong together, in the form of event_id. A
	 * transaction with a profiler_id has no profile: the chunks have it. */
	const char *profiler_id;
	bool without_profile; /* of a transaction for Sentry */
	/*
	 * The program's transaction, whose range lies in the slice. Ids given
	 * above take precedence over those of the facts. The transaction is
	 * written even if no thread has two samples. In pprof and OTLP the
	 * samples of its threads have its ids.
	 */
	const struct fgt_transaction_facts *facts;
};

/* Does what fgt_format_write() does, with options. MT-Safe | AS-Unsafe */
typedef int fgt_encoder(const struct fgt_ring_slice *slice,
			const struct fgt_format_options *options,
			const struct fgt_sink *sink);

fgt_encoder fgt_chrome_write; /* trace events, for Perfetto and speedscope */
fgt_encoder fgt_folded_write; /* a line "root;…;leaf ticks" per stack */
fgt_encoder fgt_otlp_write; /* OpenTelemetry: ExportProfilesServiceRequest */
fgt_encoder fgt_perfetto_write; /* packets, for Perfetto */
fgt_encoder fgt_pprof_write; /* profile.proto, gzipped: samples and wall-clock
			      * time per stack, thread and state */
fgt_encoder fgt_sentry_write; /* a transaction and its profile */
fgt_encoder fgt_sentry_chunk_write; /* a profile chunk, of any length */
fgt_encoder fgt_speedscope_write;

#endif
