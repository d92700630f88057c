/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks every invariant of a slice without trusting any of it, so that
 * encoders can index and divide without looking.
 * Runs in any thread; must not read past a count that it has not compared.
 */
#include "ringbuf/slice/slice.h"

#include "ringbuf/slice/edge.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/slice_layout.h"
#include "ringbuf/slice/spans.h"

#include <math.h>
#include <string.h>

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static bool is_service_valid(const struct fgt_service *service)
{
	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		if (!is_terminated(fgt_service_text_of(service, i),
				   FGT_SERVICE_TEXT_MAX))
			return false;
	return true;
}

static bool is_process_valid(const struct fgt_process_info *process)
{
	return is_terminated(process->name, sizeof(process->name)) &&
	       is_terminated(process->exe, sizeof(process->exe)) &&
	       is_terminated(process->host, sizeof(process->host)) &&
	       is_terminated(process->arch, sizeof(process->arch)) &&
	       is_terminated(process->os_release,
			     sizeof(process->os_release)) &&
	       is_terminated(process->title, sizeof(process->title)) &&
	       is_service_valid(&process->service);
}

static bool are_pointers_set(const struct fgt_ring_slice *slice)
{
	for (size_t i = 0; i < FGT_TABLE_COUNT; i++)
		if (!fgt_table_records(&fgt_slice_tables[i], slice) &&
		    fgt_table_count(&fgt_slice_tables[i], slice))
			return false;
	return slice->anchors && slice->tick_ns &&
	       (slice->images || !slice->image_count);
}

static bool are_strings_valid(const struct fgt_strings *strings)
{
	if (!strings->count || !strings->bytes || !strings->offsets ||
	    !strings->len_bytes ||
	    strings->bytes[strings->len_bytes - 1] != '\0')
		return false;
	for (uint32_t i = 0; i < strings->count; i++)
		if (strings->offsets[i] >= strings->len_bytes)
			return false;
	return strings->bytes[strings->offsets[0]] == '\0';
}

static bool are_times_valid(const struct fgt_ring_slice *slice)
{
	if (!slice->tick_count || !slice->anchor_count || !slice->period_ns ||
	    !isfinite(slice->effective_hz) || slice->effective_hz < 0 ||
	    slice->requested_from_ns > slice->requested_to_ns)
		return false;
	for (uint32_t i = 1; i < slice->tick_count; i++)
		if (slice->tick_ns[i] <= slice->tick_ns[i - 1])
			return false;
	for (uint32_t i = 1; i < slice->anchor_count; i++)
		if (slice->anchors[i].mono_ns < slice->anchors[i - 1].mono_ns)
			return false;
	for (uint32_t i = 1; i < slice->pressure_count; i++)
		if (slice->pressures[i].mono_ns <=
		    slice->pressures[i - 1].mono_ns)
			return false;
	return true;
}

static bool are_paces_valid(const struct fgt_ring_slice *slice)
{
	uint64_t periods = 0;
	uint32_t tick = 0, each = 1;

	for (uint32_t i = 0; i < slice->pace_count; i++) {
		const struct fgt_pace *pace = &slice->paces[i];

		if (pace->first_tick >= slice->tick_count ||
		    (i && pace->first_tick <= tick) || !pace->periods ||
		    pace->periods > FGT_PACE_MAX)
			return false;
		periods += (uint64_t)(pace->first_tick - tick) * each;
		if (pace->periods_before != periods)
			return false;
		tick = pace->first_tick;
		each = pace->periods;
	}
	return true;
}

static bool are_threads_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->thread_count; i++) {
		const struct fgt_slice_thread *thread = &slice->threads[i];
		const struct fgt_slice_thread *last = thread - 1;

		if (thread->name >= slice->strings.count)
			return false;
		if (i && (thread->tid < last->tid ||
			  (thread->tid == last->tid &&
			   thread->start_time < last->start_time)))
			return false;
	}
	return true;
}

static bool are_symbols_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->symbol_count; i++) {
		const struct fgt_symbol *symbol = &slice->symbols[i];

		if (symbol->function >= slice->strings.count ||
		    symbol->file >= slice->strings.count ||
		    symbol->reason > FGT_SYMBOL_NO_MAP)
			return false;
	}
	return true;
}

