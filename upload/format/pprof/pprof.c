/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums the ticks of each thread per stack and state, each weighted by the
 * periods that it stands for, and writes a sample for each sum. Runs in any
 * thread; must not hold more than the sums of one thread and the tables that
 * samples point into.
 */
#include <errno.h>
#include <stdlib.h>

#include "ringbuf/slice/pace.h"
#include "upload/format/parts/gzip.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/timeline.h"
#include "upload/format/pprof/pprof_tables.h"

enum {
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT,
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE,
	SAMPLE_LABEL,
	LABEL_KEY = 1,
	LABEL_STR,
	LABEL_NUM,
};

struct pprof {
	const struct fgt_ring_slice *slice;
	enum fgt_state_frames state_frames;
	struct fgt_protobuf out;
	struct fgt_pprof_tables tables;
	/* Of the present thread. */
	struct fgt_id_map stacks; /* (leaf, state) → sum */
	uint64_t *sums; /* periods */
	uint32_t sum_capacity;
};

/* Values are signed. */
static uint64_t clamp(uint64_t value)
{
	return value < INT64_MAX ? value : INT64_MAX;
}

static uint64_t wall_ns(const struct fgt_ring_slice *slice, uint64_t periods)
{
	return periods > INT64_MAX / slice->period_ns
		       ? INT64_MAX
		       : periods * slice->period_ns;
}

/* ---- Samples ------------------------------------------------------------ */

static void put_location(struct pprof *pprof, uint64_t id)
{
	fgt_protobuf_put_packed(&pprof->out, id);
}

/* Leaf first. */
static void put_stack(struct pprof *pprof, uint32_t node,
		      struct fgt_level state)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	const struct fgt_level unknown = { FGT_LEVEL_NO_STACK, 0 };

	fgt_protobuf_begin(&pprof->out, SAMPLE_LOCATION_ID);
	if (pprof->state_frames == FGT_STATE_FRAMES_LEAF)
		put_location(pprof, fgt_pprof_level(&pprof->tables, state));
	if (node == FGT_NODE_NONE)
		put_location(pprof, fgt_pprof_level(&pprof->tables, unknown));
	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent)
		put_location(pprof, fgt_pprof_frame(&pprof->tables,
						    slice->nodes[node].frame));
	if (pprof->state_frames == FGT_STATE_FRAMES_ROOT)
		put_location(pprof, fgt_pprof_level(&pprof->tables, state));
	fgt_protobuf_end(&pprof->out);
}

static void put_label(struct pprof *pprof, enum fgt_pprof_word key,
		      uint64_t text, uint64_t number)
{
	fgt_protobuf_begin(&pprof->out, SAMPLE_LABEL);
	fgt_protobuf_put_uint(&pprof->out, LABEL_KEY,
			      fgt_pprof_word(&pprof->tables, key));
	fgt_protobuf_put_uint(&pprof->out, LABEL_STR, text);
	fgt_protobuf_put_uint(&pprof->out, LABEL_NUM, number);
	fgt_protobuf_end(&pprof->out);
}

static void put_sample(struct pprof *pprof, uint32_t thread, uint64_t key,
		       uint64_t periods)
{
	int32_t tid = pprof->slice->threads[thread].tid;
	struct fgt_level state = { FGT_LEVEL_STATE,
				   fgt_levels_state_name(pprof->slice,
							 (uint32_t)key) };

	fgt_protobuf_begin(&pprof->out, FGT_PPROF_SAMPLE);
	put_stack(pprof, (uint32_t)(key >> 32), state);
	fgt_protobuf_begin(&pprof->out, SAMPLE_VALUE);
	fgt_protobuf_put_packed(&pprof->out, clamp(periods));
	fgt_protobuf_put_packed(&pprof->out, wall_ns(pprof->slice, periods));
	fgt_protobuf_end(&pprof->out);
	put_label(pprof, FGT_PPROF_THREAD,
		  fgt_pprof_thread_name(&pprof->tables, thread), 0);
	if (tid > 0)
		put_label(pprof, FGT_PPROF_THREAD_ID, 0, (uint64_t)tid);
	put_label(pprof, FGT_PPROF_STATE,
		  fgt_pprof_level_name(&pprof->tables, state), 0);
	fgt_protobuf_end(&pprof->out);
}

