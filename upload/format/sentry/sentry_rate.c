/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a Sentry profile within Relay's limits: chooses the threads that have a
 * sample a tick. Runs in any thread; must not write samples to count them: 30 s
 * of 1000 threads are 3 million samples, 220 MB.
 */
#include "upload/format/sentry/sentry_rate.h"

#include <errno.h>
#include <stdlib.h>

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

	return profile->threads[thread].ticks *
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

/* Of a profile in which all threads are thinned: writes all at each tick if
 * there is room, else the preferred ones, the busiest first. */
static int raise_rate(struct fgt_sentry_profile *profile, uint64_t room_bytes)
{
	uint32_t *order, count = 0;

	if (write_all_if_room(profile, room_bytes))
		return 0;
	order = calloc(profile->slice->thread_count, sizeof(*order));
	if (!order)
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
