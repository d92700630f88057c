/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets slices and answers with them. Runs in the thread of a connection, in a
 * process without rights: the bytes of a slice may be hostile.
 */
#include "agent/http/slice_routes.h"

#include <errno.h>
#include <stdio.h>

#include "agent/http/thin.h"
#include "agent/http/wish.h"
#include "ringbuf/base/json.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/slice_codec.h"

#define SLICE_MAX_BYTES ((size_t)256 << 20)

/* ---- Getting it ---------------------------------------------------------- */

struct cutting {
	const struct fgt_web_call *call;
	struct fgt_web_cut cut;
	size_t room_bytes; /* for the slices that are still to come */
};

static int cut_one(void *context, int32_t pid, const struct fgt_range *range,
		   struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	struct cutting *cutting = context;
	const struct fgt_web_source *source = cutting->call->site->source;
	struct fgt_web_cut cut = cutting->cut;
	struct fgt_memory_sink bytes;
	int r;

	cut.choice.pid = pid;
	cut.range = *range;
	fgt_memory_sink_init(&bytes, cutting->room_bytes);
	r = source->cut(source->context, &cut, &bytes.sink, why);
	if (r == -EMSGSIZE)
		r = fgt_why_set(why, -ENOMEM,
				"the slice does not fit into memory: ask for "
				"a shorter time");
	if (r == 0)
		r = fgt_slice_decode(bytes.bytes, bytes.len_bytes, ret_slice,
				     why);
	if (r == 0)
		cutting->room_bytes -= bytes.len_bytes;
	fgt_memory_sink_done(&bytes);
	return r;
}

/* Of several processes those that can be had. */
static int cut_slices(struct cutting *cutting,
		      struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *targets = NULL;
	const struct fgt_web_source *source = cutting->call->site->source;
	const struct fgt_several several = {
		.choice = cutting->cut.choice,
		.range = cutting->cut.range,
		.cut = cut_one,
		.context = cutting,
	};
	struct fgt_several_missing missing;
	int r = 0;

	if (source->ask && fgt_several_fit(&several.choice))
		r = source->ask(source->context, "targets", &targets, why);
	return r < 0 ? r
		     : fgt_several_cut(&several, targets, ret_slice, &missing,
				       why);
}

static int get_slice(const struct fgt_web_call *call, struct fgt_web_wish *wish,
		     struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct cutting cutting = {
		.call = call,
		.cut = wish->cut,
		.room_bytes = SLICE_MAX_BYTES,
	};
	int r;

	cutting.cut.client_fd = call->client_fd;
	r = cut_slices(&cutting, &slice, why);
	if (r == 0)
		r = fgt_web_thin(slice, wish->hz, why);
	if (r == 0 && fgt_filter_is_any(&wish->filter))
		return fgt_filter_apply(&wish->filter, slice, ret_slice, why);
	if (r == 0)
		*ret_slice = FGT_TAKE(slice);
	return r;
}

/* Reads the parameters, too. */
static int get_wanted(const struct fgt_web_call *call, unsigned int takes,
		      const struct fgt_web_defaults *defaults,
		      struct fgt_web_wish *ret_wish,
		      struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	int r = fgt_web_wish_read(call->query, takes, defaults, ret_wish, why);

	return r < 0 ? r : get_slice(call, ret_wish, ret_slice, why);
}

/* ---- Files --------------------------------------------------------------- */

static const char *type_of(enum fgt_format_kind format)
{
	switch (format) {
	case FGT_KIND_CHROME:
	case FGT_KIND_SPEEDSCOPE:
		return FGT_WEB_JSON;
	case FGT_KIND_FOLDED:
		return FGT_WEB_TEXT;
	default:
		return "application/octet-stream";
	}
}

/* The process chose its name: only what is safe in a header is kept. */
static void name_file(const struct fgt_ring_slice *slice,
		      enum fgt_format_kind format,
		      struct fgt_web_answer *answer)
{
	char name[sizeof(slice->process.name)];

