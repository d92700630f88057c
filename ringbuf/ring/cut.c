/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks the segments that a cut needs, copies them, and finds out which of them
 * the writer dropped during the copy. Runs in any reader; must not use a copy
 * before it has looked at tail_seq.
 */
#include "ringbuf/ring/cut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/ring/writer.h"

/* How often to cut again when the writer overtook all of it. */
#define CUT_TRIES 3

static void rows_done(struct fgt_cut_rows *rows)
{
	free(rows->index);
}

static void cut_done(struct fgt_cut *cut)
{
	free(cut->moved_ns);
	free(cut->segments);
	free(cut->words);
	free(cut->tick_ns);
	free(cut->paces);
	free(cut->tracks);
	free(cut->pieces);
	free(cut->edges);
	free(cut->threads);
	free(cut->nodes);
	free(cut->frames);
	free(cut->images);
	free(cut->waits);
	free(cut->wakers);
	free(cut->wakes);
	rows_done(&cut->thread_rows);
	rows_done(&cut->node_rows);
	rows_done(&cut->frame_rows);
	rows_done(&cut->image_rows);
	rows_done(&cut->wait_rows);
	rows_done(&cut->waker_rows);
}

/* ---- Moves ------------------------------------------------------------ */

/* Slots are taken in order at first: behind the last one are none. */
static int copy_moves(struct fgt_cut *cut)
{
	const struct fgt_region *region = cut->region;
	uint32_t slots = region->shape.threads, slot = 0;

	cut->moved_ns = reallocarray(NULL, slots, sizeof(*cut->moved_ns));
	if (!cut->moved_ns)
		return -ENOMEM;
	for (; slot < slots && fgt_region_load(&region->threads[slot].tid);
	     slot++)
		cut->moved_ns[slot] =
			fgt_region_load(&region->threads[slot].moved_ns);
	cut->moved_count = slot;
	return 0;
}

/* ---- Directory -------------------------------------------------------- */

static struct fgt_cut_segment load_segment(const struct fgt_region *region,
					   uint64_t seq)
{
	const struct fgt_region_segment *entry =
		fgt_region_segment_at(region, seq);
	struct fgt_cut_segment copy = { .seq = seq };

	/* Acquire, and first: pairs with the store of len_words in
	 * fgt_log_publish(); all that it covers is there to be read. */
	copy.len_words = fgt_region_load(&entry->len_words);
	copy.log_start = fgt_region_load(&entry->log_start);
	copy.first_tick = fgt_region_load(&entry->first_tick);
	copy.tick_count = fgt_region_load(&entry->tick_count);
	copy.first_ns = fgt_region_load(&entry->first_ns);
	copy.wall_ns = fgt_region_load(&entry->wall_ns);
	copy.reach_tick = fgt_region_load(&entry->reach_tick);
	return copy;
}

/* head is loaded before tail: a living writer's tail then fits to it. */
static int load_ends(const struct fgt_region *region, uint64_t *ret_tail,
		     uint64_t *ret_head)
{
	/* Acquire: pairs with the store of head_seq in fgt_log_publish(). */
	uint64_t head = fgt_region_load(&region->header->head_seq);
	uint64_t tail = fgt_region_load(&region->header->tail_seq);

	if (!head)
		return -ENODATA;
	if (tail > head)
		return -EAGAIN;
	if (!tail || head - tail >= region->shape.segments)
		return -EBADMSG;
	*ret_tail = tail;
	*ret_head = head;
	return 0;
}

static bool is_directory_sane(const struct fgt_cut *cut)
{
	uint64_t log_words = cut->region->shape.log_words;

	for (uint32_t i = cut->first_segment; i < cut->segment_count; i++) {
		const struct fgt_cut_segment *segment = &cut->segments[i];
		const struct fgt_cut_segment *last = segment - 1;

		if (segment->len_words > log_words || !segment->len_words ||
		    !segment->tick_count ||
		    segment->tick_count > FGT_WORD_VALUE_MAX ||
		    segment->first_tick > FGT_WORD_VALUE_MAX)
			return false;
		if (i > cut->first_segment &&
		    (segment->first_ns <= last->first_ns ||
		     segment->first_tick !=
			     last->first_tick + last->tick_count ||
		     segment->log_start != last->log_start + last->len_words))
			return false;
	}
	return true;
}

/* Ticks of a dropped segment that were wanted; those of next come after. */
static uint64_t count_wanted(const struct fgt_cut *cut,
			     const struct fgt_cut_segment *segment)
{
	uint64_t ticks = segment->tick_count, wanted;

	if (segment->first_tick < cut->oldest_tick)
		ticks -= cut->oldest_tick - segment->first_tick < ticks
				 ? cut->oldest_tick - segment->first_tick
				 : ticks;
	if (cut->from_ns <= segment->first_ns)
		return ticks;
	/* Their times are lost: an estimate of those younger than from_ns. */
	wanted = (cut->from_ns - segment->first_ns) /
		 fgt_region_period_ns(cut->region);
	return ticks > wanted ? ticks - wanted : 0;
}

