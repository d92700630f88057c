/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of ticks, cut into segments of about a second that go one by one
 * when they are too old or when room is needed.
 * Runs in the writer's thread; must store the new tail before it lets go of
 * anything that a reader of the old one may be looking at.
 */
#include "ringbuf/ring/writer.h"

#include <string.h>

#define SECOND_NS 1000000000u

static uint64_t tail_seq(const struct fgt_writer *writer)
{
	return fgt_region_load(&writer->region.header->tail_seq);
}

static struct fgt_region_segment *segment_at(struct fgt_writer *writer,
					     uint64_t seq)
{
	return fgt_region_segment_at(&writer->region, seq);
}

static void update_gauges(struct fgt_writer *writer)
{
	struct fgt_region_header *header = writer->region.header;
	uint64_t used = 0;

	if (tail_seq(writer) <= writer->segment_seq)
		used = writer->log_end -
		       fgt_region_load(&segment_at(writer, tail_seq(writer))
						->log_start);
	fgt_region_store(&header->log_used_words, used);
	fgt_region_store(&header->nodes, writer->nodes.used);
	fgt_region_store(&header->frames, writer->frames.used);
	fgt_region_store(&header->images, writer->images.used);
	fgt_region_store(&header->threads, writer->slots.used);
}

bool fgt_log_is_segment_due(const struct fgt_writer *writer)
{
	const struct fgt_region *region = &writer->region;
	const struct fgt_region_shape *shape = &region->shape;
	const struct fgt_region_segment *segment =
		fgt_region_segment_at(region, writer->segment_seq);
	const struct fgt_writer_level *made = &writer->made;

	if (!writer->segment_seq)
		return true;
	if (writer->now_ns - fgt_region_load(&segment->first_ns) >= SECOND_NS)
		return true;
	return made->log_words >= shape->log_words / FGT_WRITER_SHARE ||
	       made->nodes >= shape->nodes / FGT_WRITER_SHARE ||
	       made->frames >= shape->frames / FGT_WRITER_SHARE ||
	       made->images >= shape->images / FGT_WRITER_SHARE ||
	       made->threads > shape->threads / FGT_WRITER_SHARE;
}

/* The references of a record. */
static void drop_word(struct fgt_writer *writer, uint64_t word)
{
	switch (fgt_word_kind(word)) {
	case FGT_WORD_CHANGE:
		fgt_intern_drop_node(writer, fgt_word_high(word));
		fgt_ring_drop_slot(writer, fgt_word_slot(word));
		break;
	case FGT_WORD_WAIT:
		fgt_ring_drop_wait(writer, fgt_word_high(word) + 1);
		break;
	case FGT_WORD_WAKE:
		fgt_ring_drop_waker(writer, fgt_word_high(word));
		break;
	default:
		break;
	}
}

/* Takes the oldest segment out of the ring and drops what it held. */
static void evict(struct fgt_writer *writer)
{
	struct fgt_region *region = &writer->region;
	uint64_t seq = tail_seq(writer);
	struct fgt_region_segment *segment = segment_at(writer, seq);
	uint64_t at = fgt_region_load(&segment->log_start);
	uint64_t len = fgt_region_load(&segment->len_words);

	/* Release: pairs with the load of tail_seq after each copy in cut.c;
	 * everything below may be overwritten from here on. */
	fgt_region_store(&region->header->tail_seq, seq + 1);
	at %= region->shape.log_words;
	for (; len; len--) {
		drop_word(writer, fgt_region_load(&region->log[at]));
		if (++at == region->shape.log_words)
			at = 0;
	}
}

/*
 * The segment being written and the one before it stay, so that the last ticks
 * can always be cut.
 */
bool fgt_log_evict_oldest(struct fgt_writer *writer)
{
	uint64_t seq = tail_seq(writer), ticks;
	uint64_t current = writer->segment_seq + writer->opens_segment;

	if (seq + 1 >= current)
		return false;
	ticks = fgt_region_load(&segment_at(writer, seq)->tick_count);
	fgt_region_add(&writer->region.header->dropped_ticks, ticks);
	evict(writer);
	return true;
}

