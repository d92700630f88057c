/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampler in this program. Runs in the command line's main thread; sampling
 * itself has a thread that the sampler starts.
 */
#include "agent/cli/verbs/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/look/state_name.h"
#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "agent/files/open_file.h"
#include "agent/unwind/rows/rows.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/memory_limit.h"
#include "ringbuf/base/thread.h"
#include "ringbuf/slice/merge.h"

#define NOTES_MAX      4u /* what comes when they are full is dropped */
#define NOTE_BYTES_MAX 240u
#define RING_BYTES_MIN ((size_t)1 << 20)
#define LOOK_NS	       UINT64_C(250000000)
#define LOOKS_MAX      8u /* then a thread is given up */

struct fgt_recorder {
	struct fgt_image_cache *cache;
	struct fgt_sampler *sampler;
	struct fgt_target *targets[FGT_PROCESSES_MAX];
	uint32_t count;
	struct fgt_processes known; /* sampled ones and others */
	size_t ring_bytes, left_bytes; /* of a ring; for later ones */
	uint32_t missing,
		unlisted; /* later processes; more than there may be */
	bool is_following;
	/* Protects the notes; nests inside nothing, nothing nests inside it. */
	pthread_mutex_t mutex;
	char notes[NOTES_MAX][NOTE_BYTES_MAX];
	unsigned int note_count;
	bool shall_end; /* the watcher */
	pthread_cond_t changed;
	pthread_t watcher;
	bool has_watcher; /* only the main thread's */
};

/* ---- The watcher's thread ------------------------------------------------- */

/* A call about a process may never return: see agent/README.md. */
struct looked {
	uint64_t beat;
	unsigned int times; /* looks in a row that saw it */
};

static void look_at(struct fgt_sampler *sampler,
		    struct fgt_heartbeat *heartbeat, struct looked *looked)
{
	uint64_t beat = heartbeat ? atomic_load_explicit(&heartbeat->beat,
							 memory_order_relaxed)
				  : 0;

	if (!beat || beat != looked->beat || !fgt_beat_is_call(beat))
		*looked = (struct looked){ .beat = beat };
	else if (++looked->times >= LOOKS_MAX)
		fgt_sampler_give_up(sampler, heartbeat, beat);
}

/* False: it is to end. */
static bool wait_for_look(struct fgt_recorder *recorder)
{
	struct timespec until =
		fgt_timespec_of(fgt_clock_ns(CLOCK_MONOTONIC) + LOOK_NS);
	int r = 0;
	bool shall_end;

	pthread_mutex_lock(&recorder->mutex);
	while (!recorder->shall_end && r == 0)
		r = pthread_cond_clockwait(&recorder->changed, &recorder->mutex,
					   CLOCK_MONOTONIC, &until);
	shall_end = recorder->shall_end;
	pthread_mutex_unlock(&recorder->mutex);
	return !shall_end;
}

static void *watch(void *context)
{
	struct looked looked[FGT_HEARTBEATS_MAX] = { { .beat = 0 } };
	struct fgt_recorder *recorder = context;
	uint64_t last_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	while (wait_for_look(recorder)) {
		uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);

		/* It did not run, nor perhaps did they. */
		if (now_ns - last_ns > 2 * LOOK_NS)
			memset(looked, 0, sizeof(looked));
		last_ns = now_ns;
		for (uint32_t i = 0; i < FGT_HEARTBEATS_MAX; i++)
			look_at(recorder->sampler, fgt_heartbeat_at(i),
				&looked[i]);
		fgt_sampler_tend(recorder->sampler);
	}
	return NULL;
}

static int start_watching(struct fgt_recorder *recorder)
{
	int r = fgt_thread_start(0, watch, recorder, &recorder->watcher);

	recorder->has_watcher = r == 0;
	return r;
}

/* After the sampler has stopped, which may need the watcher for that. */
static void end_watching(struct fgt_recorder *recorder)
{
	if (!recorder->has_watcher)
		return;
	pthread_mutex_lock(&recorder->mutex);
	recorder->shall_end = true;
	pthread_cond_broadcast(&recorder->changed);
	pthread_mutex_unlock(&recorder->mutex);
	pthread_join(recorder->watcher, NULL);
	recorder->has_watcher = false;
}

/* ---- The main thread's ---------------------------------------------------- */

/*
 * On the sampler's thread: keeps a note for the main thread, which prints it.
 * Standard error may be a pipe that is not read: writing to it could block.
 */
static void explain(void *context, int32_t pid, const char *text)
{
	struct fgt_recorder *recorder = context;

	(void)pid;
	pthread_mutex_lock(&recorder->mutex);
	if (recorder->note_count < NOTES_MAX)
		snprintf(recorder->notes[recorder->note_count++],
			 NOTE_BYTES_MAX, "%s", text);
	pthread_mutex_unlock(&recorder->mutex);
}

