/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an ExportProfilesServiceRequest of OTLP (v1development): one profile
 * with the samples of all threads, and the dictionary. Each message begins with
 * its length, so what cannot be kept is written twice: first to count its
 * bytes. Runs in any thread; must not hold more than the samples of one thread
 * and the dictionary.
 */
#include <errno.h>
#include <string.h>

#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "upload/format/otlp/otlp_dictionary.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/thread_samples.h"
#include "upload/format/parts/timeline.h"

/* Fields of the messages in profiles_service.proto, profiles.proto,
 * resource.proto and common.proto. */
enum {
	REQUEST_RESOURCE_PROFILES = 1,
	REQUEST_DICTIONARY,
	RESOURCE_PROFILES_RESOURCE = 1,
	RESOURCE_PROFILES_SCOPE_PROFILES,
	RESOURCE_ATTRIBUTE = 1,
	SCOPE_PROFILES_SCOPE = 1,
	SCOPE_PROFILES_PROFILE,
	SCOPE_NAME = 1,
	SCOPE_VERSION,
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_TIME,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_ATTRIBUTES = 11,
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT,
	SAMPLE_STACK = 1,
	SAMPLE_ATTRIBUTES,
	SAMPLE_LINK,
	SAMPLE_VALUES,
	SAMPLE_TIMESTAMPS,
	KEY_VALUE_KEY = 1,
};

/* Readers refuse messages of 2 GiB. */
#define REQUEST_MAX INT32_MAX

struct otlp {
	const struct fgt_ring_slice *slice;
	enum fgt_otlp_shape shape;
	struct fgt_otlp_dictionary dictionary;
	struct fgt_thread_samples samples;
	struct fgt_protobuf *out;
	uint64_t begin_wall_ns; /* of the first tick, since the epoch */
	uint64_t profile_len;
	uint32_t thread_name, thread_id; /* attributes of the present thread */
	uint32_t process_id, process_title; /* likewise; 0: the resource's */
	int error; /* of reading samples; sticks */
};

/* Values are signed. */
static uint64_t wall_ns(const struct otlp *otlp, uint64_t periods)
{
	uint64_t period_ns = otlp->slice->period_ns;

	return periods > INT64_MAX / period_ns ? INT64_MAX
					       : periods * period_ns;
}

/* ---- Samples ------------------------------------------------------------ */

/* Calls put() for each tick of a sample. */
static void for_ticks(const struct otlp *otlp, const struct fgt_sample *sample,
		      void (*put)(const struct otlp *otlp, uint32_t tick))
{
	const struct fgt_sample_ticks *all = otlp->samples.ticks, *ticks;

	for (uint32_t at = sample->first_ticks; at; at = ticks->next) {
		ticks = &all[at - 1];
		for (uint32_t i = 0; i < ticks->tick_count; i++)
			put(otlp, ticks->first_tick + i);
	}
}

static void put_tick_value(const struct otlp *otlp, uint32_t tick)
{
	fgt_protobuf_put_packed(otlp->out,
				wall_ns(otlp, fgt_pace_at(otlp->slice, tick)));
}

/* Counted from the beginning: where the clock was set meanwhile, the profile
 * would not cover its samples. */
static void put_tick_time(const struct otlp *otlp, uint32_t tick)
{
	const uint64_t *tick_ns = otlp->slice->tick_ns;

	fgt_protobuf_put_packed64(
		otlp->out, otlp->begin_wall_ns + tick_ns[tick] - tick_ns[0]);
}

static void put_values(const struct otlp *otlp, const struct fgt_sample *sample)
{
	fgt_protobuf_begin(otlp->out, SAMPLE_VALUES);
	if (otlp->shape == FGT_OTLP_SUM)
		fgt_protobuf_put_packed(otlp->out,
					wall_ns(otlp, sample->periods));
	else
		for_ticks(otlp, sample, put_tick_value);
	fgt_protobuf_end(otlp->out);
	if (otlp->shape == FGT_OTLP_SUM)
		return;
	fgt_protobuf_begin(otlp->out, SAMPLE_TIMESTAMPS);
	for_ticks(otlp, sample, put_tick_time);
	fgt_protobuf_end(otlp->out);
}

static void put_attributes(struct otlp *otlp, uint32_t state)
{
	uint32_t state_name =
		fgt_otlp_attribute(&otlp->dictionary, FGT_OTLP_THREAD_STATE,
				   fgt_slice_state_name(otlp->slice, state), 0);

	fgt_protobuf_begin(otlp->out, SAMPLE_ATTRIBUTES);
	fgt_protobuf_put_packed(otlp->out, otlp->thread_name);
	if (otlp->thread_id)
		fgt_protobuf_put_packed(otlp->out, otlp->thread_id);
	if (otlp->process_id)
		fgt_protobuf_put_packed(otlp->out, otlp->process_id);
	if (otlp->process_title)
		fgt_protobuf_put_packed(otlp->out, otlp->process_title);
	fgt_protobuf_put_packed(otlp->out, state_name);
	fgt_protobuf_end(otlp->out);
}

