/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames a Sentry envelope: header, transaction, profile, each on a line of
 * its own, each item's length told before its body (formats/sentry.md (b) to
 * (e)). Runs in any thread; must not hold a body: bodies are written twice,
 * first only to be counted.
 */
#include "upload/format/sentry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "ringbuf/pace.h"
#include "upload/format/json.h"
#include "upload/format/sentry_profile.h"
#include "upload/format/sentry_rate.h"

/* Old Relays refuse larger profiles: not each tick is told from here on. */
#define PROFILE_PLEASANT_BYTES (10u << 20)
/* Every Relay refuses them above 50 MiB: older ticks are left out. */
#define PROFILE_MAX_BYTES (48u << 20)

struct envelope {
	const struct fgt_slice *slice;
	const struct fgt_format_options *options;
	struct fgt_sentry_profile profile;
	const char *transaction; /* its name */
	char event_id[33], profile_id[33], trace_id[33], span_id[17];
	uint64_t sent_at_ns;
	uint64_t start_wall_ns, end_wall_ns; /* whole µs */
};

static const char *given(const char *text)
{
	return text && *text ? text : NULL;
}

static int random_hex(char *hex, size_t bytes)
{
	unsigned char random[16];

	if (getrandom(random, bytes, 0) != (ssize_t)bytes)
		return errno ? -errno : -EIO;
	random[0] |= 1; /* ids of zeros are refused */
	for (size_t i = 0; i < bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/* 32 hex digits, not all zero; kept in lower case. */
static int take_event_id(const char *text, char event_id[33])
{
	bool is_nil = true;

	if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
		return -EINVAL;
	for (size_t i = 0; i <= 32; i++) {
		char c = text[i];

		if (c >= 'A' && c <= 'F')
			c = (char)(c - 'A' + 'a');
		event_id[i] = c;
		is_nil &= c == '0' || !c;
	}
	return is_nil ? -EINVAL : 0;
}

static int make_ids(struct envelope *envelope)
{
	const char *event_id = given(envelope->options->event_id);
	int r;

	r = event_id ? take_event_id(event_id, envelope->event_id)
		     : random_hex(envelope->event_id, 16);
	if (!r)
		r = random_hex(envelope->profile_id, 16);
	if (!r)
		r = random_hex(envelope->trace_id, 16);
	if (!r)
		r = random_hex(envelope->span_id, 8);
	return r;
}

static void read_clocks(struct envelope *envelope)
{
	const struct fgt_sentry_profile *profile = &envelope->profile;
	uint64_t start_ns = fgt_sentry_profile_start_ns(profile);
	uint64_t wall_ns = fgt_slice_wall_ns(envelope->slice, start_ns);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	envelope->sent_at_ns =
		(uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	/* Transactions keep µs; both items must tell the same instant. The
	 * end is start + duration, so that a stepped clock cannot turn it. */
	envelope->start_wall_ns = wall_ns - wall_ns % 1000;
	envelope->end_wall_ns = envelope->start_wall_ns +
				fgt_sentry_profile_end_ns(profile) - start_ns;
}

static const char *or_unknown(const char *text)
{
	return *text ? text : "unknown";
}

static const struct fgt_slice_thread *
active_thread(const struct envelope *envelope)
{
	return &envelope->slice->threads[envelope->profile.active_thread];
}

static void put_sdk(struct fgt_json *json)
{
	fgt_json_begin_object(json, "sdk");
	fgt_json_put_string(json, "name", "fgtrace.native");
	fgt_json_put_string(json, "version", FGT_VERSION);
	fgt_json_end_object(json);
}

/* Null would be refused: absent keys are left out. */
static void put_release(struct fgt_json *json,
			const struct fgt_format_options *options)
{
	if (given(options->release))
		fgt_json_put_string(json, "release", options->release);
	if (given(options->environment))
		fgt_json_put_string(json, "environment", options->environment);
}

static void put_os_and_device(struct fgt_json *json,
			      const struct fgt_process_info *process,
			      const char *architecture_key)
{
	fgt_json_begin_object(json, "os");
	fgt_json_put_string(json, "name", "Linux");
	fgt_json_put_string(json, "version", or_unknown(process->os_release));
	fgt_json_end_object(json);
	fgt_json_begin_object(json, "device");
	fgt_json_put_string(json, architecture_key, or_unknown(process->arch));
	fgt_json_end_object(json);
}

static void put_contexts(const struct envelope *envelope, struct fgt_json *json)
{
	const struct fgt_slice_thread *thread = active_thread(envelope);

	fgt_json_begin_object(json, "contexts");
	fgt_json_begin_object(json, "trace");
	fgt_json_put_string(json, "trace_id", envelope->trace_id);
	fgt_json_put_string(json, "span_id", envelope->span_id);
	fgt_json_put_string(json, "op", "profile.slice");
	fgt_json_put_string(json, "status", "ok");
	fgt_json_begin_object(json, "data");
	fgt_json_put_uint_string(json, "thread.id", (uint64_t)thread->tid);
	fgt_json_put_string(json, "thread.name",
			    fgt_slice_string(envelope->slice, thread->name));
	fgt_json_end_object(json);
	fgt_json_end_object(json);
	put_os_and_device(json, &envelope->slice->process, "arch");
	fgt_json_end_object(json);
}

/* What of the slice is missing here, and why. */
static void put_extra(const struct envelope *envelope, struct fgt_json *json)
{
	const struct fgt_slice *slice = envelope->slice;
	const struct fgt_sentry_profile *profile = &envelope->profile;
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	fgt_json_begin_object(json, "extra");
	fgt_json_put_int(json, "pid", slice->process.pid);
	fgt_json_put_string(json, "exe", slice->process.exe);
	fgt_json_put_double(json, "effective_hz", slice->effective_hz);
	if (slowest > 1)
		fgt_json_put_string(json, "lowered",
				    "samples are rarer for a while, to keep "
				    "sampling.max_cpu_percent; durations are "
				    "exact");
	fgt_json_put_time(json, "requested_from",
			  fgt_slice_wall_ns(slice, slice->requested_from_ns));
	fgt_json_put_time(json, "requested_to",
			  fgt_slice_wall_ns(slice, slice->requested_to_ns));
	fgt_json_put_uint_string(json, "missed_ticks", slice->missed_ticks);
	fgt_json_put_uint_string(json, "evicted_ticks", slice->evicted_ticks);
	fgt_json_put_uint_string(json, "lapped_ticks", slice->lapped_ticks);
	fgt_json_put_uint(json, "cut_ticks", profile->cut_ticks);
	fgt_json_put_uint(json, "single_sample_threads",
			  profile->dropped_threads);
	if (profile->cut_ticks)
		fgt_json_put_string(json, "cut",
				    "the oldest ticks were left out: a profile "
				    "holds at most 30 s and 48 MiB");
	fgt_json_put_uint(json, "thinned_threads", profile->thinned_threads);
	if (profile->thinned_threads)
		fgt_json_put_string(json, "thinned",
				    "of so many threads only changes are told, "
				    "to stay below 10 MiB: the least busy "
				    "ones; durations are exact");
	fgt_json_end_object(json);
}

static int put_transaction(const struct envelope *envelope,
			   struct fgt_json *json)
{
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "type", "transaction");
	fgt_json_put_string(json, "event_id", envelope->event_id);
	fgt_json_put_string(json, "transaction", envelope->transaction);
	fgt_json_begin_object(json, "transaction_info");
	fgt_json_put_string(json, "source", "custom");
	fgt_json_end_object(json);
	fgt_json_put_decimal(json, "start_timestamp",
			     envelope->start_wall_ns / 1000, 6);
	fgt_json_put_decimal(json, "timestamp", envelope->end_wall_ns / 1000,
			     6);
	fgt_json_put_string(json, "platform", "native");
	put_release(json, envelope->options);
	if (envelope->slice->process.host[0])
		fgt_json_put_string(json, "server_name",
				    envelope->slice->process.host);
	put_contexts(envelope, json);
	put_extra(envelope, json);
	put_sdk(json);
	fgt_json_end_object(json);
	return 0;
}

/*
 * Debug id of a little-endian ELF file: the build id's first 16 bytes, the
 * first three fields of the UUID turned round (formats/sentry.md (g)).
 */
static void put_debug_id(struct fgt_json *json,
			 const struct fgt_slice_image *image)
{
	static const unsigned char order[16] = { 3, 2, 1,  0,  5,  4,  7,  6,
						 8, 9, 10, 11, 12, 13, 14, 15 };
	char text[40];
	size_t at = 0;

	for (size_t i = 0; i < 16; i++) {
		unsigned int byte = 0;

		if (order[i] < image->build_id_len)
			byte = image->build_id[order[i]];
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[at++] = '-';
		snprintf(text + at, 3, "%02x", byte);
		at += 2;
	}
	fgt_json_put_string(json, "debug_id", text);
}

/* "elf" would be refused as a type here, "symbolic" stands for any. */
static void put_debug_meta(const struct envelope *envelope,
			   struct fgt_json *json)
{
	const struct fgt_slice *slice = envelope->slice;

	fgt_json_begin_object(json, "debug_meta");
	fgt_json_begin_array(json, "images");
	for (uint32_t i = 0; i < slice->image_count; i++) {
		const struct fgt_slice_image *image = &slice->images[i];

		if (!image->build_id_len || image->end <= image->start)
			continue;
		fgt_json_begin_object(json, NULL);
		fgt_json_put_string(json, "type", "symbolic");
		put_debug_id(json, image);
		fgt_json_put_string(json, "code_file",
				    fgt_slice_string(slice, image->path));
		fgt_json_put_hex_string(json, "image_addr", image->start);
		fgt_json_put_hex_string(json, "image_vmaddr",
					image->start - image->bias);
		fgt_json_put_uint(json, "image_size",
				  image->end - image->start);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
	fgt_json_end_object(json);
}

static int put_profile(const struct envelope *envelope, struct fgt_json *json)
{
	int r;

	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "version", "1");
	fgt_json_put_string(json, "event_id", envelope->profile_id);
	fgt_json_put_string(json, "platform", "native");
	fgt_json_put_time(json, "timestamp", envelope->start_wall_ns);
	put_release(json, envelope->options);
	put_os_and_device(json, &envelope->slice->process, "architecture");
	fgt_json_begin_object(json, "transaction");
	fgt_json_put_string(json, "id", envelope->event_id);
	fgt_json_put_string(json, "name", envelope->transaction);
	fgt_json_put_string(json, "trace_id", envelope->trace_id);
	fgt_json_put_uint_string(json, "active_thread_id",
				 (uint64_t)active_thread(envelope)->tid);
	fgt_json_end_object(json);
	put_debug_meta(envelope, json);
	r = fgt_sentry_profile_put(&envelope->profile, json);
	fgt_json_end_object(json);
	return r;
}

typedef int put_body(const struct envelope *envelope, struct fgt_json *json);

static int forget(void *context, const void *bytes, size_t len)
{
	(void)context;
	(void)bytes;
	(void)len;
	return 0;
}

/* The first pass: how long a body is. */
static int count_body(const struct envelope *envelope, put_body *put,
		      uint64_t *ret_len)
{
	const struct fgt_sink sink = { .write = forget, .context = NULL };
	struct fgt_json json;
	int r;

	fgt_json_init(&json, &sink);
	r = put(envelope, &json);
	if (!r)
		r = fgt_json_finish(&json);
	if (!r)
		*ret_len = json.out.total_bytes;
	return r;
}

static int put_item(const struct envelope *envelope, struct fgt_json *json,
		    const char *type, put_body *put, uint64_t len)
{
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "type", type);
	fgt_json_put_uint(json, "length", len);
	fgt_json_put_string(json, "content_type", "application/json");
	fgt_json_end_object(json);
	fgt_json_newline(json);
	return put(envelope, json);
}

static void put_header(const struct envelope *envelope, struct fgt_json *json)
{
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "event_id", envelope->event_id);
	if (given(envelope->options->dsn))
		fgt_json_put_string(json, "dsn", envelope->options->dsn);
	put_sdk(json);
	fgt_json_put_time(json, "sent_at", envelope->sent_at_ns);
	fgt_json_end_object(json);
	fgt_json_newline(json);
}

