/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of a thread. Runs in any thread; must not hold more than those of
 * one.
 */
#include "upload/format/parts/thread_samples.h"

#include <errno.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"

/* Of a key: the leaf node, then the link, then the state. */
#define LINK_SHIFT 10
_Static_assert(FGT_STATE_MAX < 1u << LINK_SHIFT, "states overlap links");
_Static_assert(FGT_TRACE_LINK_MAX <= UINT32_MAX >> LINK_SHIFT,
	       "links overlap nodes");

int fgt_thread_samples_init(struct fgt_thread_samples *samples,
			    const struct fgt_ring_slice *slice,
			    const struct fgt_transaction_facts *facts,
			    bool is_with_ticks)
{
	*samples = (struct fgt_thread_samples){
		.slice = slice,
		.is_with_ticks = is_with_ticks,
	};
	return fgt_trace_links_init(&samples->links, slice, facts);
}

void fgt_thread_samples_done(struct fgt_thread_samples *samples)
{
	fgt_trace_links_done(&samples->links);
	fgt_id_map_done(&samples->ids);
	free(samples->items);
	free(samples->ticks);
	samples->items = NULL;
	samples->ticks = NULL;
}

static int find_sample(struct fgt_thread_samples *samples,
		       const struct fgt_run *run, uint32_t link,
		       struct fgt_sample **ret_sample)
{
	uint64_t key = (uint64_t)run->stack << 32 | link << LINK_SHIFT |
		       run->state;
	uint32_t known = samples->ids.count, id;
	int r = FGT_ARRAY_GROW(samples->items, known, samples->capacity);

	if (!r)
		r = fgt_id_map_add(&samples->ids, key, &id);
	if (r)
		return r;
	if (id == known)
		samples->items[id] = (struct fgt_sample){ .stack = run->stack,
							  .state = run->state,
							  .link = link };
	*ret_sample = &samples->items[id];
	return 0;
}

static int add_ticks(struct fgt_thread_samples *samples,
		     struct fgt_sample *sample, uint32_t first_tick,
		     uint32_t tick_count)
{
	if (FGT_ARRAY_GROW(samples->ticks, samples->tick_count,
			   samples->tick_capacity))
		return -ENOMEM;
	samples->ticks[samples->tick_count++] =
		(struct fgt_sample_ticks){ first_tick, tick_count, 0 };
	if (sample->last_ticks)
		samples->ticks[sample->last_ticks - 1].next =
			samples->tick_count;
	else
		sample->first_ticks = samples->tick_count;
	sample->last_ticks = samples->tick_count;
	return 0;
}

/* A last known stack that is what the thread did before it worked for a span
 * is not shown as that span's: then 0. */
static uint32_t choose_link(struct fgt_thread_samples *samples,
			    const struct fgt_run *run, uint32_t link)
{
	if (fgt_slice_leaf_marker(samples->slice, run->stack) !=
	    FGT_MARKER_NOT_SAMPLED)
		samples->sampled_link = link;
	return samples->sampled_link == link ? link : 0;
}

static int add_run(struct fgt_thread_samples *samples,
		   const struct fgt_run *run)
{
	int32_t tid = samples->slice->threads[run->thread].tid;
	uint32_t at = run->first_tick, run_end = at + run->tick_count, end;
	int r = 0;

	for (; at < run_end && !r; at = end) {
		uint32_t link = fgt_trace_links_at(&samples->links, tid, at,
						   run_end, &end);
		struct fgt_sample *sample;

		link = choose_link(samples, run, link);
		r = find_sample(samples, run, link, &sample);
		if (r)
			break;
		sample->periods +=
			fgt_pace_weight(samples->slice, at, end - at);
		if (samples->is_with_ticks)
			r = add_ticks(samples, sample, at, end - at);
	}
	return r;
}

int fgt_thread_samples_next(struct fgt_thread_samples *samples)
{
	const struct fgt_ring_slice *slice = samples->slice;
	const struct fgt_slice_thread *thread, *present;
	int r;

	fgt_id_map_done(&samples->ids);
	samples->tick_count = 0;
	samples->sampled_link = 0;
	if (samples->next_run == slice->run_count)
		return 0;
	samples->thread = slice->runs[samples->next_run].thread;
	present = &slice->threads[samples->thread];
	do {
		r = add_run(samples, &slice->runs[samples->next_run++]);
		if (r || samples->next_run == slice->run_count)
			break;
		thread = &slice->threads[slice->runs[samples->next_run].thread];
	} while (thread->tid == present->tid && thread->name == present->name);
	return r ? r : 1;
}
