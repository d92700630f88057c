/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads did: a sample from each change of a stack on, which weighs as
 * many nanoseconds as the stack stayed, and the thread's states on a track. The
 * end of what is known is a sample of no samples: readers draw the last stack
 * until the next one. Runs in any thread.
 */
#include "ringbuf/slice/processes.h"
#include "upload/format/perfetto/perfetto.h"

enum {
	SAMPLE_TASK_CONTEXT_IID = 2,
	SAMPLE_CALLSTACK_IID = 6,
	SAMPLE_PRIMARY_WEIGHT = 11,
	CONTEXT_PID = 2,
	CONTEXT_TID,
};

/* A stack that stays has a sample a second, at most 1000 of them: readers add
 * up the samples whose time is in the range that a user selects. */
#define SAMPLE_NS   1000000000u
#define SAMPLES_MAX 1000u

/* Edges are known to the µs, ticks are no better: other digits are noise. */
#define UNIT_NS 1000u

struct sampled {
	struct fgt_perfetto *trace;
	uint32_t thread;
	bool is_shown; /* shown, from begin_ns on */
	struct fgt_shown shown;
	uint64_t begin_ns;
	bool has_state;
	struct fgt_level state; /* that the state's track has now */
};

static void put_sample(struct sampled *track, const struct fgt_shown *shown,
		       uint64_t begin_ns, uint64_t weight_ns)
{
	struct fgt_protobuf *out = &track->trace->out;
	uint64_t callstack_iid;

	fgt_perfetto_begin_at(track->trace, begin_ns);
	callstack_iid = fgt_perfetto_callstack(track->trace, shown);
	fgt_protobuf_begin(out, FGT_PACKET_STACK_SAMPLE);
	fgt_protobuf_put_uint(out, SAMPLE_TASK_CONTEXT_IID,
			      (uint64_t)track->thread + 1);
	fgt_protobuf_put_uint(out, SAMPLE_CALLSTACK_IID, callstack_iid);
	fgt_protobuf_put_uint(out, SAMPLE_PRIMARY_WEIGHT, weight_ns);
	fgt_protobuf_end(out);
	fgt_perfetto_end(track->trace);
}

static void put_state(struct sampled *track, const struct fgt_shown *shown,
		      uint64_t mono_ns)
{
	const struct fgt_ring_slice *slice = track->trace->slice;
	char buffer[FGT_LEVEL_NAME_MAX];
	const char *name = NULL;

	if (shown) {
		struct fgt_level state = fgt_level_of_state(slice, shown->state,
							    shown->is_sampled);

		if (track->has_state && fgt_level_is_equal(state, track->state))
			return;
		track->state = state;
		name = fgt_level_name(slice, state, buffer);
	}
	track->has_state = shown;
	fgt_perfetto_begin_event(track->trace, mono_ns, FGT_EVENT_STATE,
				 fgt_perfetto_state_uuid(track->thread), name);
	fgt_perfetto_end_event(track->trace);
}

/* What is shown, up to its end. */
static void put_shown(struct sampled *track, uint64_t end_ns)
{
	uint64_t begin_ns = track->begin_ns;
	uint64_t part_ns =
		(end_ns - begin_ns) / SAMPLES_MAX / UNIT_NS * UNIT_NS;

	if (begin_ns == end_ns)
		return;
	put_state(track, &track->shown, begin_ns);
	if (part_ns < SAMPLE_NS)
		part_ns = SAMPLE_NS;
	for (; end_ns - begin_ns > part_ns; begin_ns += part_ns)
		put_sample(track, &track->shown, begin_ns, part_ns);
	put_sample(track, &track->shown, begin_ns, end_ns - begin_ns);
}

static bool is_same(const struct fgt_shown *a, const struct fgt_shown *b)
{
	return a->stack == b->stack && a->state == b->state &&
	       a->is_sampled == b->is_sampled;
}

static bool show(void *context, const struct fgt_shown *shown, uint64_t mono_ns)
{
	struct sampled *track = context;

	if (track->is_shown ? shown && is_same(shown, &track->shown) : !shown)
		return false;
	mono_ns -= (mono_ns - track->trace->slice->tick_ns[0]) % UNIT_NS;
	if (track->is_shown)
		put_shown(track, mono_ns);
	track->is_shown = shown;
	if (shown) {
		track->shown = *shown;
		track->begin_ns = mono_ns;
	} else {
		put_state(track, NULL, mono_ns);
		put_sample(track, NULL, mono_ns, 0);
	}
	return true;
}

static void begin_thread(void *context, uint32_t thread)
{
	struct sampled *track = context;
	struct fgt_protobuf *out = &track->trace->out;
	const struct fgt_ring_slice *slice = track->trace->slice;

	track->thread = thread;
	fgt_perfetto_begin(track->trace);
	fgt_protobuf_begin(out, FGT_PACKET_INTERNED_DATA);
	fgt_protobuf_begin(out, FGT_INTERNED_TASK_CONTEXTS);
	fgt_protobuf_put_uint(out, FGT_INTERNED_IID, (uint64_t)thread + 1);
	fgt_protobuf_put_uint(
		out, CONTEXT_PID,
		fgt_perfetto_id(fgt_slice_process_of(slice, thread).pid));
	fgt_protobuf_put_uint(out, CONTEXT_TID,
			      fgt_perfetto_id(slice->threads[thread].tid));
	fgt_protobuf_end(out);
	fgt_protobuf_end(out);
	fgt_perfetto_end(track->trace);
}

int fgt_perfetto_put_samples(struct fgt_perfetto *trace)
{
	struct sampled track = { .trace = trace };
	const struct fgt_drawing drawing = {
		.context = &track,
		.begin_thread = begin_thread,
		.show = show,
		.levels_max = FGT_LEVELS_MAX,
	};

	return fgt_draw(trace->slice, &drawing);
}