/* On the main thread: printed with the mutex free. */
static void print_notes(struct fgt_recorder *recorder)
{
	char notes[NOTES_MAX][NOTE_BYTES_MAX];
	unsigned int count;

	pthread_mutex_lock(&recorder->mutex);
	count = recorder->note_count;
	memcpy(notes, recorder->notes, sizeof(notes));
	recorder->note_count = 0;
	pthread_mutex_unlock(&recorder->mutex);
	for (unsigned int i = 0; i < count; i++)
		fgt_note("record", "%s", notes[i]);
}

static int start(struct fgt_recorder *recorder,
		 const struct fgt_sampler_options *options, struct fgt_why *why)
{
	int r = fgt_image_cache_new(&recorder->cache);

	fgt_reader_begin(NULL);
	/* An ordinary user's programs are that user's own. */
	if (r == 0 && geteuid() == 0)
		r = fgt_rows_serve_cache(recorder->cache, NULL);
	if (r == 0)
		r = fgt_sampler_new(options, recorder->cache,
				    &recorder->sampler);
	if (r == 0)
		r = fgt_sampler_start(recorder->sampler);
	if (r == 0)
		r = start_watching(recorder);
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot start sampling: %s; free memory or "
				   "lower ring.memory_mb",
				   fgt_error_text(r));
	return 0;
}

static int attach(struct fgt_recorder *recorder,
		  const struct fgt_processes *processes, struct fgt_why *why)
{
	struct fgt_why last = { "" };
	int error = 0;

	for (uint32_t i = 0; i < processes->count; i++) {
		struct fgt_why own = { "" };
		int r = fgt_sampler_add(recorder->sampler, processes->pids[i],
					0, &recorder->targets[recorder->count],
					&own);

		if (r == 0) {
			recorder->count++;
		} else {
			error = r;
			last = own;
		}
	}
	if (!recorder->count) {
		*why = last;
		return error;
	}
	fgt_sampler_await(recorder->sampler);
	if (error)
		fgt_note("record", "%u of %u processes are missing: %s",
			 processes->count - recorder->count, processes->count,
			 last.text);
	return 0;
}

static void take_room(struct fgt_recorder *recorder, size_t bytes)
{
	recorder->left_bytes -=
		bytes < recorder->left_bytes ? bytes : recorder->left_bytes;
}

int fgt_recorder_new(struct fgt_sampler_options *options,
		     const struct fgt_processes *processes,
		     struct fgt_recorder **ret_recorder, struct fgt_why *why)
{
	FGT_AUTO(fgt_recorder_free) struct fgt_recorder *recorder = NULL;
	int r;

	recorder = calloc(1, sizeof(*recorder));
	if (!recorder)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	pthread_mutex_init(&recorder->mutex, NULL);
	pthread_cond_init(&recorder->changed, NULL);
	options->explain = explain;
	options->is_watched = true;
	options->context = recorder;
	r = start(recorder, options, why);
	if (r == 0)
		r = attach(recorder, processes, why);
	if (r < 0)
		return r;
	recorder->known = *processes;
	recorder->ring_bytes = options->ring.size_bytes;
	recorder->left_bytes = fgt_memory_limit() / 2;
	for (uint32_t i = 0; i < recorder->count; i++)
		take_room(recorder, recorder->ring_bytes);
	*ret_recorder = FGT_TAKE(recorder);
	return 0;
}

/* One that has ended meanwhile is among the children that were too brief. */
static void add(struct fgt_recorder *recorder, int32_t pid)
{
	size_t bytes = recorder->left_bytes / 2;
	struct fgt_why why;
	int r;

	if (bytes > recorder->ring_bytes)
		bytes = recorder->ring_bytes;
	if (bytes < RING_BYTES_MIN) {
		recorder->missing++;
		return;
	}
	r = fgt_sampler_add(recorder->sampler, pid, bytes,
			    &recorder->targets[recorder->count], &why);
	if (r == 0) {
		recorder->count++;
		take_room(recorder, bytes);
	} else if (r != -ESRCH) {
		recorder->missing++;
	}
}

void fgt_recorder_follow(struct fgt_recorder *recorder)
{
	uint32_t known = recorder->known.count;
	struct fgt_why why;
	int more = fgt_processes_add_below(&recorder->known, &why);

	recorder->is_following = true;
	if (more >= 0)
		recorder->unlisted = (uint32_t)more;
	for (uint32_t i = known; i < recorder->known.count; i++)
		add(recorder, recorder->known.pids[i]);
}

