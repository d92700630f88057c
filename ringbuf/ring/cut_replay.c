/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the log's words into pieces: what each thread did from which tick to
 * which. Runs in any reader on its private copy; must check every slot and
 * time, the copy may come from a hostile or broken process.
 */
#include "ringbuf/ring/cut.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"

static int push_tick(struct fgt_cut *cut, uint64_t ns, uint64_t number)
{
	if (FGT_ARRAY_GROW(cut->tick_ns, cut->tick_count, cut->tick_capacity))
		return -ENOMEM;
	if (cut->tick_count && ns <= cut->tick_ns[cut->tick_count - 1])
		return -EBADMSG;
	if (ns >= cut->from_ns && ns <= cut->to_ns &&
	    number >= cut->oldest_tick && !cut->kept_count++)
		cut->kept_first = cut->tick_count;
	cut->tick_ns[cut->tick_count++] = ns;
	return 0;
}

/* In the log only where it changes. */
static int push_pace(struct fgt_cut *cut, uint32_t periods)
{
	if (periods ==
	    (cut->pace_count ? cut->paces[cut->pace_count - 1].periods : 1))
		return 0;
	if (FGT_ARRAY_GROW(cut->paces, cut->pace_count, cut->pace_capacity))
		return -ENOMEM;
	cut->paces[cut->pace_count++] =
		(struct fgt_cut_pace){ cut->tick_count, periods };
	return 0;
}

/* Ends the slot's open piece before tick end. */
static int close_piece(struct fgt_cut *cut, uint32_t slot, uint32_t end)
{
	struct fgt_cut_track *track = &cut->tracks[slot];

	if (FGT_ARRAY_GROW(cut->pieces, cut->piece_count, cut->piece_capacity))
		return -ENOMEM;
	cut->pieces[cut->piece_count++] = (struct fgt_cut_piece){
		.slot = slot,
		.first = track->first,
		.end = end,
		.node = track->node,
		.state = track->state,
		.wait = track->wait,
		.previous = track->latest,
	};
	track->latest = cut->piece_count;
	return 0;
}

/*
 * Ends the pieces of the slot at tick first: the rest was credited to the next
 * change. Pieces wholly behind it are dropped.
 */
static int cut_back(struct fgt_cut *cut, uint32_t slot, uint32_t first)
{
	struct fgt_cut_track *track = &cut->tracks[slot];

	if (track->first < first)
		return close_piece(cut, slot, first);
	while (track->latest) {
		struct fgt_cut_piece *piece = &cut->pieces[track->latest - 1];

		if (piece->end <= first)
			break;
		if (piece->first < first) {
			piece->end = first;
			break;
		}
		track->latest = piece->previous;
	}
	return 0;
}

static int change(struct fgt_cut *cut, uint32_t slot, uint32_t node,
		  uint32_t state, uint32_t wait)
{
	struct fgt_cut_track *track = &cut->tracks[slot];
	uint32_t tick = cut->tick_count - 1, first = tick;
	const struct fgt_cut_piece *last;
	int error;

	if (!track->is_open) {
		track->is_open = true;
		track->born = tick;
	} else if (track->node == node && track->state == state &&
		   track->wait == wait) {
		/* A key frame. */
		return 0;
	} else {
		first -= track->credit_ticks < tick - track->born
				 ? track->credit_ticks
				 : tick - track->born;
		error = cut_back(cut, slot, first);
		if (error)
			return error;
	}
	track->first = first;
	track->node = node;
	track->state = state;
	track->wait = wait;
	if (!track->latest)
		return 0;
	/* Credit may have cut back to a piece that is just the same. */
	last = &cut->pieces[track->latest - 1];
	if (last->end == first && last->node == node && last->state == state &&
	    last->wait == wait) {
		track->first = last->first;
		track->latest = last->previous;
	}
	return 0;
}

static int replay_change(struct fgt_cut *cut, uint64_t word)
{
	uint32_t slot = fgt_word_slot(word), state = fgt_word_state(word);
	struct fgt_cut_track *track;
	int error;

	if (slot >= cut->region->shape.threads)
		return -EBADMSG;
	track = &cut->tracks[slot];
	if (slot >= cut->slot_count)
		cut->slot_count = slot + 1;
	if (fgt_word_kind(word) == FGT_WORD_CREDIT) {
		track->credit_ticks = fgt_word_high(word);
		return 0;
	}
	if (fgt_word_kind(word) == FGT_WORD_WAIT) {
		if (fgt_word_high(word) >= cut->region->shape.waits)
			return -EBADMSG;
		track->next_wait = fgt_word_high(word) + 1;
		return 0;
	}
	if (state != FGT_STATE_GONE) {
		error = change(cut, slot, fgt_word_high(word), state,
			       track->next_wait);
		track->credit_ticks = 0;
		track->next_wait = 0;
		return error;
	}
	if (!track->is_open)
		return 0;
	track->is_open = false;
	return close_piece(cut, slot, cut->tick_count - 1);
}

static int replay_edge(struct fgt_cut *cut, uint64_t word)
{
	uint32_t slot = fgt_word_edge_slot(word);

	if (slot >= cut->region->shape.threads)
		return -EBADMSG;
	if (FGT_ARRAY_GROW(cut->edges, cut->edge_count, cut->edge_capacity))
		return -ENOMEM;
	cut->edges[cut->edge_count++] = (struct fgt_cut_edge){
		.slot = slot,
		.tick = cut->tick_count - 1,
		.on_us = fgt_word_edge_on_us(word),
		.off_us = fgt_word_edge_off_us(word),
	};
	return 0;
}

