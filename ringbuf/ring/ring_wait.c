/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's part of the ring that is about waits: the reasons of blocked
 * threads, and wake-ups. Both refer to entries that are kept once and counted
 * as nodes are: the log's records and the threads hold them. Runs in the
 * sampler thread; must not drop ticks to make room for either.
 */
#include "ringbuf/ring/writer.h"

#include <errno.h>
#include <string.h>

#define SECOND_NS 1000000000u

_Static_assert(sizeof(struct fgt_wait) % 8 == 0, "whole words");
_Static_assert(sizeof(struct fgt_region_waker_row) % 8 == 0, "whole words");

/* The entry's number with one reference, or FGT_ID_NONE if there is no room. */
static uint32_t hold_row(struct fgt_id_table *table, fgt_word *rows,
			 const uint64_t *words, size_t count, bool *ret_is_new)
{
	uint64_t hash = fgt_intern_hash_words(words, count);
	uint32_t id = fgt_intern_find(table, rows, words, count, hash);

	*ret_is_new = id == FGT_ID_NONE;
	if (!*ret_is_new) {
		table->refs[id]++;
		return id;
	}
	id = fgt_id_table_take(table);
	if (id == FGT_ID_NONE)
		return id;
	for (size_t i = 0; i < count; i++)
		fgt_region_store(&rows[id * count + i], words[i]);
	fgt_id_table_link(table, id, hash);
	return id;
}

static void lose_wakes(struct fgt_writer *writer, uint64_t count)
{
	writer->lost_wakes += count;
	fgt_region_add(&writer->region.header->lost_wakes, count);
}

/* ---- Reasons ---------------------------------------------------------- */

void fgt_ring_free_wait(struct fgt_writer *writer, uint32_t wait)
{
	fgt_id_table_unlink(
		&writer->waits, wait - 1,
		fgt_intern_hash_wait(writer->region.waits, wait - 1));
	fgt_id_table_give(&writer->waits, wait - 1);
}

/* Equal waits have equal words: nothing lies behind the end of the text. */
static void pack_wait(const struct fgt_wait *wait, uint64_t *ret_words)
{
	struct fgt_wait clean;

	memset(&clean, 0, sizeof(clean));
	clean.kind = wait->kind;
	clean.owner_tid = wait->owner_tid;
	clean.address = wait->address;
	clean.timeout_ns = wait->timeout_ns;
	clean.number = wait->number;
	memcpy(clean.text, wait->text,
	       strnlen(wait->text, sizeof(clean.text) - 1));
	memcpy(ret_words, &clean, sizeof(clean));
}

int fgt_ring_set_wait(struct fgt_ring *ring, uint32_t slot,
		      const struct fgt_wait *wait)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_writer_thread *thread = fgt_ring_find_thread(writer, slot);
	uint64_t words[FGT_REGION_WAIT_WORDS];
	uint32_t id;
	bool is_new;

	if (!thread || wait->kind >= FGT_WAIT_KINDS)
		return -EINVAL;
	fgt_ring_touch(writer, slot);
	pack_wait(wait, words);
	id = hold_row(&writer->waits, writer->region.waits->words, words,
		      FGT_REGION_WAIT_WORDS, &is_new);
	if (id == FGT_ID_NONE)
		fgt_region_add(&writer->region.header->lost_waits, 1);
	fgt_ring_drop_wait(writer, thread->next_wait);
	thread->next_wait = id == FGT_ID_NONE ? 0 : id + 1;
	thread->has_next_wait = true;
	return 0;
}

uint32_t fgt_ring_take_next_wait(struct fgt_writer *writer, uint32_t slot,
				 bool is_same)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	uint32_t wait = thread->next_wait;

	if (!thread->has_next_wait && is_same) {
		wait = thread->wait;
		fgt_ring_hold_wait(writer, wait);
	}
	thread->next_wait = 0;
	thread->has_next_wait = false;
	if (fgt_state_is_blocked(thread->next_state))
		return wait;
	fgt_ring_drop_wait(writer, wait);
	return 0;
}

/* ---- Wake-ups --------------------------------------------------------- */

static uint32_t node_of(const struct fgt_writer *writer, uint32_t waker)
{
	const struct fgt_region_waker *known = &writer->region.wakers[waker];
	uint64_t words[FGT_REGION_WAKER_WORDS];
	struct fgt_region_waker_row row;

	for (size_t i = 0; i < FGT_REGION_WAKER_WORDS; i++)
		words[i] = fgt_region_load(&known->words[i]);
	memcpy(&row, words, sizeof(row));
	return row.node;
}

void fgt_ring_drop_waker(struct fgt_writer *writer, uint32_t waker)
{
	struct fgt_id_table *table = &writer->wakers;

	if (--table->refs[waker])
		return;
	fgt_intern_drop_node(writer, node_of(writer, waker));
	fgt_id_table_unlink(
		table, waker,
		fgt_intern_hash_waker(writer->region.wakers, waker));
	fgt_id_table_give(table, waker);
}

