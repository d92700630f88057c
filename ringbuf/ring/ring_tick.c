/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's part of the ring: threads, and ticks that hold what changed.
 * Runs in the sampler thread; must not do work for a thread that did not
 * change, except for the key frame once a second.
 */
#include "ringbuf/ring/writer.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/slice/pace.h"

/* CLOCK_MONOTONIC beyond 146 years is refused: sums cannot overflow. */
#define MONO_NS_MAX (FGT_WORD_VALUE_MAX)
/* What is too old goes, and what is left is counted, at the first ticks, with
 * each segment, and so often. */
#define AGING_TICKS 16u

/* ---- Threads ---------------------------------------------------------- */

struct fgt_writer_thread *fgt_ring_find_thread(struct fgt_writer *writer,
					       uint32_t slot)
{
	struct fgt_writer_thread *thread;

	if (slot >= writer->region.shape.threads)
		return NULL;
	thread = &writer->threads[slot];
	if (thread->phase != FGT_THREAD_ADDED &&
	    thread->phase != FGT_THREAD_LIVE)
		return NULL;
	return thread->is_ending ? NULL : thread;
}

static void note_change(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];

	if (thread->is_changing)
		return;
	thread->is_changing = true;
	writer->changing[writer->changing_count++] = slot;
}

static void store_name(struct fgt_writer *writer, uint32_t slot,
		       const char *name)
{
	struct fgt_region_thread *row = &writer->region.threads[slot];
	char text[FGT_THREAD_NAME_MAX] = { 0 };
	uint64_t words[FGT_REGION_NAME_WORDS], before[FGT_REGION_NAME_WORDS];

	memcpy(text, name, strnlen(name, sizeof(text) - 1));
	memcpy(words, text, sizeof(words));
	fgt_region_read_pair(&row->version, row->names, FGT_REGION_NAME_WORDS,
			     before);
	if (memcmp(words, before, sizeof(words)))
		fgt_region_write_pair(&row->version, row->names,
				      FGT_REGION_NAME_WORDS, words);
}

int fgt_ring_thread_add(struct fgt_ring *ring, int32_t tid, uint64_t start_time,
			const char *name, uint32_t *ret_slot)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_region_thread *row;
	uint32_t slot = fgt_id_table_take(&writer->slots);

	while (slot == FGT_ID_NONE && fgt_log_evict_oldest(writer))
		slot = fgt_id_table_take(&writer->slots);
	if (slot == FGT_ID_NONE)
		return -ENOSPC;
	row = &writer->region.threads[slot];
	fgt_region_store(&row->tid, (uint32_t)tid);
	fgt_region_store(&row->start_time, start_time);
	store_name(writer, slot, name);
	writer->threads[slot] = (struct fgt_writer_thread){
		.phase = FGT_THREAD_ADDED,
		.node = FGT_NODE_NONE,
		.next_node = FGT_NODE_NONE,
		.past_node = FGT_NODE_NONE,
		.state = FGT_STATE_UNKNOWN,
		.next_state = FGT_STATE_UNKNOWN,
	};
	note_change(writer, slot);
	writer->made.threads++;
	*ret_slot = slot;
	return 0;
}

void fgt_ring_thread_rename(struct fgt_ring *ring, uint32_t slot,
			    const char *name)
{
	if (fgt_ring_find_thread(&ring->writer, slot))
		store_name(&ring->writer, slot, name);
}

int fgt_ring_thread_put_off(struct fgt_ring *ring, uint32_t slot)
{
	struct fgt_writer_thread *thread =
		fgt_ring_find_thread(&ring->writer, slot);

	if (!thread || thread->phase != FGT_THREAD_ADDED)
		return -EINVAL;
	thread->is_put_off = true;
	return 0;
}

int fgt_ring_thread_end(struct fgt_ring *ring, uint32_t slot)
{
	struct fgt_writer_thread *thread =
		fgt_ring_find_thread(&ring->writer, slot);

	if (!thread)
		return -EINVAL;
	thread->is_ending = true;
	note_change(&ring->writer, slot);
	return 0;
}