/* A look a second misses those that live for less. */
void fgt_recorder_note_missing(const struct fgt_recorder *recorder)
{
	struct fgt_target_status status;
	uint64_t brief = 0;

	for (uint32_t i = 0; i < recorder->count; i++) {
		fgt_target_get_status(recorder->targets[i], &status);
		brief += status.unsampled_children;
	}
	if (brief)
		fgt_note("record",
			 "%llu child process%s ended without being sampled: %s",
			 (unsigned long long)brief, brief == 1 ? "" : "es",
			 recorder->is_following
				 ? "they lived for less than a second, or "
				   "there was no room for them"
				 : "record with --children to have those that "
				   "live for a second or more");
	if (recorder->missing + recorder->unlisted)
		fgt_note("record",
			 "%u processes could not be sampled, or had no room",
			 recorder->missing + recorder->unlisted);
}

void fgt_recorder_free(struct fgt_recorder *recorder)
{
	if (!recorder)
		return;
	if (recorder->sampler)
		fgt_sampler_stop(recorder->sampler);
	end_watching(recorder);
	fgt_sampler_free(recorder->sampler);
	for (uint32_t i = 0; i < recorder->count; i++)
		fgt_target_put(recorder->targets[i]);
	fgt_image_cache_free(recorder->cache);
	fgt_reader_end();
	pthread_cond_destroy(&recorder->changed);
	pthread_mutex_destroy(&recorder->mutex);
	free(recorder);
}

void fgt_recorder_get_status(struct fgt_recorder *recorder,
			     struct fgt_target_status *ret_status)
{
	struct fgt_target_status other;

	print_notes(recorder);
	fgt_target_get_status(recorder->targets[0], ret_status);
	for (uint32_t i = 1; i < recorder->count; i++) {
		fgt_target_get_status(recorder->targets[i], &other);
		ret_status->is_alive |= other.is_alive;
		ret_status->threads += other.threads;
		ret_status->unwind.stacks += other.unwind.stacks;
		ret_status->unwind.complete += other.unwind.complete;
	}
}

uint64_t fgt_recorder_since_exec(const struct fgt_recorder *recorder,
				 uint64_t from_ns)
{
	struct fgt_program program;

	fgt_target_get_program(recorder->targets[0], &program);
	return program.first_exec_ns > from_ns ? program.first_exec_ns
					       : from_ns;
}

static int cut_one(struct fgt_recorder *recorder, struct fgt_target *target,
		   uint64_t from_ns, uint64_t to_ns,
		   const struct fgt_config *config,
		   struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	bool is_live = fgt_target_is_alive(target);
	int r = fgt_ring_cut(fgt_target_ring(target), from_ns, to_ns, &slice);

	if (r == 0)
		r = fgt_slice_name_states(slice, fgt_state_name);
	if (r == 0)
		r = fgt_target_cut_spans(target, slice);
	if (r < 0)
		return r;
	fgt_target_cut_brief(target, slice);
	r = fgt_export_resolve(slice, config, recorder->cache, is_live);
	if (r == 0)
		*ret_slice = FGT_TAKE(slice);
	return r;
}

/* Processes without two ticks are left out, unless there is no other. */
static int cut_all(struct fgt_recorder *recorder, uint64_t from_ns,
		   uint64_t to_ns, const struct fgt_config *config,
		   struct fgt_ring_slice **ret_slice)
{
	struct fgt_ring_slice *slices[FGT_PROCESSES_MAX];
	uint32_t count = 0;
	int r = 0;

	for (uint32_t i = 0; i < recorder->count && r == 0; i++) {
		r = cut_one(recorder, recorder->targets[i], from_ns, to_ns,
			    config, &slices[count]);
		count += r == 0;
		if (r == -ENODATA)
			r = 0;
	}
	if (r == 0 && count == 1)
		*ret_slice = slices[--count];
	else if (r == 0)
		r = count ? fgt_slice_merge(
				    (const struct fgt_ring_slice *const *)
					    slices,
				    count, ret_slice)
			  : -ENODATA;
	while (count)
		fgt_ring_slice_free(slices[--count]);
	return r;
}

int fgt_recorder_finish(struct fgt_recorder *recorder, uint64_t from_ns,
			uint64_t to_ns, const struct fgt_config *config,
			struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	int r;

	fgt_sampler_stop(recorder->sampler);
	print_notes(recorder);
	r = cut_all(recorder, from_ns, to_ns, config, ret_slice);
	if (r == -ENODATA)
		return fgt_why_set(
			why, r,
			"fewer than two ticks were recorded, so there "
			"is nothing to write; record for longer, or "
			"faster with -r");
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot cut the recording: %s; free "
				   "memory or record for less time",
				   fgt_error_text(r));
	return 0;
}
