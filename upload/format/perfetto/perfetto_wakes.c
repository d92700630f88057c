/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrows from a thread to one that it woke: an instant on either track, and a
 * flow between them. Runs in any thread.
 */
#include <errno.h>
#include <stdio.h>

#include "upload/format/parts/arrows.h"
#include "upload/format/parts/levels.h"
#include "upload/format/perfetto/perfetto.h"

static void put_instant(struct fgt_perfetto *trace,
			const struct fgt_arrow *arrow, bool is_waker,
			uint64_t flow)
{
	const struct fgt_ring_slice *slice = trace->slice;
	uint32_t thread = is_waker ? arrow->from : arrow->to;
	uint32_t other = is_waker ? arrow->to : arrow->from;
	char buffer[FGT_LEVEL_NAME_MAX], name[FGT_LEVEL_NAME_MAX + 16];

	snprintf(name, sizeof(name), "%s %.100s",
		 is_waker ? "wakes" : "woken by",
		 fgt_level_thread_name(slice, &slice->threads[other], buffer));
	fgt_perfetto_begin_event(trace, arrow->at_ns, FGT_EVENT_INSTANT,
				 fgt_perfetto_thread_uuid(thread), name);
	fgt_protobuf_put_fixed64(&trace->out,
				 is_waker ? FGT_EVENT_FLOW_IDS
					  : FGT_EVENT_TERMINATING_FLOW_IDS,
				 flow);
	fgt_perfetto_end_event(trace);
}

/* Flows of tasks have the numbers up to task_count. */
int fgt_perfetto_put_wakes(struct fgt_perfetto *trace)
{
	struct fgt_arrows arrows;
	int r = fgt_arrows_init(&arrows, trace->slice);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < arrows.count; i++) {
		const struct fgt_arrow *arrow = &arrows.arrows[i];
		uint64_t flow = (uint64_t)trace->slice->task_count + 1 + i;

		put_instant(trace, arrow, true, flow);
		put_instant(trace, arrow, false, flow);
	}
	if (arrows.left_out) {
		char text[32];

		snprintf(text, sizeof(text), "%u", arrows.left_out);
		fgt_perfetto_begin_event(
			trace, trace->slice->tick_ns[0], FGT_EVENT_INSTANT,
			FGT_PERFETTO_PROCESS_UUID, "arrows left out");
		fgt_perfetto_put_argument(trace, "count", text);
		fgt_perfetto_end_event(trace);
	}
	fgt_arrows_done(&arrows);
	return 0;
}
