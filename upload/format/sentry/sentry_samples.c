/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a planned Sentry profile, above all its samples: tick by tick,
 * expanded from runs. Runs in any thread; must write the same bytes
 * each time, since the first pass only counts them.
 *
 * Keeps the profile within Relay's limits: chooses the threads that have a
 * sample a tick; the other ones have samples where their stack changed. Sentry
 * weighs a sample by the time to the next one of its thread, so both give the
 * same durations; a thread that ends has one more, at the next tick. Must not
 * write samples to count them: 30 s of 1000 threads are 3 million samples, 220
 * MB.
 *
 * Where the bytes go: a sample takes about 72 (keys and punctuation 57, time
 * 11, the rest ids). 30 s at 101 Hz take 220 kB for a thread with a sample a
 * tick, and 150 bytes for a sleeping thread with a sample a change. A thread's
 * name takes 25, a frame 165, a stack 2.5 for each of its frames. The format
 * has no shorter form: Relay wants all three keys in each sample, and has no
 * key for a repeated one. In version 2 a sample takes 60.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/timeline.h"
#include "upload/format/sentry/sentry_profile.h"

/* One thread on its way through the ticks. */
struct cursor {
	const struct fgt_sentry_thread *thread;
	uint32_t thread_index;
	uint32_t run; /* the one at or after the present tick */
	size_t prefix_len; /* of the sample's text up to the time */
	size_t gap_prefix_len;
	char prefix[96], gap_prefix[96];
};

struct sample_writer {
	const struct fgt_sentry_profile *profile;
	struct fgt_json *json;
	struct cursor *cursors; /* of the threads that are kept */
	uint32_t *wakes; /* of each cursor: the tick of its next sample; a
			  * separate array, to skip idle threads quickly */
	uint32_t *woken; /* cursors that may have a sample at this tick */
	uint32_t woken_count;
	uint32_t cursor_count;
};

/* A sample up to its time: it changes only with the run. */
static size_t format_prefix(const struct sample_writer *writer,
			    const struct cursor *cursor, uint32_t stack,
			    char prefix[96])
{
	const struct fgt_ring_slice *slice = writer->profile->slice;

	return (size_t)snprintf(prefix, 96,
				"{\"stack_id\":%u,\"thread_id\":\"%d\",%s",
				stack, slice->threads[cursor->thread_index].tid,
				writer->profile->scope.is_wall
					? "\"timestamp\":"
					: "\"elapsed_since_start_ns\":\"");
}

static void enter_run(const struct sample_writer *writer, struct cursor *cursor,
		      uint32_t run)
{
	cursor->run = run;
	if (run < cursor->thread->run_end)
		cursor->prefix_len = format_prefix(
			writer, cursor, writer->profile->run_stacks[run],
			cursor->prefix);
}

static void put_sample(struct sample_writer *writer, const char *prefix,
		       size_t prefix_len, const char *tail, size_t tail_len)
{
	char text[128];

	memcpy(text, prefix, prefix_len);
	memcpy(text + prefix_len, tail, tail_len);
	fgt_json_put_raw(writer->json, NULL, text, prefix_len + tail_len);
}

/* 1767225600.000123} : seconds since the epoch. */
static size_t format_wall_tail(const struct sample_writer *writer,
			       uint64_t mono_ns, char tail[32])
{
	uint64_t wall_ns = mono_ns + writer->profile->scope.wall_offset_ns;
	size_t len = fgt_json_format_uint(tail, wall_ns / 1000000000);

	len += (size_t)snprintf(tail + len, 32 - len, ".%06u}",
				(unsigned int)(wall_ns % 1000000000 / 1000));
	return len;
}

/* 123"} : the end of every sample of one instant. */
static size_t format_tail(const struct sample_writer *writer, uint64_t mono_ns,
			  char tail[32])
{
	size_t len;

	if (writer->profile->scope.is_wall)
		return format_wall_tail(writer, mono_ns, tail);
	len = fgt_json_format_uint(
		tail, mono_ns - fgt_sentry_profile_start_ns(writer->profile));

	tail[len++] = '"';
	tail[len++] = '}';
	return len;
}

/* A thinned thread has samples at its changes and at both ends of what is
 * known. */