void fgt_ring_drop_slot(struct fgt_writer *writer, uint32_t slot)
{
	if (--writer->slots.refs[slot])
		return;
	writer->threads[slot].phase = FGT_THREAD_FREE;
	fgt_id_table_give(&writer->slots, slot);
}

/* ---- A tick ----------------------------------------------------------- */

void fgt_ring_set_pace(struct fgt_ring *ring, uint32_t periods)
{
	if (periods < 1)
		periods = 1;
	ring->writer.periods = periods < FGT_PACE_MAX ? periods : FGT_PACE_MAX;
}

void fgt_ring_tick_begin(struct fgt_ring *ring, uint64_t mono_ns,
			 uint64_t wall_ns, uint64_t missed)
{
	struct fgt_writer *writer = &ring->writer;

	if (mono_ns > MONO_NS_MAX)
		mono_ns = MONO_NS_MAX;
	if (writer->tick_count && mono_ns <= writer->last_ns)
		mono_ns = writer->last_ns + 1;
	writer->now_ns = mono_ns;
	writer->wall_ns = wall_ns;
	writer->missed_ticks += missed;
	writer->is_tick_open = true;
	if (writer->opens_segment || !fgt_log_is_segment_due(writer))
		return;
	writer->opens_segment = true;
	writer->made = (struct fgt_writer_level){ 0 };
}

/* Takes over the reference on node. */
static void set_next(struct fgt_writer *writer, uint32_t slot, uint32_t node,
		     uint32_t state, uint32_t credit_ticks)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];

	fgt_intern_drop_node(writer, thread->next_node);
	thread->next_node = node;
	thread->next_state = (uint16_t)state;
	thread->credit_ticks = credit_ticks < UINT16_MAX ? credit_ticks
							 : UINT16_MAX;
	thread->is_put_off = false;
	if (!thread->is_changing)
		note_change(writer, slot);
}

int fgt_ring_set(struct fgt_ring *ring, uint32_t slot,
		 const struct fgt_frame *frames, size_t count, uint32_t state,
		 uint32_t credit_ticks)
{
	struct fgt_writer *writer = &ring->writer;
	uint32_t node;
	int error;

	if (!fgt_ring_find_thread(writer, slot) || state > FGT_STATE_MAX)
		return -EINVAL;
	error = fgt_intern_stack(writer, frames, count, &node);
	if (error)
		return error;
	set_next(writer, slot, node, state, credit_ticks);
	return 0;
}

int fgt_ring_set_state(struct fgt_ring *ring, uint32_t slot, uint32_t state,
		       uint32_t marker, uint32_t credit_ticks)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_writer_thread *thread = fgt_ring_find_thread(writer, slot);
	uint32_t node;

	if (!thread || state > FGT_STATE_MAX || marker >= FGT_MARKER_COUNT)
		return -EINVAL;
	node = thread->node;
	if (marker)
		node = fgt_intern_marker(writer, node, marker);
	else
		fgt_intern_hold_node(writer, node);
	set_next(writer, slot, node, state, credit_ticks);
	return 0;
}

void fgt_ring_touch(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];

	if (thread->is_changing)
		return;
	fgt_intern_hold_node(writer, thread->node);
	set_next(writer, slot, thread->node, thread->state, 0);
}

int fgt_ring_set_past(struct fgt_ring *ring, uint32_t slot,
		      const struct fgt_frame *frames, size_t count,
		      uint32_t state, uint32_t ticks)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_writer_thread *thread = fgt_ring_find_thread(writer, slot);
	uint32_t node;
	int error;

	if (!thread || state > FGT_STATE_MAX || !ticks)
		return -EINVAL;
	node = thread->node;
	error = frames ? fgt_intern_stack(writer, frames, count, &node) : 0;
	if (error)
		return error;
	if (!frames)
		fgt_intern_hold_node(writer, node);
	fgt_ring_touch(writer, slot);
	fgt_intern_drop_node(writer, thread->past_node);
	thread->past_node = node;
	thread->past_state = (uint16_t)state;
	thread->past_ticks = ticks < UINT8_MAX ? ticks : UINT8_MAX;
	return 0;
}