	snprintf(name, sizeof(name), "%s", slice->process.name);
	for (char *c = name; *c; c++)
		if (!((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
		      (*c >= 'A' && *c <= 'Z') || *c == '-'))
			*c = '_';
	snprintf(answer->file_name, sizeof(answer->file_name), "%s-%d%s",
		 name[0] ? name : "process", slice->process.pid,
		 fgt_format_ending(format));
}

static void answer_file(const struct fgt_web_call *call, unsigned int takes,
			const struct fgt_web_defaults *defaults,
			struct fgt_web_answer *answer)
{
	struct fgt_ring_slice *slice = NULL;
	struct fgt_web_wish wish;
	struct fgt_why why = { "" };
	int r = get_wanted(call, takes, defaults, &wish, &slice, &why);

	if (r == 0) {
		name_file(slice, wish.format, answer);
		answer->type = type_of(wish.format);
		answer->is_gzip = call->takes_gzip &&
				  fgt_format_gzip_use(wish.format) ==
					  FGT_GZIP_AS_WANTED;
		r = fgt_web_stream_open(slice, wish.format, wish.state_frames,
					answer->is_gzip, &answer->stream);
	}
	if (r < 0) {
		answer->is_gzip = false;
		fgt_web_answer_fail(answer, r, &why);
	}
}

void fgt_web_answer_trace(const struct fgt_web_call *call,
			  struct fgt_web_answer *answer)
{
	const struct fgt_web_defaults defaults = {
		.seconds = 30,
		.format = FGT_KIND_CHROME,
		.state_frames = call->site->state_frames,
	};

	answer_file(call,
		    FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_SECONDS |
			    FGT_WEB_TAKES_HZ | FGT_WEB_TAKES_STATES |
			    FGT_WEB_TAKES_SEVERAL | FGT_WEB_TAKES_FILTER,
		    &defaults, answer);
}

void fgt_web_answer_profile(const struct fgt_web_call *call,
			    struct fgt_web_answer *answer)
{
	const struct fgt_web_defaults defaults = {
		.seconds = 30,
		.format = FGT_KIND_PPROF,
		.state_frames = call->site->state_frames,
	};

	answer_file(call,
		    FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_SECONDS |
			    FGT_WEB_TAKES_HZ | FGT_WEB_TAKES_STATES |
			    FGT_WEB_TAKES_PROFILE | FGT_WEB_TAKES_SEVERAL |
			    FGT_WEB_TAKES_FILTER,
		    &defaults, answer);
}

void fgt_web_answer_slice(const struct fgt_web_call *call,
			  struct fgt_web_answer *answer)
{
	const struct fgt_web_defaults defaults = {
		.seconds = 10,
		.format = FGT_KIND_FGT,
		.state_frames = call->site->state_frames,
	};