/*
 * Reads how far the writer has come and forgets what it has dropped. Acquire:
 * pairs with the store of tail_seq in evict(). Whatever was copied before from
 * segments that remain, and for them from tables, is whole. -EAGAIN if nothing
 * remains.
 */
static int settle(struct fgt_cut *cut)
{
	uint64_t tail = fgt_region_load(&cut->region->header->tail_seq);

	while (cut->first_segment < cut->segment_count &&
	       cut->segments[cut->first_segment].seq < tail)
		cut->lapped_ticks +=
			count_wanted(cut, &cut->segments[cut->first_segment++]);
	return cut->first_segment < cut->segment_count ? 0 : -EAGAIN;
}

static int copy_directory(struct fgt_cut *cut)
{
	uint64_t tail, head;
	int error;

	error = load_ends(cut->region, &tail, &head);
	if (error)
		return error;
	cut->segments = calloc(head - tail + 1, sizeof(*cut->segments));
	if (!cut->segments)
		return -ENOMEM;
	for (uint64_t seq = tail; seq <= head; seq++)
		cut->segments[cut->segment_count++] =
			load_segment(cut->region, seq);
	error = settle(cut);
	cut->lapped_ticks = 0; /* nothing was asked of them yet */
	if (error)
		return error;
	return is_directory_sane(cut) ? 0 : -EBADMSG;
}

/* ---- What is wanted --------------------------------------------------- */

static uint64_t find_oldest_tick(const struct fgt_region *region,
				 const struct fgt_cut_segment *first,
				 uint64_t newest_tick)
{
	uint64_t window = fgt_region_window(region);

	if (newest_tick - first->first_tick < window)
		return first->first_tick;
	return newest_tick + 1 - window;
}

/* Keeps the segments that hold wanted ticks or credits that reach them. */
static int select_segments(struct fgt_cut *cut)
{
	struct fgt_cut_segment *segments = cut->segments;
	uint32_t first = cut->first_segment, count = cut->segment_count;
	const struct fgt_cut_segment *newest = &segments[count - 1];
	uint32_t last, end;

	cut->oldest_tick =
		find_oldest_tick(cut->region, &segments[first],
				 newest->first_tick + newest->tick_count - 1);
	while (first + 1 < count &&
	       (segments[first + 1].first_tick <= cut->oldest_tick ||
		segments[first + 1].first_ns <= cut->from_ns))
		first++;
	if (segments[first].first_ns > cut->to_ns)
		return -ENODATA;
	last = first;
	while (last + 1 < count && segments[last + 1].first_ns <= cut->to_ns)
		last++;
	end = last + 1;
	for (uint32_t i = count - 1; i > last; i--) {
		if (segments[i].reach_tick >= segments[last + 1].first_tick)
			continue;
		end = i + 1;
		break;
	}
	cut->first_segment = first;
	cut->segment_count = end;
	cut->words_segment = first;
	return 0;
}

static int copy_words(struct fgt_cut *cut)
{
	const struct fgt_region *region = cut->region;
	const struct fgt_cut_segment *first =
		&cut->segments[cut->first_segment];
	const struct fgt_cut_segment *last =
		&cut->segments[cut->segment_count - 1];
	uint64_t len = last->log_start + last->len_words - first->log_start;
	uint64_t at = first->log_start % region->shape.log_words;

	if (len > region->shape.log_words)
		return -EBADMSG;
	cut->words = reallocarray(NULL, len, sizeof(*cut->words));
	if (!cut->words)
		return -ENOMEM;
	for (uint64_t i = 0; i < len; i++) {
		cut->words[i] = fgt_region_load(&region->log[at]);
		if (++at == region->shape.log_words)
			at = 0;
	}
	return 0;
}

/* ---- Cut -------------------------------------------------------------- */

static int replay_and_check(struct fgt_cut *cut)
{
	int error = fgt_cut_replay(cut);

	if (error)
		return error;
	if (cut->kept_count >= 2)
		return 0;
	return cut->lapped_ticks ? -EAGAIN : -ENODATA;
}

static int cut_once(struct fgt_cut *cut, struct fgt_ring_slice **ret_slice)
{
	int (*const copies[])(struct fgt_cut *) = {
		copy_moves, copy_directory,   select_segments, copy_words,
		settle,	    replay_and_check, fgt_cut_collect,
	};
	uint32_t first;
	int error;

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		error = copies[i](cut);
		if (error)
			return error;
	}
	first = cut->first_segment;
	error = settle(cut);
	/* Overtaken while collecting: the older copies may be torn, those
	 * that the remaining segments need are whole. */
	if (!error && first != cut->first_segment)
		error = replay_and_check(cut);
	if (error)
		return error;
	return fgt_cut_build(cut, ret_slice);
}

int fgt_ring_cut(const struct fgt_ring *ring, uint64_t from_ns, uint64_t to_ns,
		 struct fgt_ring_slice **ret_slice)
{
	int error = -EAGAIN;

	if (from_ns > to_ns)
		return -EINVAL;
	for (int i = 0; i < CUT_TRIES && error == -EAGAIN; i++) {
		struct fgt_cut cut = {
			.region = &ring->writer.region,
			.from_ns = from_ns,
			.to_ns = to_ns,
		};

		error = cut_once(&cut, ret_slice);
		cut_done(&cut);
	}
	return error;
}