static int write_envelope(const struct envelope *envelope, uint64_t profile_len,
			  const struct fgt_sink *sink)
{
	struct fgt_json json;
	uint64_t len;
	int r;

	r = count_body(envelope, put_transaction, &len);
	if (r)
		return r;
	fgt_json_init(&json, sink);
	put_header(envelope, &json);
	r = put_item(envelope, &json, "transaction", put_transaction, len);
	if (r)
		return r;
	fgt_json_newline(&json);
	r = put_item(envelope, &json, "profile", put_profile, profile_len);
	if (r)
		return r;
	fgt_json_newline(&json);
	return fgt_json_finish(&json);
}

/* Tells ticks between changes as far as there is room. */
static int use_room(struct envelope *envelope, uint64_t *profile_len)
{
	uint64_t len = *profile_len;
	int r;

	if (len >= PROFILE_PLEASANT_BYTES)
		return 0;
	r = fgt_sentry_rate_raise(&envelope->profile,
				  PROFILE_PLEASANT_BYTES - len);
	return r ? r : count_body(envelope, put_profile, profile_len);
}

/* Takes ticks away until the profile is small enough, then fills it up. */
static int plan(struct envelope *envelope, uint64_t *ret_profile_len)
{
	struct fgt_sentry_profile *profile = &envelope->profile;
	uint32_t first_tick = 0;
	uint64_t len;
	int r;

	for (;;) {
		r = fgt_sentry_profile_init(profile, envelope->slice,
					    envelope->options->state_frames,
					    first_tick);
		if (r)
			return r;
		read_clocks(envelope);
		r = count_body(envelope, put_profile, &len);
		if (!r)
			r = use_room(envelope, &len);
		if (r || len <= PROFILE_MAX_BYTES)
			break;
		first_tick = profile->first_tick +
			     (profile->last_tick - profile->first_tick) / 4 + 1;
		fgt_sentry_profile_done(profile);
	}
	*ret_profile_len = len;
	return r;
}

int fgt_sentry_write(const struct fgt_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink)
{
	struct envelope envelope = { .slice = slice, .options = options };
	uint64_t profile_len;
	int r;

	envelope.transaction = given(options->transaction);
	if (!envelope.transaction)
		envelope.transaction = or_unknown(slice->process.name);
	r = make_ids(&envelope);
	if (!r)
		r = plan(&envelope, &profile_len);
	if (!r)
		r = write_envelope(&envelope, profile_len, sink);
	fgt_sentry_profile_done(&envelope.profile);
	return r;
}
