/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The envelope of a transaction, from the facts of the program, or without them
 * from the slice; and of its profile. Runs in any thread; must not hold a body
 * in memory, and must write the same bytes each time, since the first pass only
 * counts them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "upload/format/parts/options.h"
#include "upload/format/parts/thread_runs.h"
#include "upload/format/sentry/sentry_envelope.h"
#include "upload/format/sentry/sentry_transaction.h"

static const char *or_unknown(const char *text)
{
	return *text ? text : "unknown";
}

static int choose_span_id(const char *wanted, char ret_id[17])
{
	if (!fgt_sentry_given(wanted))
		return fgt_sentry_make_id(ret_id, 8);
	if (strlen(wanted) != 16 || strspn(wanted, "0123456789abcdef") != 16 ||
	    strspn(wanted, "0") == 16)
		return -EINVAL;
	memcpy(ret_id, wanted, 17);
	return 0;
}

/* Name and ids are those of the options, else made here. */
static int init_transaction(struct fgt_sentry_transaction *transaction,
			    const struct fgt_ring_slice *slice,
			    const struct fgt_format_options *options)
{
	const struct fgt_transaction_facts *facts = options->facts;
	int r;

	*transaction = (struct fgt_sentry_transaction){ .slice = slice,
							.whole = slice,
							.options = options };
	transaction->name = fgt_sentry_given(options->transaction);
	if (!transaction->name && facts)
		transaction->name = fgt_sentry_given(facts->name);
	if (!transaction->name)
		transaction->name = or_unknown(slice->process.name);
	r = fgt_sentry_choose_id(!fgt_sentry_given(options->event_id) && facts
					 ? facts->event_id
					 : options->event_id,
				 transaction->event_id);
	if (!r)
		r = fgt_sentry_choose_id(facts ? facts->trace_id : NULL,
					 transaction->trace_id);
	if (!r)
		r = choose_span_id(facts ? facts->span_id : NULL,
				   transaction->span_id);
	return r;
}

/* The wall clock at another instant of the transaction. */
static uint64_t wall_ns_at(const struct fgt_sentry_transaction *transaction,
			   uint64_t mono_ns)
{
	return transaction->begin_wall_ns + (mono_ns - transaction->begin_ns);
}

static void set_times(struct fgt_sentry_transaction *transaction,
		      uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t wall_ns = fgt_slice_wall_ns(transaction->slice, begin_ns);

	transaction->begin_ns = begin_ns;
	transaction->end_ns = end_ns;
	/* Transactions have µs; both items must have the same instant. */
	transaction->begin_wall_ns = wall_ns - wall_ns % 1000;
	transaction->end_wall_ns = wall_ns_at(transaction, end_ns);
}

void fgt_sentry_facts_range(const struct fgt_transaction_facts *facts,
			    const struct fgt_ring_slice *slice,
			    uint64_t *ret_begin_ns, uint64_t *ret_end_ns)
{
	uint64_t begin_ns = facts->begin_ns, end_ns = facts->end_ns;

	if (!end_ns)
		end_ns = slice->tick_ns[slice->tick_count - 1];
	if (!begin_ns) {
		begin_ns = slice->tick_ns[0];
		if (end_ns > begin_ns &&
		    end_ns - begin_ns > FGT_SENTRY_PROFILE_MAX_NS)
			begin_ns = end_ns - FGT_SENTRY_PROFILE_MAX_NS;
	}
	/* The facts have one of the times, and it lies outside of the slice. */
	if (begin_ns > end_ns)
		begin_ns = end_ns;
	*ret_begin_ns = begin_ns;
	*ret_end_ns = end_ns;
}

/* "os": {…} and "device": {…} into an open object. */
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

/* ---- Contexts ---------------------------------------------------------- */

static void put_thread(const struct fgt_sentry_transaction *transaction,
		       struct fgt_json *json)
{
	const struct fgt_ring_slice *slice = transaction->slice;
	const struct fgt_transaction_facts *facts = transaction->options->facts;
	int32_t tid = facts && facts->active_tid ? facts->active_tid
						 : transaction->active_tid;
	uint32_t thread;

