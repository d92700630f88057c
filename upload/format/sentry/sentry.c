/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The envelope of a transaction and its profile. Runs in any thread; must not
 * hold a body in memory.
 */
#include <errno.h>

#include "upload/format/parts/options.h"
#include "upload/format/parts/thread_runs.h"
#include "upload/format/sentry/sentry_envelope.h"
#include "upload/format/sentry/sentry_profile.h"
#include "upload/format/sentry/sentry_transaction.h"

struct envelope {
	const struct fgt_ring_slice *slice; /* of the profile */
	struct fgt_sentry_transaction transaction;
	struct fgt_sentry_profile profile;
	char profile_id[33];
};

/* Without facts of the program the transaction lasts as long as the profile,
 * whose ticks may still change. */
static void set_times(struct envelope *envelope)
{
	if (!envelope->transaction.options->facts)
		fgt_sentry_transaction_set_times(
			&envelope->transaction,
			fgt_sentry_profile_start_ns(&envelope->profile),
			fgt_sentry_profile_end_ns(&envelope->profile));
}

static int put_profile(void *context, struct fgt_json *json)
{
	struct envelope *envelope = context;
	struct fgt_sentry_transaction *transaction = &envelope->transaction;
	const struct fgt_ring_slice *slice = envelope->slice;
	uint64_t start_ns = fgt_sentry_profile_start_ns(&envelope->profile);
	int r;

	set_times(envelope);
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "version", "1");
	fgt_json_put_string(json, "event_id", envelope->profile_id);
	fgt_json_put_string(json, "platform", FGT_SENTRY_PLATFORM);
	fgt_json_put_time(
		json, "timestamp",
		fgt_sentry_transaction_wall_ns(transaction, start_ns));
	fgt_sentry_put_release(json, transaction->options);
	fgt_sentry_put_os_and_device(json, &slice->process, "architecture");
	fgt_json_begin_object(json, "transaction");
	fgt_json_put_string(json, "id", transaction->event_id);
	fgt_json_put_string(json, "name", transaction->name);
	fgt_json_put_string(json, "trace_id", transaction->trace_id);
	fgt_json_put_uint_string(
		json, "active_thread_id",
		(uint64_t)slice->threads[envelope->profile.active_thread].tid);
	fgt_json_end_object(json);
	fgt_sentry_images_put(slice, json);
	r = fgt_sentry_profile_put(&envelope->profile, json);
	fgt_json_end_object(json);
	return r;
}

/* profile: NULL without one. */
static int write_envelope(struct envelope *envelope,
			  const struct fgt_sentry_body *profile,
			  uint64_t profile_len, const struct fgt_sink *sink)
{
	struct fgt_sentry_transaction *item = &envelope->transaction;
	const struct fgt_sentry_body transaction = { fgt_sentry_transaction_put,
						     item };
	struct fgt_json json;
	uint64_t len;
	int r;

	r = fgt_sentry_count_body(&transaction, &len);
	if (r)
		return r;
	fgt_json_init(&json, sink);
	fgt_sentry_put_header(&json, item->event_id, item->options);
	r = fgt_sentry_put_item(&json, "transaction", NULL, &transaction, len);
	if (!r && profile)
		r = fgt_sentry_put_item(&json, "profile", NULL, profile,
					profile_len);
	return r ? r : fgt_json_finish(&json);
}

static int write_with_profile(struct envelope *envelope,
			      const struct fgt_sentry_scope *scope,
			      const struct fgt_sink *sink)
{
	const struct fgt_sentry_body profile = { put_profile, envelope };
	uint64_t profile_len;
	int r;

	r = fgt_sentry_make_id(envelope->profile_id, 16);
	if (!r)
		r = fgt_sentry_profile_fit(&envelope->profile, envelope->slice,
					   scope, &profile, &profile_len);
	if (!r) {
		envelope->transaction.slice = envelope->slice;
		envelope->transaction.profile = &envelope->profile;
		r = write_envelope(envelope, &profile, profile_len, sink);
	}
	fgt_sentry_profile_done(&envelope->profile);
	return r;
}

static int write_slice(const struct fgt_ring_slice *slice,
		       const struct fgt_format_options *options,
		       const struct fgt_sink *sink)
{
	struct envelope envelope = { .slice = slice };
	const struct fgt_sentry_scope scope = {
		.state_frames = options->state_frames,
	};
	int r = fgt_sentry_transaction_init(&envelope.transaction, slice,
					    options);

	return r ? r : write_with_profile(&envelope, &scope, sink);
}

/* A program's transaction is written with or without samples: a short one may
 * lie between two ticks, and the profile of a long one is sent in chunks. */
static int write_transaction(const struct fgt_ring_slice *slice,
			     const struct fgt_format_options *options,
			     const struct fgt_sink *sink)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct envelope envelope = { .slice = slice };
	struct fgt_sentry_scope scope = { .state_frames = options->state_frames,
					  .facts = options->facts };
	uint64_t begin_ns, end_ns;
	int r = fgt_sentry_transaction_init(&envelope.transaction, slice,
					    options);

	if (r)
		return r;
	fgt_sentry_facts_range(options->facts, slice, &begin_ns, &end_ns);
	fgt_sentry_transaction_set_times(&envelope.transaction, begin_ns,
					 end_ns);
	scope.zero_ns = begin_ns;
	r = fgt_sentry_given(options->profiler_id)
		    ? -ENODATA
		    : fgt_slice_narrow(slice, begin_ns, end_ns, 0, &part);
	if (!r)
		r = fgt_thread_runs_clip(options->facts, part);
	if (!r) {
		envelope.slice = part;
		r = write_with_profile(&envelope, &scope, sink);
	}
	return r == -ENODATA ? write_envelope(&envelope, NULL, 0, sink) : r;
}

int fgt_sentry_write(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink)
{
	return options->facts ? write_transaction(slice, options, sink)
			      : write_slice(slice, options, sink);
}