static bool is_due(const struct sample_writer *writer,
		   const struct cursor *cursor, uint32_t tick)
{
	const struct fgt_sentry_profile *profile = writer->profile;
	const struct fgt_ring_slice *slice = profile->slice;

	return !cursor->thread->is_thinned ||
	       tick == slice->runs[cursor->run].first_tick ||
	       tick == profile->first_tick ||
	       tick == cursor->thread->last_tick ||
	       fgt_timeline_is_gap(slice, tick - 1);
}

/* Whether samples of the thread are missing between this tick, which is not its
 * last, and its next one. */
static bool is_before_gap(const struct sample_writer *writer,
			  const struct cursor *cursor, uint32_t tick)
{
	const struct fgt_ring_slice *slice = writer->profile->slice;
	const struct fgt_run *run = &slice->runs[cursor->run];

	if (fgt_timeline_is_gap(slice, tick))
		return true;
	return tick + 1 == run->first_tick + run->tick_count &&
	       cursor->run + 1 < cursor->thread->run_end &&
	       run[1].first_tick != tick + 1;
}

/* After tick: the ends of the run may be a change or a gap. */
static uint32_t next_wake(const struct sample_writer *writer,
			  const struct cursor *cursor, uint32_t tick)
{
	const struct fgt_run *run = &writer->profile->slice->runs[cursor->run];
	uint32_t last_tick;

	if (cursor->run >= cursor->thread->run_end)
		return UINT32_MAX;
	if (!cursor->thread->is_thinned)
		return tick + 1;
	if (tick < run->first_tick)
		return run->first_tick;
	last_tick = run->first_tick + run->tick_count - 1;
	return tick < last_tick ? last_tick : tick + 1;
}

/* Without a branch: most threads sleep through most ticks. */
static void find_woken(struct sample_writer *writer, uint32_t tick)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < writer->cursor_count; i++) {
		writer->woken[count] = i;
		count += writer->wakes[i] <= tick;
	}
	writer->woken_count = count;
}

static void put_sample_at(struct sample_writer *writer, struct cursor *cursor,
			  uint32_t tick, const char *tail, size_t tail_len)
{
	const struct fgt_run *runs = writer->profile->slice->runs;

	if (cursor->run < cursor->thread->run_end &&
	    tick >= runs[cursor->run].first_tick + runs[cursor->run].tick_count)
		enter_run(writer, cursor, cursor->run + 1);
	if (cursor->run < cursor->thread->run_end &&
	    tick >= runs[cursor->run].first_tick &&
	    is_due(writer, cursor, tick))
		put_sample(writer, cursor->prefix, cursor->prefix_len, tail,
			   tail_len);
}

/* What must follow a sample, since no next one of the thread ends it: a gap, or
 * the sample that closes the thread. */
static void put_end_after(struct sample_writer *writer, struct cursor *cursor,
			  uint32_t tick, const char *tail, size_t tail_len)
{
	const struct fgt_sentry_thread *thread = cursor->thread;
	const struct fgt_run *runs = writer->profile->slice->runs;
	bool is_last = tick == thread->last_tick;

	if (cursor->run >= thread->run_end ||
	    tick < runs[cursor->run].first_tick)
		return;
	if (is_last && thread->close == FGT_SENTRY_CLOSE_STACK)
		put_sample(writer, cursor->prefix, cursor->prefix_len, tail,
			   tail_len);
	else if (is_last ? thread->close == FGT_SENTRY_CLOSE_GAP
			 : is_before_gap(writer, cursor, tick))
		put_sample(writer, cursor->gap_prefix, cursor->gap_prefix_len,
			   tail, tail_len);
}

static void put_ends(struct sample_writer *writer, uint32_t tick)
{
	char tail[32];
	size_t tail_len = format_tail(
		writer, fgt_timeline_end_ns(writer->profile->slice, tick),
		tail);

	for (uint32_t i = 0; i < writer->woken_count; i++)
		put_end_after(writer, &writer->cursors[writer->woken[i]], tick,
			      tail, tail_len);
}