static void put_sample(struct otlp *otlp, const struct fgt_sample *sample)
{
	fgt_protobuf_begin(otlp->out, PROFILE_SAMPLE);
	fgt_protobuf_put_uint(otlp->out, SAMPLE_STACK,
			      fgt_otlp_stack(&otlp->dictionary, sample->stack,
					     sample->state));
	put_attributes(otlp, sample->state);
	fgt_protobuf_put_uint(otlp->out, SAMPLE_LINK,
			      fgt_otlp_link(&otlp->dictionary, sample->link));
	put_values(otlp, sample);
	fgt_protobuf_end(otlp->out);
}

/* The resource names one process: of several each sample names its own. */
static void begin_process(struct otlp *otlp)
{
	struct fgt_process_of of =
		fgt_slice_process_of(otlp->slice, otlp->samples.thread);

	otlp->process_id = otlp->process_title = 0;
	if (fgt_slice_process_count(otlp->slice) == 1)
		return;
	if (of.pid > 0)
		otlp->process_id = fgt_otlp_attribute(&otlp->dictionary,
						      FGT_OTLP_PROCESS_ID, NULL,
						      (uint32_t)of.pid);
	otlp->process_title = fgt_otlp_attribute(
		&otlp->dictionary, FGT_OTLP_PROCESS_TITLE, of.title, 0);
}

static void begin_thread(struct otlp *otlp)
{
	const struct fgt_ring_slice *slice = otlp->slice;
	const struct fgt_slice_thread *thread =
		&slice->threads[otlp->samples.thread];
	char buffer[FGT_LEVEL_NAME_MAX];

	otlp->thread_name = fgt_otlp_attribute(
		&otlp->dictionary, FGT_OTLP_THREAD_NAME,
		fgt_level_thread_name(slice, thread, buffer), 0);
	otlp->thread_id = 0;
	if (thread->tid > 0)
		otlp->thread_id = fgt_otlp_attribute(&otlp->dictionary,
						     FGT_OTLP_THREAD_ID, NULL,
						     (uint32_t)thread->tid);
	begin_process(otlp);
}

static void put_samples(struct otlp *otlp)
{
	struct fgt_thread_samples *samples = &otlp->samples;
	int r;

	samples->next_run = 0;
	while ((r = fgt_thread_samples_next(samples)) == 1) {
		begin_thread(otlp);
		for (uint32_t i = 0; i < samples->ids.count; i++)
			put_sample(otlp, &samples->items[i]);
	}
	if (r)
		otlp->error = r;
}

/* ---- The profile -------------------------------------------------------- */

static void put_wall(struct otlp *otlp, uint32_t field)
{
	fgt_protobuf_begin(otlp->out, field);
	fgt_protobuf_put_uint(otlp->out, VALUE_TYPE_TYPE,
			      fgt_otlp_string(&otlp->dictionary, "wall"));
	fgt_protobuf_put_uint(
		otlp->out, VALUE_TYPE_UNIT,
		fgt_otlp_string(&otlp->dictionary, "nanoseconds"));
	fgt_protobuf_end(otlp->out);
}

/* What is missing: shares are of the ticks taken. */
static void put_profile_attributes(struct otlp *otlp)
{
	const struct fgt_ring_slice *slice = otlp->slice;
	const uint64_t counts[] = { slice->missed_ticks, slice->evicted_ticks,
				    slice->lapped_ticks };

	fgt_protobuf_begin(otlp->out, PROFILE_ATTRIBUTES);
	for (unsigned int i = 0; i < 3; i++)
		if (counts[i])
			fgt_protobuf_put_packed(
				otlp->out,
				fgt_otlp_attribute(
					&otlp->dictionary,
					(enum fgt_otlp_key)(
						FGT_OTLP_TICKS_MISSED + i),
					NULL, counts[i]));
	fgt_protobuf_end(otlp->out);
}

static void put_profile(struct otlp *otlp)
{
	const struct fgt_ring_slice *slice = otlp->slice;
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t end_ns = fgt_timeline_end_ns(slice, slice->tick_count - 1);

	put_wall(otlp, PROFILE_SAMPLE_TYPE);
	put_samples(otlp);
	fgt_protobuf_put_fixed64(otlp->out, PROFILE_TIME, otlp->begin_wall_ns);
	fgt_protobuf_put_uint(otlp->out, PROFILE_DURATION, end_ns - first_ns);
	put_wall(otlp, PROFILE_PERIOD_TYPE);
	fgt_protobuf_put_uint(otlp->out, PROFILE_PERIOD, wall_ns(otlp, 1));
	if (slice->missed_ticks || slice->evicted_ticks || slice->lapped_ticks)
		put_profile_attributes(otlp);
}

/* ---- What is around it -------------------------------------------------- */

/* text: NULL for a number. */
static void put_resource_attribute(const struct otlp *otlp, const char *key,
				   const char *text, uint64_t number)
{
	if (text ? !*text : !number)
		return;
	fgt_protobuf_begin(otlp->out, RESOURCE_ATTRIBUTE);
	fgt_protobuf_put_string(otlp->out, KEY_VALUE_KEY, key);
	fgt_otlp_put_value(otlp->out, text, number);
	fgt_protobuf_end(otlp->out);
}

