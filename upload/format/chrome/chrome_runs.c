/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what threads did as nested events. A level that begins with one change
 * and ends with the next one is an X, all others are a B and an E. At each
 * change the X's come first, from the root downward, then the E's from the leaf
 * upward and the B's from the root downward, at the same ts. A gap closes the
 * stack. None has args or cat. Changes are in whole µs: switches are known no
 * better, and decimals are 8 bytes of an X. Runs in any thread; must not hold
 * more than four stacks.
 */
#include <string.h>

#include "ringbuf/slice/processes.h"
#include "upload/format/chrome/chrome.h"
#include "upload/format/parts/drawing.h"

/* Perfetto drops events that nest deeper than 512. */
#define DEPTH_MAX 500

struct track {
	const struct fgt_ring_slice *slice;
	struct fgt_json *json;
	struct fgt_levels open; /* levels that have not ended */
	struct fgt_levels next; /* levels of what is shown next */
	uint64_t pid, tid; /* of the track that is being written */
	uint64_t next_ns; /* no change before it; from the first tick, as all */
	/* So many of the open ones, from the leaf on, are not written yet: they
	 * began with the last change. */
	uint32_t due;
	uint64_t due_ns;
	bool has_pairs; /* with that change there is a B or an E */
};

static void begin_event(struct track *track, struct fgt_level level,
			const char *phase, uint64_t at_ns)
{
	char buffer[FGT_LEVEL_NAME_MAX];
	const char *name = fgt_level_name(track->slice, level, buffer);

	fgt_chrome_begin(track->json, name, phase, track->pid, track->tid);
	fgt_chrome_put_us(track->json, "ts", at_ns);
}

static void put_event(struct track *track, struct fgt_level level,
		      const char *phase, uint64_t at_ns)
{
	begin_event(track, level, phase, at_ns);
	fgt_json_end_object(track->json);
}

/*
 * It begins 1 ns later where a B or an E has the same instant, before which
 * Perfetto takes an X. It ends 1 ns earlier unless all is in whole µs:
 * speedscope, which adds dur to ts in floating point, must find the end before
 * all else of its instant.
 */
static void put_whole(struct track *track, struct fgt_level level,
		      uint64_t end_ns)
{
	uint64_t begin_ns = track->due_ns + track->has_pairs;

	if (begin_ns % 1000 || end_ns % 1000)
		end_ns--;
	begin_event(track, level, "X", begin_ns);
	fgt_chrome_put_us(track->json, "dur", end_ns - begin_ns);
	fgt_json_end_object(track->json);
}

/* Those that are due, from the root downward, all but the first keep leaves. */
static void put_due_begins(struct track *track, uint32_t keep)
{
	track->has_pairs |= track->due > keep;
	for (; track->due > keep; track->due--)
		put_event(track, track->open.items[track->due - 1], "B",
			  track->due_ns);
}

/* From the leaf upward until keep levels stay open. False: there is no E. */
static bool close_levels(struct track *track, uint32_t keep, uint64_t end_ns)
{
	const struct fgt_levels *open = &track->open;
	const uint32_t count = open->count - keep;
	uint32_t whole;

	put_due_begins(track, count);
	whole = track->due;
	for (; track->due; track->due--)
		put_whole(track, open->items[track->due - 1], end_ns);
	for (uint32_t i = whole; i < count; i++)
		put_event(track, open->items[i], "E", end_ns);
	return whole < count;
}

/*
 * speedscope reads a B before an E of the same name and the same ts. Where the
 * first B has the name of a level that closes, it would match the closing
 * levels crosswise, and one would stay open to the end.
 */
static bool is_ambiguous(const struct track *track, uint32_t keep)
{
	const struct fgt_levels *open = &track->open, *next = &track->next;
	char buffers[2][FGT_LEVEL_NAME_MAX];
	const char *first;

	if (keep == next->count)
		return false;
	first = fgt_level_name(track->slice,
			       next->items[next->count - 1 - keep], buffers[0]);
	for (uint32_t i = 0; i + keep < open->count; i++)
		if (!strcmp(first, fgt_level_name(track->slice, open->items[i],
						  buffers[1])))
			return true;
	return false;
}

/* In whole µs, and each in another. */
static uint64_t take_instant(struct track *track, uint64_t mono_ns)
{
	uint64_t at_ns = mono_ns - track->slice->tick_ns[0];

	at_ns -= at_ns % 1000;
	if (at_ns < track->next_ns)
		at_ns = track->next_ns;
	track->next_ns = at_ns + 1000;
	return at_ns;
}

/* From the open stack to the next one, both at the same ts. */
static bool change_stack(struct track *track, uint64_t mono_ns)
{
	uint32_t keep = fgt_levels_in_common(&track->open, &track->next);
	struct fgt_levels shown = track->next;
	uint64_t at_ns;

	if (keep == track->open.count && keep == shown.count)
		return false;
	at_ns = take_instant(track, mono_ns);
	track->has_pairs =
		close_levels(track, keep, at_ns - is_ambiguous(track, keep));
	track->due = shown.count - keep;
	track->due_ns = at_ns;
	track->next = track->open;
	track->open = shown;
	return true;
}

static bool show(void *context, const struct fgt_shown *shown, uint64_t mono_ns)
{
	struct track *track = context;

	track->next.count = 0;
	if (shown)
		fgt_levels_expand_shown(&track->next, shown);
	return change_stack(track, mono_ns);
}

static void begin_thread(void *context, uint32_t thread)
{
	struct track *track = context;

	track->pid =
		fgt_chrome_id(fgt_slice_process_of(track->slice, thread).pid);
	track->tid = fgt_chrome_id(track->slice->threads[thread].tid);
	track->next_ns = 0;
}

int fgt_chrome_runs_put(const struct fgt_ring_slice *slice,
			enum fgt_state_frames state_frames,
			struct fgt_json *json)
{
	struct track track = { .slice = slice, .json = json };
	const struct fgt_drawing drawing = {
		.context = &track,
		.begin_thread = begin_thread,
		.show = show,
		.levels_max = DEPTH_MAX,
	};
	int r;

	r = fgt_levels_init(&track.open, slice, state_frames, DEPTH_MAX);
	if (!r)
		r = fgt_levels_init(&track.next, slice, state_frames,
				    DEPTH_MAX);
	if (!r)
		r = fgt_draw(slice, &drawing);
	fgt_levels_done(&track.open);
	fgt_levels_done(&track.next);
	return r;
}