void fgt_log_evict_aged(struct fgt_writer *writer)
{
	const struct fgt_region *region = &writer->region;
	uint64_t kept_ns = (uint64_t)region->shape.seconds * SECOND_NS;
	uint64_t window = fgt_region_window(region);

	while (tail_seq(writer) < writer->segment_seq) {
		struct fgt_region_segment *next =
			segment_at(writer, tail_seq(writer) + 1);

		/* Nothing that can be cut begins before next. */
		if (fgt_region_load(&next->first_ns) + kept_ns >=
			    writer->last_ns &&
		    fgt_region_load(&next->first_tick) + window >
			    writer->tick_count)
			break;
		evict(writer);
	}
	update_gauges(writer);
}

/*
 * Always enough: a tick takes at most 3 + 8 × threads words, a key frame 2 ×
 * threads more, and threads are at most 1/64 of the log's words. Each of the
 * two segments that cannot go has one tick of key frame, 1/16 of the log, and
 * one tick more: together 44/64, and 10/64 for the tick that is to come.
 */
void fgt_log_make_room(struct fgt_writer *writer, uint64_t words)
{
	uint64_t start;

	if (!writer->segment_seq)
		return;
	do {
		start = fgt_region_load(
			&segment_at(writer, tail_seq(writer))->log_start);
	} while (writer->log_end - start + words >
			 writer->region.shape.log_words &&
		 fgt_log_evict_oldest(writer));
}

void fgt_log_open_segment(struct fgt_writer *writer)
{
	const struct fgt_region *region = &writer->region;
	struct fgt_region_segment *segment;
	uint64_t seq = writer->segment_seq + 1;

	/* Its place in the directory is free once seq - segments is gone. */
	while (seq - tail_seq(writer) >= region->shape.segments)
		if (!fgt_log_evict_oldest(writer))
			break;
	writer->segment_seq = seq;
	segment = segment_at(writer, seq);
	fgt_region_store(&segment->len_words, 0);
	fgt_region_store(&segment->tick_count, 0);
	fgt_region_store(&segment->log_start, writer->log_end);
	fgt_region_store(&segment->first_tick, writer->tick_count);
	fgt_region_store(&segment->reach_tick, writer->tick_count);
	fgt_region_store(&segment->first_ns, writer->now_ns);
	fgt_region_store(&segment->wall_ns, writer->wall_ns);
}

void fgt_log_append(struct fgt_writer *writer, uint64_t word)
{
	const struct fgt_region *region = &writer->region;

	fgt_region_store(
		&region->log[writer->log_end++ % region->shape.log_words],
		word);
	writer->made.log_words++;
}

void fgt_log_append_change(struct fgt_writer *writer, uint32_t slot,
			   uint32_t state, uint32_t node, uint32_t wait)
{
	/* The records' own references, dropped by evict(). */
	fgt_ring_hold_wait(writer, wait);
	if (wait)
		fgt_log_append(writer,
			       fgt_word_of(FGT_WORD_WAIT, slot, wait - 1));
	fgt_intern_hold_node(writer, node);
	writer->slots.refs[slot]++;
	fgt_log_append(writer, fgt_word_of_change(slot, state, node));
}

void fgt_log_publish(struct fgt_writer *writer)
{
	struct fgt_region_header *header = writer->region.header;
	struct fgt_region_segment *segment =
		segment_at(writer, writer->segment_seq);

	if (!writer->tick_count)
		fgt_region_store(&header->first_ns, writer->now_ns);
	writer->tick_count++;
	writer->last_ns = writer->now_ns;
	fgt_region_add(&segment->tick_count, 1);
	/* Release: pairs with the load of len_words in cut.c. */
	fgt_region_store(&segment->len_words,
			 writer->log_end -
				 fgt_region_load(&segment->log_start));
	/* Release: pairs with the load of head_seq in cut.c. */
	fgt_region_store(&header->head_seq, writer->segment_seq);
	fgt_region_store(&header->newest_ns, writer->now_ns);
	fgt_region_store(&header->ticks, writer->tick_count);
}