	answer_file(call,
		    FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_RANGE |
			    FGT_WEB_TAKES_HZ | FGT_WEB_TAKES_STATES |
			    FGT_WEB_TAKES_FORMAT | FGT_WEB_TAKES_SEVERAL |
			    FGT_WEB_TAKES_FILTER,
		    &defaults, answer);
}

/* ---- Threads ------------------------------------------------------------- */

/* The function that the thread was in at its last tick. */
static void put_leaf(struct fgt_json *json, const struct fgt_ring_slice *slice,
		     const struct fgt_run *run)
{
	const struct fgt_slice_frame *frame;
	const char *name = NULL;

	if (run->stack != FGT_NODE_NONE) {
		frame = &slice->frames[slice->nodes[run->stack].frame];
		if (frame->frame.flags & FGT_FRAME_MARKER)
			name = fgt_marker_name(frame->frame.address);
		else if (frame->symbol_count)
			name = fgt_slice_string(
				slice,
				slice->symbols[frame->symbol_first].function);
	}
	fgt_json_put_string(json, "function", name);
}

/* Its runs begin at *at, which moves to those of the next thread. */
static void put_thread(struct fgt_json *json,
		       const struct fgt_ring_slice *slice, uint32_t thread,
		       uint32_t *at)
{
	const struct fgt_run *last = NULL;
	uint64_t samples = 0, running = 0;

	for (; *at < slice->run_count && slice->runs[*at].thread == thread;
	     ++*at) {
		last = &slice->runs[*at];
		samples += fgt_pace_weight(slice, last->first_tick,
					   last->tick_count);
		if (last->state == FGT_STATE_RUNNING)
			running += fgt_pace_weight(slice, last->first_tick,
						   last->tick_count);
	}
	fgt_json_begin_object(json, NULL);
	if (slice->process_count)
		fgt_json_put_int(json, "pid",
				 fgt_slice_process_of(slice, thread).pid);
	fgt_json_put_int(json, "tid", slice->threads[thread].tid);
	fgt_json_put_string(
		json, "name",
		fgt_slice_string(slice, slice->threads[thread].name));
	fgt_json_put_uint(json, "samples", samples);
	fgt_json_put_uint(json, "running", running);
	if (last) {
		fgt_json_put_string(json, "state",
				    fgt_slice_state_name(slice, last->state));
		put_leaf(json, slice, last);
	}
	fgt_json_end_object(json);
}

static int write_threads(const struct fgt_ring_slice *slice,
			 const struct fgt_sink *sink)
{
	struct fgt_json json;
	uint32_t at = 0;

	fgt_json_init(&json, sink);
	fgt_json_begin_object(&json, NULL);
	fgt_json_put_int(&json, "pid", slice->process.pid);
	fgt_json_put_string(&json, "name", slice->process.name);
	fgt_json_put_double(&json, "hz", slice->effective_hz);
	fgt_json_begin_array(&json, "threads");
	for (uint32_t i = 0; i < slice->thread_count; i++)
		put_thread(&json, slice, i, &at);
	fgt_json_end_array(&json);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	return fgt_json_finish(&json);
}

void fgt_web_answer_threads(const struct fgt_web_call *call,
			    struct fgt_web_answer *answer)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_web_defaults defaults = { .seconds = 1 };
	struct fgt_web_wish wish;
	struct fgt_why why = { "" };
	int r = get_wanted(call,
			   FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_SECONDS |
				   FGT_WEB_TAKES_SEVERAL | FGT_WEB_TAKES_FILTER,
			   &defaults, &wish, &slice, &why);

	if (r == 0)
		r = write_threads(slice, &answer->body.sink);
	answer->type = FGT_WEB_JSON;
	if (r < 0)
		fgt_web_answer_fail(answer, r, &why);
}

/* ---- As it happens ------------------------------------------------------- */

void fgt_web_answer_live(const struct fgt_web_call *call,
			 struct fgt_web_answer *answer)
{
	const struct fgt_web_defaults defaults = { .seconds = 1 };
	enum fgt_tail_form form = FGT_TAIL_JSON;
	FGT_AUTO(fgt_tail_free) struct fgt_tail *tail = NULL;
	struct fgt_web_wish wish;
	struct fgt_why why = { "" };
	const char *text = fgt_web_query_get(call->query, "format");
	int r = fgt_web_wish_read(call->query,
				  FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_LIVE |
					  FGT_WEB_TAKES_FILTER,
				  &defaults, &wish, &why);

	if (r == 0 && call->websocket_key &&
	    fgt_ws_accept(call->websocket_key, answer->websocket) < 0)
		r = fgt_why_set(&why, -EINVAL,
				"bad Sec-WebSocket-Key: send 16 bytes as "
				"base64");
	if (r == 0 && text)
		r = fgt_tail_form_from_name(text, &form, &why);
	if (r == 0 && wish.filter.is_busy)
		r = fgt_why_set(&why, -EINVAL,
				"a stream has no idle threads: what stays as "
				"it is writes nothing; leave out no_idle");
	if (r == 0)
		r = fgt_tail_new(form, &wish.filter, &tail, &why);
	wish.cut.client_fd = call->client_fd;
	if (r == 0)
		r = fgt_web_live_open(call->site->source, &wish.cut,
				      FGT_TAKE(tail),
				      call->websocket_key ? FGT_WEB_FRAMES
							  : FGT_WEB_SERVER_SENT,
				      &call->site->live, &answer->live, &why);
	answer->type = FGT_WEB_LIVE_TYPE;
	if (r < 0)
		fgt_web_answer_fail(answer, r, &why);
}
