/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrows from a thread to one that it woke: an instant on either track, and a
 * flow between them. Runs in any thread.
 */
#include <errno.h>
#include <stdio.h>

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

int fgt_perfetto_begin_wakes(struct fgt_perfetto *trace)
{
	int r = fgt_arrows_init(&trace->arrows, trace->slice);
	char text[32];

	if (r < 0 || !trace->arrows.left_out)
		return r;
	snprintf(text, sizeof(text), "%u", trace->arrows.left_out);
	fgt_perfetto_begin_event(trace, trace->slice->tick_ns[0],
				 FGT_EVENT_INSTANT, FGT_PERFETTO_PROCESS_UUID,
				 "arrows left out");
	fgt_perfetto_put_argument(trace, "count", text);
	fgt_perfetto_end_event(trace);
	return 0;
}

/* Flows of tasks have the numbers up to task_count. */
void fgt_perfetto_put_wakes(struct fgt_perfetto *trace, uint64_t until_ns)
{
	uint64_t first = (uint64_t)trace->slice->task_count + 1;

	while (trace->next_arrow < trace->arrows.count) {
		uint32_t at = trace->next_arrow;
		const struct fgt_arrow *arrow = &trace->arrows.arrows[at];

		if (arrow->at_ns > until_ns)
			break;
		put_instant(trace, arrow, true, first + at);
		put_instant(trace, arrow, false, first + at);
		trace->next_arrow++;
	}
}