/* ---- Range ------------------------------------------------------------ */

/* Time of a tick of a segment; 0 if it is not in its words. */
static uint64_t find_tick_ns(const struct fgt_region *region,
			     const struct fgt_cut_segment *segment,
			     uint64_t tick)
{
	uint64_t at = segment->log_start % region->shape.log_words;
	uint64_t ns = segment->first_ns, seen = segment->first_tick;

	/* The first word is the first tick's. */
	for (uint64_t i = 1; i < segment->len_words && seen < tick; i++) {
		uint64_t word;

		if (++at == region->shape.log_words)
			at = 0;
		word = fgt_region_load(&region->log[at]);
		if (fgt_word_kind(word) != FGT_WORD_TICK)
			continue;
		ns += fgt_word_tick_ns(word);
		seen++;
	}
	return seen == tick ? ns : 0;
}

static int find_range(struct fgt_cut *cut, uint64_t *ret_oldest_ns)
{
	const struct fgt_cut_segment *segments;
	uint32_t first, newest;
	int error;

	error = copy_directory(cut);
	if (error)
		return error;
	segments = cut->segments;
	first = cut->first_segment;
	newest = cut->segment_count - 1;
	cut->oldest_tick = find_oldest_tick(
		cut->region, &segments[first],
		segments[newest].first_tick + segments[newest].tick_count - 1);
	while (first < newest &&
	       segments[first + 1].first_tick <= cut->oldest_tick)
		first++;
	if (segments[newest].first_tick + segments[newest].tick_count <
	    cut->oldest_tick + 2)
		return -ENODATA;
	*ret_oldest_ns =
		find_tick_ns(cut->region, &segments[first], cut->oldest_tick);
	/* The copy counts only if the segment is still there. */
	cut->first_segment = first;
	error = settle(cut);
	return error || first != cut->first_segment ? -EAGAIN : 0;
}

int fgt_ring_range(const struct fgt_ring *ring, uint64_t *ret_oldest_ns,
		   uint64_t *ret_newest_ns)
{
	const struct fgt_region *region = &ring->writer.region;
	uint64_t oldest_ns = 0, newest_ns = 0;
	int error = -EAGAIN;

	for (int i = 0; i < CUT_TRIES && error == -EAGAIN; i++) {
		struct fgt_cut cut = { .region = region, .to_ns = UINT64_MAX };

		newest_ns = fgt_region_load(&region->header->newest_ns);
		error = find_range(&cut, &oldest_ns);
		cut_done(&cut);
	}
	if (error)
		return error;
	*ret_oldest_ns = oldest_ns;
	*ret_newest_ns = newest_ns;
	return 0;
}

int fgt_ring_blank(const struct fgt_ring *ring, uint64_t from_ns,
		   uint64_t to_ns, struct fgt_ring_slice **ret_slice)
{
	const struct fgt_region *region = &ring->writer.region;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int error;

	if (from_ns >= to_ns)
		return -EINVAL;
	error = fgt_slice_new(&slice);
	if (error)
		return error;
	slice->anchors = calloc(1, sizeof(*slice->anchors));
	slice->tick_ns = calloc(2, sizeof(*slice->tick_ns));
	if (!slice->anchors || !slice->tick_ns)
		return -ENOMEM;
	slice->anchors[0].mono_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	slice->anchors[0].wall_ns = fgt_clock_ns(CLOCK_REALTIME);
	slice->anchor_count = 1;
	slice->tick_ns[0] = slice->requested_from_ns = from_ns;
	slice->tick_ns[1] = slice->requested_to_ns = to_ns;
	slice->tick_count = 2;
	slice->period_ns = fgt_region_period_ns(region);
	fgt_cut_process(region, &slice->process);
	*ret_slice = FGT_TAKE(slice);
	return 0;
}

/* ---- Anchors ---------------------------------------------------------- */

static int take_anchors(const struct fgt_cut *cut,
			struct fgt_anchor **ret_anchors, uint32_t *ret_count)
{
	uint32_t count = cut->segment_count - cut->first_segment;
	struct fgt_anchor *anchors = calloc(count, sizeof(*anchors));

	if (!anchors)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct fgt_cut_segment *segment =
			&cut->segments[cut->first_segment + i];

		anchors[i] = (struct fgt_anchor){
			.mono_ns = segment->first_ns,
			.wall_ns = segment->wall_ns,
		};
	}
	*ret_anchors = anchors;
	*ret_count = count;
	return 0;
}

int fgt_ring_read_anchors(const struct fgt_ring *ring,
			  struct fgt_anchor **ret_anchors, uint32_t *ret_count)
{
	int error = -EAGAIN;

	for (int i = 0; i < CUT_TRIES && error == -EAGAIN; i++) {
		struct fgt_cut cut = { .region = &ring->writer.region };

		error = copy_directory(&cut);
		if (!error)
			error = take_anchors(&cut, ret_anchors, ret_count);
		cut_done(&cut);
	}
	return error;
}