static bool are_frames_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->image_count; i++)
		if (slice->images[i].path >= slice->strings.count ||
		    slice->images[i].build_id_len > FGT_BUILD_ID_MAX)
			return false;
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		const struct fgt_slice_frame *frame = &slice->frames[i];

		if (frame->frame.image > slice->image_count ||
		    frame->symbol_first > slice->symbol_count ||
		    frame->symbol_count > FGT_SYMBOLS_PER_FRAME_MAX ||
		    frame->symbol_count >
			    slice->symbol_count - frame->symbol_first)
			return false;
	}
	return true;
}

static bool are_nodes_valid(const struct fgt_ring_slice *slice)
{
	FGT_AUTO(free) void *memory = NULL;
	uint16_t *depths;

	if (!slice->node_count)
		return true;
	memory = reallocarray(NULL, slice->node_count, sizeof(*depths));
	depths = memory;
	if (!depths)
		return false;
	for (uint32_t i = 0; i < slice->node_count; i++) {
		const struct fgt_slice_node *node = &slice->nodes[i];

		if (node->frame >= slice->frame_count)
			return false;
		depths[i] = 1;
		if (node->parent == FGT_NODE_NONE)
			continue;
		if (node->parent >= i ||
		    depths[node->parent] >= FGT_SLICE_DEPTH_MAX)
			return false;
		depths[i] = (uint16_t)(depths[node->parent] + 1);
	}
	return true;
}

static bool are_states_valid(const struct fgt_ring_slice *slice,
			     bool *ret_known)
{
	for (uint32_t i = 0; i < slice->state_count; i++) {
		const struct fgt_slice_state *state = &slice->states[i];

		if (state->state > FGT_STATE_MAX ||
		    state->name >= slice->strings.count ||
		    (i && state->state <= slice->states[i - 1].state))
			return false;
		ret_known[state->state] = true;
	}
	return true;
}

static bool are_runs_valid(const struct fgt_ring_slice *slice)
{
	bool is_known[FGT_STATE_MAX + 1] = { false };

	if (!are_states_valid(slice, is_known))
		return false;
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		const struct fgt_run *last = run - 1;

		if (run->thread >= slice->thread_count || !run->tick_count ||
		    run->first_tick >= slice->tick_count ||
		    run->tick_count > slice->tick_count - run->first_tick ||
		    run->state > FGT_STATE_MAX || !is_known[run->state])
			return false;
		if (run->stack != FGT_NODE_NONE &&
		    run->stack >= slice->node_count)
			return false;
		if (!i || run->thread > last->thread)
			continue;
		/* The sum cannot overflow: the last run was checked. */
		if (run->thread < last->thread ||
		    run->first_tick < last->first_tick + last->tick_count)
			return false;
	}
	return true;
}

static bool are_notes_valid(const struct fgt_ring_slice *slice)
{
	if (slice->note_count > FGT_SLICE_NOTES_MAX)
		return false;
	for (uint32_t i = 0; i < slice->note_count; i++) {
		if (slice->notes[i].key >= slice->strings.count ||
		    slice->notes[i].value >= slice->strings.count)
			return false;
		for (uint32_t k = 0; k < i; k++)
			if (slice->notes[k].key == slice->notes[i].key)
				return false;
	}
	return true;
}

bool fgt_slice_is_valid(const struct fgt_ring_slice *slice)
{
	return slice && are_pointers_set(slice) &&
	       is_process_valid(&slice->process) &&
	       is_terminated(slice->ended_by, sizeof(slice->ended_by)) &&
	       are_strings_valid(&slice->strings) && are_times_valid(slice) &&
	       are_paces_valid(slice) && are_threads_valid(slice) &&
	       are_symbols_valid(slice) && are_frames_valid(slice) &&
	       are_nodes_valid(slice) && are_runs_valid(slice) &&
	       fgt_edges_are_valid(slice) && fgt_waits_are_valid(slice) &&
	       fgt_spans_are_valid(slice) && are_notes_valid(slice) &&
	       fgt_processes_are_valid(slice);
}