/* ---- Commit ----------------------------------------------------------- */

static void append_credit(struct fgt_writer *writer, uint32_t slot,
			  uint32_t ticks)
{
	struct fgt_region_segment *segment =
		fgt_region_segment_at(&writer->region, writer->segment_seq);
	uint64_t first, reach = fgt_region_load(&segment->reach_tick);

	if (!ticks)
		return;
	first = writer->tick_count - ticks;
	/* Published with len_words. */
	if (first < reach)
		fgt_region_store(&segment->reach_tick, first);
	fgt_log_append(writer, fgt_word_of(FGT_WORD_CREDIT, slot, ticks));
}

static uint64_t moved_ns(const struct fgt_writer *writer, uint32_t credit_ticks)
{
	uint64_t past_ns = 0;

	if (credit_ticks)
		past_ns = fgt_region_period_ns(&writer->region) *
			  writer->periods * credit_ticks;
	return past_ns < writer->now_ns ? writer->now_ns - past_ns
					: writer->now_ns;
}

/* Takes over the references on node and wait. */
static void append_change(struct fgt_writer *writer, uint32_t slot,
			  uint32_t node, uint32_t state, uint32_t wait,
			  uint32_t credit_ticks)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];

	if (credit_ticks > writer->tick_count - thread->first_tick)
		credit_ticks =
			(uint32_t)(writer->tick_count - thread->first_tick);
	append_credit(writer, slot, credit_ticks);
	/* Another reason alone is no move. */
	if (thread->node != node || thread->state != state)
		fgt_ring_note_move(writer, slot,
				   moved_ns(writer, credit_ticks));
	fgt_log_append_change(writer, slot, state, node, wait);
	fgt_intern_drop_node(writer, thread->node);
	fgt_ring_drop_wait(writer, thread->wait);
	thread->node = node;
	thread->wait = wait;
	thread->state = (uint16_t)state;
	thread->is_logged = true;
	fgt_region_add(&writer->region.header->changes, 1);
}

/* CREDIT and CHANGE; the change that follows takes this tick from it. */
static void commit_past(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	bool has_past = thread->past_ticks &&
			thread->phase == FGT_THREAD_LIVE &&
			(thread->node != thread->past_node ||
			 thread->state != thread->past_state);

	if (has_past)
		append_change(writer, slot, thread->past_node,
			      thread->past_state, 0, thread->past_ticks);
	else
		fgt_intern_drop_node(writer, thread->past_node);
	thread->past_node = FGT_NODE_NONE;
	thread->past_ticks = 0;
}

static void commit_end(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	uint32_t last;

	commit_past(writer, slot);
	fgt_intern_drop_node(writer, thread->node);
	fgt_intern_drop_node(writer, thread->next_node);
	fgt_ring_drop_wait(writer, thread->wait);
	fgt_ring_drop_wait(writer, thread->next_wait);
	if (thread->phase == FGT_THREAD_LIVE) {
		fgt_log_append_change(writer, slot, FGT_STATE_GONE,
				      FGT_NODE_NONE, 0);
		last = writer->live[--writer->live_count];
		writer->live[thread->live_index] = last;
		writer->threads[last].live_index = thread->live_index;
	}
	*thread = (struct fgt_writer_thread){ .phase = FGT_THREAD_ENDED };
	fgt_ring_drop_slot(writer, slot);
}

