/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the slice from a cut's private copies: numbers what is used, parents
 * before children, threads by tid. Runs in any reader; must refuse invalid
 * copies, since the ring may belong to another process.
 */
#include "ringbuf/ring/cut.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/edge.h"
#include "ringbuf/slice/pace.h"

struct building {
	struct fgt_cut *cut;
	struct fgt_ring_slice *slice;
	bool is_state_used[FGT_STATE_MAX + 1];
};

/* ---- Times ------------------------------------------------------------ */

/* Ticks between from_ns and the oldest that can be cut, as far as known. */
static uint64_t count_evicted(const struct fgt_cut *cut)
{
	const struct fgt_cut_segment *first =
		&cut->segments[cut->first_segment];
	uint64_t oldest_ns = cut->segments[cut->words_segment].first_ns;
	uint64_t ticks;

	if (cut->oldest_tick >= first->first_tick &&
	    cut->oldest_tick - first->first_tick < cut->tick_count)
		oldest_ns = cut->tick_ns[cut->oldest_tick - first->first_tick];
	if (cut->from_ns >= oldest_ns || !cut->oldest_tick)
		return 0;
	if (cut->from_ns <= fgt_region_load(&cut->region->header->first_ns))
		return cut->oldest_tick;
	/* Their times are gone. */
	ticks = (oldest_ns - cut->from_ns) / fgt_region_period_ns(cut->region);
	return ticks < cut->oldest_tick ? ticks : cut->oldest_tick;
}

static int build_anchors(struct building *building)
{
	const struct fgt_cut *cut = building->cut;
	struct fgt_ring_slice *slice = building->slice;
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];

	if (!FGT_ARRAY_NEW(slice->anchors, cut->segment_count))
		return -ENOMEM;
	for (uint32_t i = cut->first_segment; i < cut->segment_count; i++) {
		const struct fgt_cut_segment *segment = &cut->segments[i];

		if (segment->first_ns > last_ns)
			break;
		/* Only the last anchor before the first tick is needed. */
		if (segment->first_ns <= first_ns)
			slice->anchor_count = 0;
		slice->anchors[slice->anchor_count++] = (struct fgt_anchor){
			.mono_ns = segment->first_ns,
			.wall_ns = segment->wall_ns,
		};
	}
	return 0;
}

/* Paces before the first tick leave the one that is in force there. */
static int build_paces(struct building *building)
{
	const struct fgt_cut *cut = building->cut;
	int error = 0;

	for (uint32_t i = 0; i < cut->pace_count && !error; i++) {
		const struct fgt_cut_pace *pace = &cut->paces[i];
		uint32_t tick = pace->tick > cut->kept_first
					? pace->tick - cut->kept_first
					: 0;

		if (pace->periods > FGT_PACE_MAX)
			return -EBADMSG;
		if (tick < cut->kept_count)
			error = fgt_pace_add(building->slice, tick,
					     pace->periods);
	}
	return error;
}

static int build_times(struct building *building)
{
	const struct fgt_cut *cut = building->cut;
	struct fgt_ring_slice *slice = building->slice;
	uint32_t count = cut->kept_count;
	const uint64_t *ticks = cut->tick_ns + cut->kept_first;

	if (!FGT_ARRAY_NEW(slice->tick_ns, count))
		return -ENOMEM;
	memcpy(slice->tick_ns, ticks, count * sizeof(*ticks));
	slice->tick_count = count;
	slice->requested_from_ns = cut->from_ns;
	slice->requested_to_ns = cut->to_ns;
	slice->period_ns = fgt_region_period_ns(cut->region);
	slice->effective_hz =
		(count - 1) * 1e9 / (double)(ticks[count - 1] - ticks[0]);
	slice->missed_ticks = cut->missed_ticks;
	slice->evicted_ticks = count_evicted(cut);
	slice->lapped_ticks = cut->lapped_ticks;
	return build_anchors(building);
}

void fgt_cut_process(const struct fgt_region *region,
		     struct fgt_process_info *ret_process)
{
	const struct fgt_region_header *header = region->header;
	uint64_t words[FGT_REGION_PROCESS_WORDS];