static void put_tick(struct sample_writer *writer, uint32_t tick)
{
	const struct fgt_ring_slice *slice = writer->profile->slice;
	char tail[32];
	size_t tail_len = format_tail(writer, slice->tick_ns[tick], tail);

	/* Beside a gap of the whole profile each thread has a sample. */
	if (fgt_timeline_is_gap(slice, tick) ||
	    (tick && fgt_timeline_is_gap(slice, tick - 1)))
		memset(writer->wakes, 0,
		       writer->cursor_count * sizeof(*writer->wakes));
	find_woken(writer, tick);
	for (uint32_t i = 0; i < writer->woken_count; i++)
		put_sample_at(writer, &writer->cursors[writer->woken[i]], tick,
			      tail, tail_len);
	put_ends(writer, tick);
	for (uint32_t i = 0; i < writer->woken_count; i++) {
		uint32_t woken = writer->woken[i];

		writer->wakes[woken] =
			next_wake(writer, &writer->cursors[woken], tick);
	}
}

static void put_samples(struct sample_writer *writer)
{
	const struct fgt_sentry_profile *profile = writer->profile;

	fgt_json_begin_array(writer->json, "samples");
	for (uint32_t tick = profile->first_tick; tick <= profile->last_tick;
	     tick++)
		put_tick(writer, tick);
	fgt_json_end_array(writer->json);
}

/* The later of two threads with one tid gives the name. */
static void put_thread_metadata(struct sample_writer *writer)
{
	const struct fgt_ring_slice *slice = writer->profile->slice;

	fgt_json_begin_object(writer->json, "thread_metadata");
	for (uint32_t i = 0; i < writer->cursor_count; i++) {
		const struct fgt_slice_thread *thread =
			&slice->threads[writer->cursors[i].thread_index];
		char key[16], buffer[FGT_LEVEL_NAME_MAX];

		if (i + 1 < writer->cursor_count &&
		    slice->threads[writer->cursors[i + 1].thread_index].tid ==
			    thread->tid)
			continue;
		snprintf(key, sizeof(key), "%d", thread->tid);
		fgt_json_begin_object(writer->json, key);
		fgt_json_put_string(
			writer->json, "name",
			fgt_level_thread_name(slice, thread, buffer));
		fgt_json_end_object(writer->json);
	}
	fgt_json_end_object(writer->json);
}

