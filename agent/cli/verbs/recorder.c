/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampler in this program for one process. Runs in the command line's main
 * thread; sampling itself has a thread that the sampler starts.
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

#define NOTES_MAX      4u /* what comes when they are full is dropped */
#define NOTE_BYTES_MAX 240u

struct fgt_recorder {
	struct fgt_image_cache *cache;
	struct fgt_sampler *sampler;
	struct fgt_target *target;
	/* Protects the notes; nests inside nothing, nothing nests inside it. */
	pthread_mutex_t mutex;
	char notes[NOTES_MAX][NOTE_BYTES_MAX];
	unsigned int note_count;
};

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
		 const struct fgt_sampler_options *options, int32_t pid,
		 struct fgt_why *why)
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
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot start sampling: %s; free memory or "
				   "lower ring.memory_mb",
				   fgt_error_text(r));
	return fgt_sampler_attach(recorder->sampler, pid, 0, &recorder->target,
				  why);
}

int fgt_recorder_new(struct fgt_sampler_options *options, int32_t pid,
		     struct fgt_recorder **ret_recorder, struct fgt_why *why)
{
	FGT_AUTO(fgt_recorder_free) struct fgt_recorder *recorder = NULL;
	int r;

	recorder = calloc(1, sizeof(*recorder));
	if (!recorder)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	pthread_mutex_init(&recorder->mutex, NULL);
	options->explain = explain;
	options->context = recorder;
	r = start(recorder, options, pid, why);
	if (r < 0)
		return r;
	*ret_recorder = FGT_TAKE(recorder);
	return 0;
}

void fgt_recorder_free(struct fgt_recorder *recorder)
{
	if (!recorder)
		return;
	fgt_sampler_free(recorder->sampler);
	fgt_target_put(recorder->target);
	fgt_image_cache_free(recorder->cache);
	fgt_reader_end();
	pthread_mutex_destroy(&recorder->mutex);
	free(recorder);
}

void fgt_recorder_get_status(struct fgt_recorder *recorder,
			     struct fgt_target_status *ret_status)
{
	print_notes(recorder);
	fgt_target_get_status(recorder->target, ret_status);
}

uint64_t fgt_recorder_since_exec(const struct fgt_recorder *recorder,
				 uint64_t from_ns)
{
	struct fgt_program program;

	fgt_target_get_program(recorder->target, &program);
	return program.first_exec_ns > from_ns ? program.first_exec_ns
					       : from_ns;
}

int fgt_recorder_finish(struct fgt_recorder *recorder, uint64_t from_ns,
			uint64_t to_ns, const struct fgt_config *config,
			struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	bool is_live = fgt_target_is_alive(recorder->target);
	int r;

	fgt_sampler_stop(recorder->sampler);
	print_notes(recorder);
	r = fgt_ring_cut(fgt_target_ring(recorder->target), from_ns, to_ns,
			 &slice);
	if (r == -ENODATA)
		return fgt_why_set(
			why, r,
			"fewer than two ticks were recorded, so there "
			"is nothing to write; record for longer, or "
			"faster with -r");
	if (r == 0)
		r = fgt_slice_name_states(slice, fgt_state_name);
	if (r == 0)
		fgt_target_cut_brief(recorder->target, slice);
	if (r == 0)
		r = fgt_export_resolve(slice, config, recorder->cache, is_live);
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot cut the recording: %s; free "
				   "memory or record for less time",
				   fgt_error_text(r));
	*ret_slice = FGT_TAKE(slice);
	return 0;
}