/* With one reference; FGT_ID_NONE if there is no room. -EINVAL for a frame of
 * an image that does not exist. */
static int hold_waker(struct fgt_writer *writer,
		      const struct fgt_wake_source *waker, uint32_t *ret_waker)
{
	struct fgt_region_waker_row row = { .pid = waker->pid,
					    .tid = waker->tid,
					    .context = waker->context };
	uint64_t words[FGT_REGION_WAKER_WORDS];
	bool is_new;
	int error;

	error = fgt_intern_stack(writer, waker->frames, waker->frame_count,
				 &row.node);
	if (error)
		return error;
	memcpy(row.name, waker->name,
	       strnlen(waker->name, sizeof(row.name) - 1));
	memcpy(words, &row, sizeof(row));
	*ret_waker = hold_row(&writer->wakers, writer->region.wakers->words,
			      words, FGT_REGION_WAKER_WORDS, &is_new);
	/* The entry holds its node once. */
	if (!is_new || *ret_waker == FGT_ID_NONE)
		fgt_intern_drop_node(writer, row.node);
	return 0;
}

/* Wake-ups may push out a part of the ticks only. */
static bool has_room(struct fgt_writer *writer)
{
	const struct fgt_region_shape *shape = &writer->region.shape;
	uint64_t share =
		shape->log_words / shape->seconds / FGT_WRITER_WAKE_SHARE;
	uint64_t words = writer->wake_word_count + FGT_WRITER_WAKE_WORDS;

	if (writer->now_ns - writer->wakes_since_ns >= SECOND_NS) {
		writer->wakes_since_ns = writer->now_ns;
		writer->wake_words_since = 0;
	}
	return words <= (uint64_t)shape->threads * FGT_WRITER_WAKE_WORDS &&
	       writer->wake_words_since + words <= share;
}

int fgt_ring_add_wake(struct fgt_ring *ring, uint32_t slot, uint64_t at_ns,
		      uint32_t delay_us, const struct fgt_wake_source *waker)
{
	struct fgt_writer *writer = &ring->writer;
	uint32_t waker_id = FGT_ID_NONE;
	uint64_t before_ns;
	int error = 0;

	if (!fgt_ring_find_thread(writer, slot) ||
	    waker->context >= FGT_WAKE_CONTEXTS)
		return -EINVAL;
	/* Clocks are read one after the other: it may be a little late. */
	before_ns = at_ns < writer->now_ns ? writer->now_ns - at_ns : 0;
	if (before_ns <= UINT32_MAX && has_room(writer))
		error = hold_waker(writer, waker, &waker_id);
	if (error)
		return error;
	if (waker_id == FGT_ID_NONE) {
		lose_wakes(writer, 1);
		return -ENOSPC;
	}
	writer->wake_words[writer->wake_word_count++] =
		fgt_word_of(FGT_WORD_WAKE, slot, waker_id);
	writer->wake_words[writer->wake_word_count++] =
		fgt_word_of_wake_time((uint32_t)before_ns, delay_us);
	return 0;
}

void fgt_ring_lose_wakes(struct fgt_ring *ring, uint64_t count)
{
	lose_wakes(&ring->writer, count);
}

/* A thread that was never in a tick has no record that holds its slot. */
static bool has_record(const struct fgt_writer *writer, uint32_t slot)
{
	return writer->threads[slot].phase == FGT_THREAD_LIVE ||
	       writer->threads[slot].phase == FGT_THREAD_ENDED;
}

/* Of a wake-up that comes late, when it was. */
static void note_woken(struct fgt_writer *writer, uint32_t slot,
		       uint64_t before_ns)
{
	uint64_t ns = writer->now_ns;

	if (before_ns >= ns - writer->last_ns)
		ns -= before_ns;
	if (fgt_region_load(&writer->region.threads[slot].moved_ns) < ns)
		fgt_ring_note_move(writer, slot, ns);
}

void fgt_ring_commit_wakes(struct fgt_writer *writer)
{
	for (uint32_t i = 0; i < writer->wake_word_count; i += 2) {
		uint64_t word = writer->wake_words[i];

		if (!has_record(writer, fgt_word_slot(word))) {
			fgt_ring_drop_waker(writer, fgt_word_high(word));
			continue;
		}
		/* The record's reference is the one that was held. */
		fgt_log_append(writer, word);
		fgt_log_append(writer, writer->wake_words[i + 1]);
		note_woken(writer, fgt_word_slot(word),
			   fgt_word_before_ns(writer->wake_words[i + 1]));
	}
	writer->wake_words_since += writer->wake_word_count;
	writer->wake_word_count = 0;
	if (!writer->lost_wakes)
		return;
	fgt_log_append(writer, fgt_word_of_count(FGT_WORD_LOST_WAKES,
						 writer->lost_wakes));
	writer->lost_wakes = 0;
}