static int start_cursors(struct sample_writer *writer)
{
	const struct fgt_sentry_profile *profile = writer->profile;
	uint32_t thread_count = profile->slice->thread_count;

	/* woken has one more: find_woken() writes before it decides. */
	if (!FGT_ARRAY_NEW(writer->cursors, thread_count) ||
	    !FGT_ARRAY_NEW(writer->wakes, thread_count) ||
	    !FGT_ARRAY_NEW(writer->woken, thread_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < thread_count; i++) {
		struct cursor *cursor = &writer->cursors[writer->cursor_count];

		if (!profile->threads[i].is_kept)
			continue;
		writer->cursor_count++;
		cursor->thread = &profile->threads[i];
		cursor->thread_index = i;
		enter_run(writer, cursor, cursor->thread->first_run);
		cursor->gap_prefix_len =
			format_prefix(writer, cursor, profile->stacks.count - 1,
				      cursor->gap_prefix);
	}
	return 0;
}

int fgt_sentry_profile_put(const struct fgt_sentry_profile *profile,
			   struct fgt_json *json)
{
	struct sample_writer writer = { .profile = profile, .json = json };
	int r;

	r = start_cursors(&writer);
	if (!r) {
		fgt_json_begin_object(json, "profile");
		fgt_sentry_frames_put(profile, json);
		r = fgt_sentry_stacks_put(profile, json);
		put_samples(&writer);
		put_thread_metadata(&writer);
		fgt_json_end_object(json);
	}
	free(writer.cursors);
	free(writer.wakes);
	free(writer.woken);
	return r;
}

/* ---- Limits ------------------------------------------------------------- */

/* Old Relays refuse larger profiles: threads are thinned above this. */
#define THINNED_BYTES (10u << 20)
/* Each Relay refuses a profile above 50 MiB: older ticks are left out. */
#define MAX_BYTES (48u << 20)

/* The punctuation and keys of a sample, with its comma; in version 2, with
 * its longer times, all of it takes less. */
#define SAMPLE_BYTES                                                           \
	(sizeof("{\"stack_id\":,\"thread_id\":\"\","                           \
		"\"elapsed_since_start_ns\":\"\"},") -                         \
	 1)

static size_t count_digits(uint64_t value)
{
	size_t digits = 1;

	while (value >= 10) {
		value /= 10;
		digits++;
	}
	return digits;
}

/* The most that one sample a tick of the thread takes. */
static uint64_t count_bytes(const struct fgt_sentry_profile *profile,
			    uint32_t thread)
{
	uint64_t duration_ns = fgt_sentry_profile_end_ns(profile) -
			       fgt_sentry_profile_start_ns(profile);
	int32_t tid = profile->slice->threads[thread].tid;

	/* One more closes it. */
	return (profile->threads[thread].ticks + 1) *
	       (SAMPLE_BYTES + count_digits(profile->stacks.count) +
		count_digits((uint64_t)tid) + count_digits(duration_ns));
}

/* The active thread, whose calls Sentry counts, and each one that ran or
 * changed its stack. */
static bool is_preferred(const struct fgt_sentry_profile *profile,
			 uint32_t index)
{
	const struct fgt_sentry_thread *thread = &profile->threads[index];

	return index == profile->active_thread || thread->running_ticks ||
	       thread->run_end - thread->first_run > 1;
}

/* The active thread, then those that ran longest. */
static int compare_threads(const void *left, const void *right, void *context)
{
	const struct fgt_sentry_profile *profile = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint64_t ran_a = profile->threads[a].running_ticks;
	uint64_t ran_b = profile->threads[b].running_ticks;

	if (a == profile->active_thread || b == profile->active_thread)
		return a == profile->active_thread ? -1 : 1;
	if (ran_a != ran_b)
		return ran_a > ran_b ? -1 : 1;
	return a < b ? -1 : a > b;
}

static void write_each_tick(struct fgt_sentry_profile *profile, uint32_t thread)
{
	profile->threads[thread].is_thinned = false;
	profile->thinned_threads--;
}

static bool write_all_if_room(struct fgt_sentry_profile *profile,
			      uint64_t room_bytes)
{
	uint32_t thread_count = profile->slice->thread_count;
	uint64_t wanted = 0;

	for (uint32_t i = 0; i < thread_count; i++)
		if (profile->threads[i].is_kept)
			wanted += count_bytes(profile, i);
	for (uint32_t i = 0; i < thread_count && wanted <= room_bytes; i++)
		if (profile->threads[i].is_kept)
			write_each_tick(profile, i);
	return wanted <= room_bytes;
}

/* All threads of the profile are thinned: writes all at each tick if there is
 * room, else the preferred ones, the busiest first. */
static int raise_rate(struct fgt_sentry_profile *profile, uint64_t room_bytes)
{
	uint32_t *order, count = 0;

	if (write_all_if_room(profile, room_bytes))
		return 0;
	if (!FGT_ARRAY_NEW(order, profile->slice->thread_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->slice->thread_count; i++)
		if (profile->threads[i].is_kept && is_preferred(profile, i))
			order[count++] = i;
	qsort_r(order, count, sizeof(*order), compare_threads, profile);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t bytes = count_bytes(profile, order[i]);

		if (bytes > room_bytes)
			break;
		room_bytes -= bytes;
		write_each_tick(profile, order[i]);
	}
	free(order);
	return 0;
}

/* Adds samples between changes as far as there is room. */
static int use_room(struct fgt_sentry_profile *profile,
		    const struct fgt_sentry_body *body, uint64_t *len)
{
	int r;

	if (*len >= THINNED_BYTES)
		return 0;
	r = raise_rate(profile, THINNED_BYTES - *len);
	return r ? r : fgt_sentry_count_body(body, len);
}

int fgt_sentry_profile_fit(struct fgt_sentry_profile *profile,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_sentry_scope *scope,
			   const struct fgt_sentry_body *body,
			   uint64_t *ret_len)
{
	struct fgt_sentry_scope part = *scope;
	uint64_t len;
	int r;

	for (;;) {
		r = fgt_sentry_profile_init(profile, slice, &part);
		if (r)
			return r;
		r = fgt_sentry_count_body(body, &len);
		if (!r)
			r = use_room(profile, body, &len);
		if (r || len <= MAX_BYTES)
			break;
		part.first_tick =
			profile->first_tick +
			(profile->last_tick - profile->first_tick) / 4 + 1;
		fgt_sentry_profile_done(profile);
	}
	if (!r)
		*ret_len = len;
	return r;
}