static bool is_tick_wanted(const struct fgt_cut *cut)
{
	return cut->kept_count &&
	       cut->kept_first + cut->kept_count == cut->tick_count;
}

/* Those within the wanted ticks are kept. */
static int replay_wake(struct fgt_cut *cut, uint64_t word, uint64_t time)
{
	uint64_t tick_ns = cut->tick_ns[cut->tick_count - 1];
	uint32_t slot = fgt_word_slot(word);

	if (fgt_word_kind(time) != FGT_WORD_WAKE_TIME ||
	    slot >= cut->region->shape.threads ||
	    fgt_word_high(word) >= cut->region->shape.wakers ||
	    fgt_word_before_ns(time) > tick_ns)
		return -EBADMSG;
	if (!is_tick_wanted(cut) ||
	    tick_ns - fgt_word_before_ns(time) < cut->tick_ns[cut->kept_first])
		return 0;
	if (FGT_ARRAY_GROW(cut->wakes, cut->wake_count, cut->wake_capacity))
		return -ENOMEM;
	cut->wakes[cut->wake_count++] = (struct fgt_cut_wake){
		.at_ns = tick_ns - fgt_word_before_ns(time),
		.slot = slot,
		.waker = fgt_word_high(word),
		.delay_us = fgt_word_delay_us(time),
	};
	return 0;
}

/* Those before the first wanted tick lie outside. */
static void count_lost(struct fgt_cut *cut, uint64_t word)
{
	if (cut->kept_count < 2 || !is_tick_wanted(cut))
		return;
	if (fgt_word_kind(word) == FGT_WORD_MISSED)
		cut->missed_ticks += fgt_word_count(word);
	else
		cut->lost_wakes += fgt_word_count(word);
}

static int replay_segment(struct fgt_cut *cut,
			  const struct fgt_cut_segment *segment,
			  const uint64_t *words)
{
	uint64_t ns = segment->first_ns, number = segment->first_tick;
	int error;

	if (fgt_word_kind(words[0]) != FGT_WORD_TICK ||
	    fgt_word_tick_ns(words[0]))
		return -EBADMSG;
	for (uint64_t i = 0; i < segment->len_words; i++) {
		switch (fgt_word_kind(words[i])) {
		case FGT_WORD_TICK:
			ns += fgt_word_tick_ns(words[i]);
			error = push_pace(cut, fgt_word_tick_periods(words[i]));
			if (!error)
				error = push_tick(cut, ns, number++);
			break;
		case FGT_WORD_MISSED:
		case FGT_WORD_LOST_WAKES:
			count_lost(cut, words[i]);
			error = 0;
			break;
		case FGT_WORD_WAKE:
			/* Its time is the next word. */
			error = -EBADMSG;
			if (++i < segment->len_words)
				error = replay_wake(cut, words[i - 1],
						    words[i]);
			break;
		case FGT_WORD_WAKE_TIME:
			error = -EBADMSG;
			break;
		case FGT_WORD_EDGE:
			error = replay_edge(cut, words[i]);
			break;
		default:
			error = replay_change(cut, words[i]);
		}
		if (error)
			return error;
	}
	return 0;
}

static int reset(struct fgt_cut *cut)
{
	size_t slots = cut->region->shape.threads;

	cut->tick_count = 0;
	cut->pace_count = 0;
	cut->kept_count = 0;
	cut->piece_count = 0;
	cut->edge_count = 0;
	cut->wake_count = 0;
	cut->missed_ticks = 0;
	cut->lost_wakes = 0;
	cut->slot_count = 0;
	/* Fresh zero pages: only those of slots in use are ever touched. */
	free(cut->tracks);
	cut->tracks = calloc(slots, sizeof(*cut->tracks));
	return cut->tracks ? 0 : -ENOMEM;
}

int fgt_cut_replay(struct fgt_cut *cut)
{
	uint64_t copied_from = cut->segments[cut->words_segment].log_start;
	uint64_t next_tick = cut->segments[cut->first_segment].first_tick;
	int error;

	error = reset(cut);
	for (uint32_t i = cut->first_segment; i < cut->segment_count && !error;
	     i++) {
		const struct fgt_cut_segment *segment = &cut->segments[i];
		uint64_t first_tick =
			cut->segments[cut->first_segment].first_tick;

		if (segment->first_tick != next_tick)
			return -EBADMSG;
		error = replay_segment(
			cut, segment,
			cut->words + (segment->log_start - copied_from));
		next_tick = first_tick + cut->tick_count;
	}
	for (uint32_t slot = 0; slot < cut->slot_count && !error; slot++)
		if (cut->tracks[slot].is_open)
			error = close_piece(cut, slot, cut->tick_count);
	return error;
}

bool fgt_cut_clip(const struct fgt_cut *cut, struct fgt_cut_piece *piece)
{
	uint32_t kept_end = cut->kept_first + cut->kept_count;

	if (piece->first < cut->kept_first)
		piece->first = cut->kept_first;
	if (piece->end > kept_end)
		piece->end = kept_end;
	return piece->first < piece->end;
}