static void commit_change(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	bool is_new = thread->phase == FGT_THREAD_ADDED, is_same;
	uint32_t wait = 0;

	if (thread->edge_count)
		fgt_ring_append_edges(writer, slot);
	commit_past(writer, slot);
	if (is_new) {
		thread->phase = FGT_THREAD_LIVE;
		thread->first_tick = writer->tick_count;
		fgt_ring_note_move(writer, slot, writer->now_ns);
		thread->live_index = writer->live_count;
		writer->live[writer->live_count++] = slot;
	}
	is_same = !is_new && thread->node == thread->next_node &&
		  thread->state == thread->next_state;
	if (thread->wait || thread->has_next_wait)
		wait = fgt_ring_take_next_wait(writer, slot, is_same);
	if (is_same && wait == thread->wait) {
		/* One of each two equal references is enough. */
		fgt_intern_drop_node(writer, thread->next_node);
		fgt_ring_drop_wait(writer, wait);
	} else {
		append_change(writer, slot, thread->next_node,
			      thread->next_state, wait, thread->credit_ticks);
	}
	thread->next_node = FGT_NODE_NONE;
	/* Whatever was credited to earlier ticks. */
	if (thread->has_moved)
		fgt_ring_note_move(writer, slot, writer->now_ns);
	thread->has_moved = false;
}

/* Edges and reason are of this tick. */
static void forget_tick(struct fgt_writer *writer, uint32_t slot)
{
	writer->threads[slot].edge_count = 0;
	writer->threads[slot].has_moved = false;
	fgt_ring_drop_wait(writer,
			   fgt_ring_take_next_wait(writer, slot, false));
}

static void commit_changes(struct fgt_writer *writer)
{
	for (uint32_t i = 0; i < writer->changing_count; i++) {
		uint32_t slot = writer->changing[i];
		struct fgt_writer_thread *thread = &writer->threads[slot];

		thread->is_changing = false;
		if (thread->is_ending)
			commit_end(writer, slot);
		else if (thread->is_put_off)
			forget_tick(writer, slot);
		else
			commit_change(writer, slot);
	}
}

/* Key frame: what the live threads do that did not change just now. */
static void append_key_frame(struct fgt_writer *writer)
{
	uint64_t changed_words = writer->made.log_words;

	for (uint32_t i = 0; i < writer->live_count; i++) {
		uint32_t slot = writer->live[i];
		const struct fgt_writer_thread *thread = &writer->threads[slot];

		if (!thread->is_logged)
			fgt_log_append_change(writer, slot, thread->state,
					      thread->node, thread->wait);
	}
	/* Its size must not make the next one come sooner. */
	writer->made.log_words = changed_words;
}

static void append_missed(struct fgt_writer *writer)
{
	uint64_t missed = writer->missed_ticks;

	if (!missed)
		return;
	fgt_log_append(writer, fgt_word_of_count(FGT_WORD_MISSED, missed));
	fgt_region_add(&writer->region.header->missed_ticks, missed);
	writer->missed_ticks = 0;
}

void fgt_ring_tick_commit(struct fgt_ring *ring)
{
	struct fgt_writer *writer = &ring->writer;
	uint64_t words = 3 + 5 * (uint64_t)writer->changing_count +
			 writer->edge_word_count + writer->wake_word_count;
	uint64_t delta_ns = writer->now_ns - writer->last_ns;
	bool is_aging_due = writer->opens_segment ||
			    writer->tick_count < AGING_TICKS ||
			    writer->tick_count % AGING_TICKS == 0;

	if (!writer->is_tick_open)
		return;
	if (writer->opens_segment)
		words += 2 * (uint64_t)writer->live_count;
	fgt_log_make_room(writer, words);
	if (writer->opens_segment) {
		fgt_log_open_segment(writer);
		delta_ns = 0;
	}
	fgt_log_append(writer, fgt_word_of_tick(delta_ns, writer->periods));
	append_missed(writer);
	commit_changes(writer);
	if (writer->wake_word_count || writer->lost_wakes)
		fgt_ring_commit_wakes(writer);
	if (writer->opens_segment)
		append_key_frame(writer);
	for (uint32_t i = 0; i < writer->changing_count; i++)
		writer->threads[writer->changing[i]].is_logged = false;
	writer->changing_count = 0;
	writer->edge_word_count = 0;
	writer->opens_segment = false;
	writer->is_tick_open = false;
	fgt_log_publish(writer);
	if (is_aging_due)
		fgt_log_evict_aged(writer);
}
