/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's part of the ring that is about edges: context switches between
 * two ticks. Runs in the sampler thread; must keep all edges of a thread's tick
 * or none.
 */
#include "ringbuf/slice/edge.h"

#include <errno.h>

#include "ringbuf/ring/writer.h"

/* From an instant to the tick that is open, rounded up. */
static uint32_t us_before(const struct fgt_writer *writer, uint64_t ns)
{
	uint64_t us;

	if (!ns || ns > writer->now_ns)
		return 0;
	us = (writer->now_ns - ns) / 1000 + 1;
	return us <= FGT_WORD_EDGE_US_MAX ? (uint32_t)us : 0;
}

/*
 * µs before the tick that is open. Edges within one µs are moved apart, for
 * their order is read from these. False: not all of them can be kept.
 */
static bool round_edges(const struct fgt_writer *writer,
			const struct fgt_edge_list *edges,
			uint32_t ret_us[FGT_EDGE_LIST_MAX])
{
	uint32_t later_us = 0;

	for (uint32_t i = edges->count; i-- > 0;) {
		uint32_t us = us_before(writer, edges->ns[i]);

		if (!us)
			return false;
		if (us <= later_us)
			us = later_us + 1;
		later_us = ret_us[i] = us;
	}
	return later_us <= FGT_WORD_EDGE_US_MAX;
}

int fgt_ring_set_edges(struct fgt_ring *ring, uint32_t slot,
		       const struct fgt_edge_list *edges)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_writer_thread *thread = fgt_ring_find_thread(writer, slot);
	uint32_t most = writer->region.shape.threads * FGT_WRITER_EDGE_WORDS;
	uint32_t us[FGT_EDGE_LIST_MAX + 1];

	if (!thread || edges->count > FGT_EDGE_LIST_MAX)
		return -EINVAL;
	if (writer->edge_word_count + (edges->count + 1) / 2 > most)
		return -ENOSPC;
	fgt_ring_touch(writer, slot);
	thread->edge_count = 0;
	if (!edges->count || !round_edges(writer, edges, us))
		return 0;
	/* Two edges to a word; 0: the last word has only one. */
	us[edges->count] = 0;
	thread->edge_word = writer->edge_word_count;
	thread->edge_count = (uint8_t)edges->count;
	thread->is_on_first = edges->is_on_first;
	for (uint32_t i = 0; i < edges->count; i += 2)
		writer->edge_words[writer->edge_word_count++] =
			edges->is_on_first
				? fgt_word_of_edge(slot, us[i], us[i + 1])
				: fgt_word_of_edge(slot, us[i + 1], us[i]);
	return 0;
}

int fgt_ring_set_moved(struct fgt_ring *ring, uint32_t slot)
{
	struct fgt_writer_thread *thread =
		fgt_ring_find_thread(&ring->writer, slot);

	if (!thread)
		return -EINVAL;
	fgt_ring_touch(&ring->writer, slot);
	thread->has_moved = true;
	return 0;
}

void fgt_ring_append_edges(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	uint32_t count = thread->edge_count;

	thread->edge_count = 0;
	if (!count ||
	    !fgt_edges_are_possible(thread->is_on_first, count, thread->state,
				    thread->next_state))
		return;
	fgt_ring_note_move(writer, slot, writer->now_ns);
	for (uint32_t i = 0; i < (count + 1) / 2; i++)
		fgt_log_append(writer,
			       writer->edge_words[thread->edge_word + i]);
}