/* Few: Pyroscope makes a label of a series of each. */
static void put_resource(const struct otlp *otlp)
{
	const struct fgt_process_info *process = &otlp->slice->process;
	const char *slash = strrchr(process->exe, '/');
	char name[FGT_SERVICE_TEXT_MAX];

	fgt_service_name(&process->service, process->name, name);
	fgt_protobuf_begin(otlp->out, RESOURCE_PROFILES_RESOURCE);
	put_resource_attribute(otlp, "service.name", *name ? name : "unknown",
			       0);
	for (size_t i = FGT_SERVICE_NAME + 1; i < FGT_SERVICE_TEXTS; i++)
		put_resource_attribute(
			otlp, fgt_service_texts[i].attribute,
			fgt_service_text_of(&process->service, i), 0);
	put_resource_attribute(otlp, "host.name", process->host, 0);
	put_resource_attribute(otlp, "process.pid", NULL,
			       (uint32_t)process->pid);
	put_resource_attribute(otlp, "process.executable.name",
			       slash ? slash + 1 : process->exe, 0);
	fgt_protobuf_end(otlp->out);
}

/* ScopeProfiles up to the fields of the profile. */
static void put_scope(struct otlp *otlp)
{
	fgt_protobuf_begin(otlp->out, SCOPE_PROFILES_SCOPE);
	fgt_protobuf_put_string(otlp->out, SCOPE_NAME, "fgtrace");
	fgt_protobuf_put_string(otlp->out, SCOPE_VERSION, FGT_VERSION);
	fgt_protobuf_end(otlp->out);
	fgt_protobuf_put_head(otlp->out, SCOPE_PROFILES_PROFILE,
			      otlp->profile_len);
}

static int count_nothing(void *context, const void *bytes, size_t len)
{
	(void)context;
	(void)bytes;
	(void)len;
	return 0;
}

/* How many bytes put() writes. */
static uint64_t count_bytes(struct otlp *otlp, void (*put)(struct otlp *otlp))
{
	const struct fgt_sink nowhere = { .write = count_nothing };
	struct fgt_protobuf counter, *out = otlp->out;
	int r;

	fgt_protobuf_init(&counter, &nowhere);
	otlp->out = &counter;
	put(otlp);
	r = fgt_protobuf_finish(&counter);
	if (r)
		otlp->error = r;
	fgt_protobuf_done(&counter);
	otlp->out = out;
	return counter.out.total_bytes;
}

/* ResourceProfiles up to the fields of the profile. */
static void put_resource_profiles(struct otlp *otlp)
{
	put_resource(otlp);
	fgt_protobuf_put_head(otlp->out, RESOURCE_PROFILES_SCOPE_PROFILES,
			      count_bytes(otlp, put_scope) + otlp->profile_len);
	put_scope(otlp);
}

static void put_dictionary(struct otlp *otlp)
{
	fgt_otlp_dictionary_put(&otlp->dictionary, &otlp->samples.links,
				otlp->out);
}

static int put_request(struct otlp *otlp)
{
	uint64_t resource_len, dictionary_len;

	/* Fills the dictionary as well. */
	otlp->profile_len = count_bytes(otlp, put_profile);
	resource_len =
		count_bytes(otlp, put_resource_profiles) + otlp->profile_len;
	dictionary_len = count_bytes(otlp, put_dictionary);
	if (otlp->error || otlp->dictionary.error)
		return otlp->error ? otlp->error : otlp->dictionary.error;
	if (resource_len + dictionary_len > REQUEST_MAX)
		return -EMSGSIZE;
	fgt_protobuf_put_head(otlp->out, REQUEST_RESOURCE_PROFILES,
			      resource_len);
	put_resource_profiles(otlp);
	put_profile(otlp);
	fgt_protobuf_put_head(otlp->out, REQUEST_DICTIONARY, dictionary_len);
	put_dictionary(otlp);
	return otlp->error ? otlp->error : otlp->dictionary.error;
}

int fgt_otlp_write(const struct fgt_ring_slice *slice,
		   const struct fgt_format_options *options,
		   const struct fgt_sink *sink)
{
	struct fgt_protobuf out;
	struct otlp otlp = { .slice = slice,
			     .shape = options->otlp_shape,
			     .begin_wall_ns = fgt_slice_wall_ns(
				     slice, slice->tick_ns[0]),
			     .out = &out };
	int r;

	fgt_protobuf_init(&out, sink);
	r = fgt_thread_samples_init(&otlp.samples, slice, options->facts,
				    otlp.shape == FGT_OTLP_TIMESTAMPS);
	if (!r)
		r = fgt_otlp_dictionary_init(&otlp.dictionary, slice,
					     options->state_frames);
	if (!r)
		r = put_request(&otlp);
	if (!r)
		r = fgt_protobuf_finish(&out);
	fgt_otlp_dictionary_done(&otlp.dictionary);
	fgt_thread_samples_done(&otlp.samples);
	fgt_protobuf_done(&out);
	return r;
}