	if (transaction->profile)
		tid = slice->threads[transaction->profile->active_thread].tid;
	if (tid <= 0)
		return;
	fgt_json_begin_object(json, "data");
	fgt_json_put_uint_string(json, "thread.id", (uint64_t)tid);
	thread = fgt_slice_find_thread(slice, tid);
	if (thread < slice->thread_count)
		fgt_json_put_string(
			json, "thread.name",
			fgt_slice_string(slice, slice->threads[thread].name));
	fgt_json_end_object(json);
}

static void put_trace(const struct fgt_sentry_transaction *transaction,
		      struct fgt_json *json)
{
	const struct fgt_transaction_facts *facts = transaction->options->facts;
	const char *op = facts ? fgt_sentry_given(facts->op) : NULL;
	const char *status = facts ? fgt_sentry_given(facts->status) : NULL;

	fgt_json_begin_object(json, "trace");
	fgt_json_put_string(json, "trace_id", transaction->trace_id);
	fgt_json_put_string(json, "span_id", transaction->span_id);
	if (facts && facts->parent_span_id[0])
		fgt_json_put_string(json, "parent_span_id",
				    facts->parent_span_id);
	fgt_json_put_string(json, "op", op ? op : "profile.slice");
	fgt_json_put_string(json, "status", status ? status : "ok");
	put_thread(transaction, json);
	fgt_json_end_object(json);
}

static void put_contexts(const struct fgt_sentry_transaction *transaction,
			 struct fgt_json *json)
{
	const char *profiler_id =
		fgt_sentry_given(transaction->options->profiler_id);

	fgt_json_begin_object(json, "contexts");
	put_trace(transaction, json);
	if (profiler_id) {
		fgt_json_begin_object(json, "profile");
		fgt_json_put_string(json, "profiler_id", profiler_id);
		fgt_json_end_object(json);
	}
	put_os_and_device(json, &transaction->slice->process, "arch");
	fgt_json_end_object(json);
}

/* ---- The rest ---------------------------------------------------------- */

/* The tasks and spans of the program; of a transaction, in its threads only. */
static int put_spans(const struct fgt_sentry_transaction *transaction,
		     struct fgt_json *json)
{
	const struct fgt_transaction_facts *facts = transaction->options->facts;
	const struct fgt_sentry_spans spans = {
		.slice = transaction->whole,
		.begin_ns = transaction->begin_ns,
		.end_ns = transaction->end_ns,
		.begin_wall_ns = transaction->begin_wall_ns,
		.trace_id = transaction->trace_id,
		.span_id = transaction->span_id,
		.thread_runs = facts ? facts->thread_runs : NULL,
		.thread_run_count = facts ? facts->thread_run_count : 0,
	};

	return fgt_sentry_spans_put(&spans, json);
}

static int put_transaction(void *context, struct fgt_json *json)
{
	const struct fgt_sentry_transaction *transaction = context;
	const struct fgt_transaction_facts *facts = transaction->options->facts;
	int r;

	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "type", "transaction");
	fgt_json_put_string(json, "event_id", transaction->event_id);
	fgt_json_put_string(json, "transaction", transaction->name);
	fgt_json_begin_object(json, "transaction_info");
	fgt_json_put_string(json, "source", "custom");
	fgt_json_end_object(json);
	fgt_json_put_decimal(json, "start_timestamp",
			     transaction->begin_wall_ns / 1000, 6);
	fgt_json_put_decimal(json, "timestamp", transaction->end_wall_ns / 1000,
			     6);
	if (facts && fgt_sentry_given(facts->level))
		fgt_json_put_string(json, "level", facts->level);
	fgt_json_put_string(json, "platform", FGT_SENTRY_PLATFORM);
	fgt_sentry_put_release(json, transaction->options,
			       &transaction->slice->process.service);
	if (transaction->slice->process.host[0])
		fgt_json_put_string(json, "server_name",
				    transaction->slice->process.host);
	fgt_sentry_put_tags(json, transaction->slice, facts);
	put_contexts(transaction, json);
	fgt_sentry_put_extra(transaction, json);
	fgt_sentry_put_sdk(json, "sdk");
	r = put_spans(transaction, json);
	fgt_json_end_object(json);
	return r;
}