	fgt_region_read_pair(&header->process_version, header->process,
			     FGT_REGION_PROCESS_WORDS, words);
	memcpy(ret_process, words, sizeof(*ret_process));
	ret_process->name[sizeof(ret_process->name) - 1] = '\0';
	ret_process->exe[sizeof(ret_process->exe) - 1] = '\0';
	ret_process->host[sizeof(ret_process->host) - 1] = '\0';
	ret_process->arch[sizeof(ret_process->arch) - 1] = '\0';
	ret_process->os_release[sizeof(ret_process->os_release) - 1] = '\0';
	ret_process->title[sizeof(ret_process->title) - 1] = '\0';
	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		fgt_service_text_at(&ret_process->service,
				    i)[FGT_SERVICE_TEXT_MAX - 1] = '\0';
}

static int build_process(struct building *building)
{
	fgt_cut_process(building->cut->region, &building->slice->process);
	return 0;
}

/* ---- Threads ---------------------------------------------------------- */

static int compare_threads(const void *left, const void *right)
{
	const struct fgt_cut_thread *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	if (a->start_time != b->start_time)
		return a->start_time < b->start_time ? -1 : 1;
	return a->slot < b->slot ? -1 : a->slot > b->slot;
}

static uint32_t count_runs(const struct fgt_cut *cut, uint32_t slot)
{
	uint32_t at = cut->tracks[slot].latest, count = 0;

	for (; at; at = cut->pieces[at - 1].previous) {
		struct fgt_cut_piece piece = cut->pieces[at - 1];

		if (fgt_cut_clip(cut, &piece))
			count++;
	}
	return count;
}

/* Sorts the threads and numbers those that have runs. */
static int build_threads(struct building *building)
{
	struct fgt_cut *cut = building->cut;
	struct fgt_ring_slice *slice = building->slice;
	uint64_t runs = 0;

	FGT_ARRAY_SORT(cut->threads, cut->thread_rows.count, compare_threads);
	if (!FGT_ARRAY_NEW(slice->threads, cut->thread_rows.count))
		return -ENOMEM;
	for (uint32_t i = 0; i < cut->thread_rows.count; i++) {
		struct fgt_cut_thread *row = &cut->threads[i];
		struct fgt_slice_thread *thread;
		int error;

		row->run_count = count_runs(cut, row->slot);
		runs += row->run_count;
		if (!row->run_count)
			continue;
		thread = &slice->threads[slice->thread_count++];
		cut->tracks[row->slot].thread = slice->thread_count;
		thread->tid = row->tid;
		thread->start_time = row->start_time;
		thread->moved_ns = row->moved_ns;
		error = fgt_strings_intern(&slice->strings, row->name,
					   strlen(row->name), &thread->name);
		if (error)
			return error;
	}
	return FGT_ARRAY_NEW(slice->runs, runs) ? 0 : -ENOMEM;
}

/* ---- Runs ------------------------------------------------------------- */

/* What a wait for events is for is known from its second tick on: the first one
 * joins the run after it. False: it does not. */
static bool join_later(const struct fgt_ring_slice *slice,
		       const struct fgt_run *run, struct fgt_run *later)
{
	const struct fgt_slice_wait *wait, *named;

	if (run->state != later->state || run->stack != later->stack ||
	    !run->wait || !later->wait ||
	    run->first_tick + run->tick_count != later->first_tick)
		return false;
	wait = &slice->waits[run->wait - 1];
	named = &slice->waits[later->wait - 1];
	if (wait->kind != FGT_WAIT_EVENTS || named->kind != FGT_WAIT_EVENTS ||
	    *fgt_slice_string(slice, wait->text) ||
	    wait->address != named->address || wait->number != named->number)
		return false;
	later->first_tick = run->first_tick;
	later->tick_count += run->tick_count;
	return true;
}

