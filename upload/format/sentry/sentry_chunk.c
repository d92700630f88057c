/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The envelope of a profile chunk. A chunk needs no transaction: Sentry shows
 * it with each transaction that names its profiler_id and a thread of it. Runs
 * in any thread; must not hold a body in memory. A part of a slice is narrowed
 * to a separate slice first, so that it carries no string, frame or image of
 * other parts.
 */
#include "upload/format/sentry/sentry_chunk.h"

#include "ringbuf/base/array.h"
#include "upload/format/parts/reasons.h"
#include "upload/format/sentry/sentry_envelope.h"
#include "upload/format/sentry/sentry_profile.h"

/* Each has a sample of some 70 bytes at least: less than 10 MiB. */
#define RUNS_MAX UINT64_C(120000)

struct chunk {
	const struct fgt_ring_slice *slice; /* of this chunk only */
	const struct fgt_format_options *options;
	struct fgt_sentry_profile profile;
	char chunk_id[33], profiler_id[33];
};

static int put_chunk(void *context, struct fgt_json *json)
{
	const struct chunk *chunk = context;
	int r;

	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "version", "2");
	fgt_json_put_string(json, "chunk_id", chunk->chunk_id);
	fgt_json_put_string(json, "profiler_id", chunk->profiler_id);
	fgt_sentry_put_sdk(json, "client_sdk");
	fgt_json_put_string(json, "platform", FGT_SENTRY_PLATFORM);
	fgt_sentry_put_release(json, chunk->options,
			       &chunk->slice->process.service);
	fgt_sentry_images_put(chunk->slice, json);
	r = fgt_sentry_profile_put(&chunk->profile, json);
	fgt_json_end_object(json);
	return r;
}

static int write_envelope(const struct chunk *chunk,
			  const struct fgt_sentry_body *body, uint64_t len,
			  const struct fgt_sink *sink)
{
	struct fgt_json json;
	int r;

	fgt_json_init(&json, sink);
	fgt_sentry_put_header(&json, chunk->chunk_id, chunk->options);
	r = fgt_sentry_put_item(&json, "profile_chunk", FGT_SENTRY_PLATFORM,
				body, len);
	return r ? r : fgt_json_finish(&json);
}

/* wall_offset_ns: one for all chunks of a slice, so that they stay in order
 * when the wall clock is set meanwhile. */
static int write_chunk(const struct fgt_ring_slice *slice,
		       uint64_t wall_offset_ns,
		       const struct fgt_format_options *options,
		       const struct fgt_sink *sink)
{
	struct chunk chunk = { .slice = slice, .options = options };
	const struct fgt_sentry_body body = { put_chunk, &chunk };
	const struct fgt_sentry_scope scope = {
		.state_frames = options->state_frames,
		.is_wall = true,
		.wall_offset_ns = wall_offset_ns,
		.facts = options->facts,
	};
	uint64_t len;
	int r;

	r = fgt_sentry_choose_id(options->event_id, chunk.chunk_id);
	if (!r)
		r = fgt_sentry_choose_id(
			options->profiler_id
				? options->profiler_id
				: fgt_slice_note(slice, FGT_NOTE_PROFILER),
			chunk.profiler_id);
	if (!r)
		r = fgt_sentry_profile_fit(&chunk.profile, slice, &scope, &body,
					   &len);
	if (!r)
		r = write_envelope(&chunk, &body, len, sink);
	fgt_sentry_profile_done(&chunk.profile);
	return r;
}

static uint64_t wall_offset_ns(const struct fgt_ring_slice *slice)
{
	return fgt_slice_wall_ns(slice, slice->tick_ns[0]) - slice->tick_ns[0];
}

int fgt_sentry_chunk_write(const struct fgt_ring_slice *slice,
			   const struct fgt_format_options *options,
			   const struct fgt_sink *sink)
{
	return write_chunk(slice, wall_offset_ns(slice), options, sink);
}

static uint64_t count_runs(const struct fgt_ring_slice *slice, uint32_t first,
			   uint32_t last)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		count += run->first_tick <= last &&
			 run->first_tick + run->tick_count > first;
	}
	return count;
}

/* The last tick up to which there is room for the runs. */
static uint32_t fit_runs(const struct fgt_ring_slice *slice, uint32_t first,
			 uint32_t last)
{
	uint64_t count;

	while (last > first + 1 &&
	       (count = count_runs(slice, first, last)) > RUNS_MAX) {
		last = first + (uint32_t)((last - first) * RUNS_MAX / count);
		if (last <= first)
			last = first + 1;
	}
	return last;
}

bool fgt_sentry_chunk_is_one(const struct fgt_ring_slice *slice)
{
	return slice->run_count <= RUNS_MAX;
}

bool fgt_sentry_chunk_next(const struct fgt_ring_slice *slice,
			   struct fgt_sentry_chunk_ticks *ticks)
{
	const uint64_t *tick_ns = slice->tick_ns;

	for (uint32_t first = ticks->last; first + 1 < slice->tick_count;
	     first++) {
		size_t end = FGT_ARRAY_BISECT(
			i, slice->tick_count,
			i <= first || tick_ns[i] - tick_ns[first] <=
					      FGT_SENTRY_PROFILE_MAX_NS);

		/* One tick only: the gap behind it is longer than a chunk. */
		if (end == first + 1)
			continue;
		ticks->first = first;
		ticks->last = fit_runs(slice, first, (uint32_t)end - 1);
		return true;
	}
	return false;
}

int fgt_sentry_chunk_write_ticks(const struct fgt_ring_slice *slice,
				 const struct fgt_format_options *options,
				 const struct fgt_sentry_chunk_ticks *ticks,
				 const struct fgt_sink *sink)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	int r;

	r = fgt_slice_narrow(slice, slice->tick_ns[ticks->first],
			     slice->tick_ns[ticks->last], 0, &part);
	if (!r)
		r = fgt_reasons_apply(part);
	return r ? r : write_chunk(part, wall_offset_ns(slice), options, sink);
}