/* ---- The envelope ------------------------------------------------------- */

struct envelope {
	const struct fgt_ring_slice *slice; /* of the profile */
	struct fgt_sentry_transaction transaction;
	struct fgt_sentry_profile profile;
	char profile_id[33];
};

static int put_profile(void *context, struct fgt_json *json)
{
	struct envelope *envelope = context;
	struct fgt_sentry_transaction *transaction = &envelope->transaction;
	const struct fgt_ring_slice *slice = envelope->slice;
	uint64_t start_ns = fgt_sentry_profile_start_ns(&envelope->profile);
	int r;

	/* Without facts of the program the transaction lasts as long as the
	 * profile, whose ticks may still change. */
	if (!transaction->options->facts)
		set_times(transaction, start_ns,
			  fgt_sentry_profile_end_ns(&envelope->profile));
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "version", "1");
	fgt_json_put_string(json, "event_id", envelope->profile_id);
	fgt_json_put_string(json, "platform", FGT_SENTRY_PLATFORM);
	fgt_json_put_time(json, "timestamp", wall_ns_at(transaction, start_ns));
	fgt_sentry_put_release(json, transaction->options,
			       &transaction->slice->process.service);
	put_os_and_device(json, &slice->process, "architecture");
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
	const struct fgt_sentry_body transaction = { put_transaction, item };
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

/* Its profile leaves in chunks: the transaction names the busiest thread. */
static int write_apart(struct envelope *envelope,
		       const struct fgt_sentry_scope *scope,
		       const struct fgt_sink *sink)
{
	struct fgt_sentry_transaction *transaction = &envelope->transaction;
	const struct fgt_ring_slice *slice = envelope->slice;
	int r = fgt_sentry_profile_init(&envelope->profile, slice, scope);

	if (r)
		return r;
	transaction->active_tid =
		slice->threads[envelope->profile.active_thread].tid;
	fgt_sentry_profile_done(&envelope->profile);
	set_times(transaction, slice->tick_ns[0],
		  slice->tick_ns[slice->tick_count - 1]);
	return write_envelope(envelope, NULL, 0, sink);
}

static int write_slice(const struct fgt_ring_slice *slice,
		       const struct fgt_format_options *options,
		       const struct fgt_sink *sink)
{
	struct envelope envelope = { .slice = slice };
	const struct fgt_sentry_scope scope = {
		.state_frames = options->state_frames,
	};
	int r = init_transaction(&envelope.transaction, slice, options);

	if (r)
		return r;
	return fgt_sentry_given(options->profiler_id) ||
			       options->without_profile
		       ? write_apart(&envelope, &scope, sink)
		       : write_with_profile(&envelope, &scope, sink);
}

/* The busiest thread of a time, for a transaction that no thread began; 0:
 * none. */
static int32_t find_active_tid(const struct fgt_ring_slice *slice,
			       const struct fgt_sentry_scope *scope,
			       uint64_t begin_ns, uint64_t end_ns)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_sentry_profile profile;
	int32_t tid = 0;

	if (fgt_slice_narrow(slice, begin_ns, end_ns, 0, &part))
		return 0;
	if (!fgt_sentry_profile_init(&profile, part, scope)) {
		tid = part->threads[profile.active_thread].tid;
		fgt_sentry_profile_done(&profile);
	}
	return tid;
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
	int r = init_transaction(&envelope.transaction, slice, options);

	if (r)
		return r;
	fgt_sentry_facts_range(options->facts, slice, &begin_ns, &end_ns);
	set_times(&envelope.transaction, begin_ns, end_ns);
	scope.zero_ns = begin_ns;
	if (fgt_sentry_given(options->profiler_id) &&
	    !options->facts->active_tid)
		envelope.transaction.active_tid =
			find_active_tid(slice, &scope, begin_ns, end_ns);
	r = fgt_sentry_given(options->profiler_id) || options->without_profile
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