/* A slot's runs hang together from the newest back: filled from the end. */
static int build_thread_runs(struct building *building,
			     const struct fgt_cut_thread *row, uint32_t thread)
{
	const struct fgt_cut *cut = building->cut;
	struct fgt_ring_slice *slice = building->slice;
	struct fgt_run *first = slice->runs + slice->run_count;
	struct fgt_run *end = first + row->run_count, *run = end;
	uint32_t at = cut->tracks[row->slot].latest;

	for (; at; at = cut->pieces[at - 1].previous) {
		struct fgt_cut_piece piece = cut->pieces[at - 1];
		int error;

		if (!fgt_cut_clip(cut, &piece))
			continue;
		run--;
		run->thread = thread;
		run->first_tick = piece.first - cut->kept_first;
		run->tick_count = piece.end - piece.first;
		run->state = piece.state;
		run->wait = 0; /* a run that was joined was there */
		building->is_state_used[piece.state] = true;
		error = fgt_cut_build_stack(cut, slice, piece.node,
					    &run->stack);
		if (!error && piece.wait)
			error = fgt_cut_build_wait(building->cut, slice,
						   piece.wait - 1, run);
		if (error)
			return error;
		if (run + 1 < end && join_later(slice, run, run + 1))
			run++;
	}
	memmove(first, run, (size_t)(end - run) * sizeof(*run));
	slice->run_count += (uint32_t)(end - run);
	return 0;
}

static int build_runs(struct building *building)
{
	const struct fgt_cut *cut = building->cut;
	struct fgt_ring_slice *slice = building->slice;
	uint32_t thread = 0;

	if (!FGT_ARRAY_NEW(slice->nodes, cut->node_rows.count) ||
	    !FGT_ARRAY_NEW(slice->frames, cut->frame_rows.count) ||
	    !FGT_ARRAY_NEW(slice->images, cut->image_rows.count) ||
	    !FGT_ARRAY_NEW(slice->waits, cut->wait_rows.count))
		return -ENOMEM;
	for (uint32_t i = 0; i < cut->thread_rows.count; i++) {
		int error;

		if (!cut->threads[i].run_count)
			continue;
		error = build_thread_runs(building, &cut->threads[i], thread++);
		if (error)
			return error;
	}
	return 0;
}

/* Those of the wanted ticks, of threads that have runs there. */
static int build_edges(struct building *building)
{
	const struct fgt_cut *cut = building->cut;
	struct fgt_ring_slice *slice = building->slice;

	if (!FGT_ARRAY_NEW(slice->edges, cut->edge_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < cut->edge_count; i++) {
		const struct fgt_cut_edge *edge = &cut->edges[i];
		uint32_t thread = cut->tracks[edge->slot].thread;

		if (!thread || edge->tick < cut->kept_first ||
		    edge->tick - cut->kept_first >= cut->kept_count)
			continue;
		slice->edges[slice->edge_count++] = (struct fgt_edge){
			.thread = thread - 1,
			.tick = edge->tick - cut->kept_first,
			.on_us = edge->on_us,
			.off_us = edge->off_us,
		};
	}
	fgt_edges_sort(slice);
	return fgt_edges_are_valid(slice) ? 0 : -EBADMSG;
}

static int build_wakes(struct building *building)
{
	return fgt_cut_build_wakes(building->cut, building->slice);
}

static int build_states(struct building *building)
{
	struct fgt_ring_slice *slice = building->slice;
	uint32_t count = 0;

	for (uint32_t state = 0; state <= FGT_STATE_MAX; state++)
		count += building->is_state_used[state];
	if (!FGT_ARRAY_NEW(slice->states, count))
		return -ENOMEM;
	for (uint32_t state = 0; state <= FGT_STATE_MAX; state++)
		if (building->is_state_used[state])
			slice->states[slice->state_count++].state = state;
	return 0;
}

int fgt_cut_build(struct fgt_cut *cut, struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int (*const steps[])(struct building *) = {
		build_times, build_paces,  build_process, build_threads,
		build_runs,  build_states, build_edges,	  build_wakes,
	};
	struct building building = { .cut = cut };
	int error;

	error = fgt_slice_new(&slice);
	if (error)
		return error;
	building.slice = slice;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		error = steps[i](&building);
		if (error)
			return error;
	}
	*ret_slice = FGT_TAKE(slice);
	return 0;
}