static int add_run(struct pprof *pprof, const struct fgt_run *run)
{
	uint32_t known = pprof->stacks.count, id;
	int r;

	r = fgt_id_map_add(&pprof->stacks,
			   (uint64_t)run->stack << 32 | run->state, &id);
	if (r)
		return r;
	if (pprof->stacks.count > pprof->sum_capacity) {
		uint64_t *sums = reallocarray(
			pprof->sums, pprof->stacks.capacity, sizeof(*sums));

		if (!sums)
			return -ENOMEM;
		pprof->sums = sums;
		pprof->sum_capacity = pprof->stacks.capacity;
	}
	if (pprof->stacks.count > known)
		pprof->sums[id] = 0;
	pprof->sums[id] +=
		fgt_pace_weight(pprof->slice, run->first_tick, run->tick_count);
	return 0;
}

/* Runs are ordered by thread. */
static int put_samples(struct pprof *pprof)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	uint32_t i = 0;
	int r = 0;

	while (i < slice->run_count) {
		uint32_t thread = slice->runs[i].thread;

		for (; i < slice->run_count && !r &&
		       slice->runs[i].thread == thread;
		     i++)
			r = add_run(pprof, &slice->runs[i]);
		if (r)
			return r;
		for (uint32_t s = 0; s < pprof->stacks.count; s++)
			put_sample(pprof, thread, pprof->stacks.keys[s],
				   pprof->sums[s]);
		fgt_id_map_done(&pprof->stacks);
	}
	return 0;
}

/* ---- The profile -------------------------------------------------------- */

static void put_value_type(struct pprof *pprof, enum fgt_pprof_field field,
			   enum fgt_pprof_word type, enum fgt_pprof_word unit)
{
	fgt_protobuf_begin(&pprof->out, field);
	fgt_protobuf_put_uint(&pprof->out, VALUE_TYPE_TYPE,
			      fgt_pprof_word(&pprof->tables, type));
	fgt_protobuf_put_uint(&pprof->out, VALUE_TYPE_UNIT,
			      fgt_pprof_word(&pprof->tables, unit));
	fgt_protobuf_end(&pprof->out);
}

static void put_head(struct pprof *pprof)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	uint64_t first_ns = slice->tick_ns[0];
	char text[256];

	put_value_type(pprof, FGT_PPROF_SAMPLE_TYPE, FGT_PPROF_SAMPLES,
		       FGT_PPROF_COUNT);
	put_value_type(pprof, FGT_PPROF_SAMPLE_TYPE, FGT_PPROF_WALL,
		       FGT_PPROF_NANOSECONDS);
	fgt_protobuf_put_uint(&pprof->out, FGT_PPROF_TIME_NANOS,
			      clamp(fgt_slice_wall_ns(slice, first_ns)));
	fgt_protobuf_put_uint(
		&pprof->out, FGT_PPROF_DURATION_NANOS,
		clamp(fgt_timeline_end_ns(slice, slice->tick_count - 1) -
		      first_ns));
	put_value_type(pprof, FGT_PPROF_PERIOD_TYPE, FGT_PPROF_WALL,
		       FGT_PPROF_NANOSECONDS);
	fgt_protobuf_put_uint(&pprof->out, FGT_PPROF_PERIOD,
			      clamp(slice->period_ns));
	fgt_protobuf_put_uint(&pprof->out, FGT_PPROF_DEFAULT_SAMPLE_TYPE,
			      fgt_pprof_word(&pprof->tables, FGT_PPROF_WALL));
	fgt_protobuf_begin(&pprof->out, FGT_PPROF_COMMENT);
	for (uint32_t i = 0; fgt_pprof_comment_text(slice, i, text); i++)
		fgt_protobuf_put_packed(&pprof->out,
					fgt_pprof_comment(&pprof->tables, i));
	fgt_protobuf_end(&pprof->out);
}

static int write_profile(struct pprof *pprof, const struct fgt_sink *sink)
{
	int r;

	fgt_protobuf_init(&pprof->out, sink);
	fgt_pprof_tables_init(&pprof->tables, pprof->slice, &pprof->out);
	put_head(pprof);
	r = put_samples(pprof);
	if (!r)
		r = fgt_pprof_tables_put(&pprof->tables);
	if (!r)
		r = fgt_protobuf_finish(&pprof->out);
	fgt_pprof_tables_done(&pprof->tables);
	fgt_protobuf_done(&pprof->out);
	fgt_id_map_done(&pprof->stacks);
	free(pprof->sums);
	return r;
}

int fgt_pprof_write(const struct fgt_ring_slice *slice,
		    const struct fgt_format_options *options,
		    const struct fgt_sink *sink)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;
	struct pprof pprof = { .slice = slice,
			       .state_frames = options->state_frames };
	int r;

	r = fgt_gzip_new(sink, &gzip);
	if (!r)
		r = write_profile(&pprof, fgt_gzip_sink(gzip));
	return r ? r : fgt_gzip_finish(gzip);
}
