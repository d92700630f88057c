/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which fields each table of the .fgt form has. Data only.
 */
#include "ringbuf/slice/slice_layout.h"

#define TABLE(array_, count_, fields_)                                         \
	.array = offsetof(struct fgt_ring_slice, array_),                      \
	.count = offsetof(struct fgt_ring_slice, count_),                      \
	.record_bytes = sizeof(*((struct fgt_ring_slice *)0)->array_),         \
	.field_count = fields_

#define FIELD(kind_, type, member)                                             \
	{                                                                      \
		.kind = FGT_FIELD_##kind_, .offset = offsetof(type, member)    \
	}

#define ANCHOR(kind, member)   FIELD(kind, struct fgt_anchor, member)
#define PRESSURE(kind, member) FIELD(kind, struct fgt_slice_pressure, member)
#define PACE(kind, member)     FIELD(kind, struct fgt_pace, member)
#define THREAD(kind, member)   FIELD(kind, struct fgt_slice_thread, member)
#define SYMBOL(kind, member)   FIELD(kind, struct fgt_symbol, member)
#define FRAME(kind, member)    FIELD(kind, struct fgt_slice_frame, member)
#define NODE(kind, member)     FIELD(kind, struct fgt_slice_node, member)
#define STATE(kind, member)    FIELD(kind, struct fgt_slice_state, member)
#define RUN(kind, member)      FIELD(kind, struct fgt_run, member)
#define EDGE(kind, member)     FIELD(kind, struct fgt_edge, member)
#define TASK(kind, member)     FIELD(kind, struct fgt_slice_task, member)
#define SPAN(kind, member)     FIELD(kind, struct fgt_slice_span, member)
#define MARK(kind, member)     FIELD(kind, struct fgt_slice_mark, member)
#define COUNTER(kind, member)  FIELD(kind, struct fgt_slice_counter, member)
#define LABEL(kind, member)    FIELD(kind, struct fgt_slice_label, member)
#define NOTE(kind, member)     FIELD(kind, struct fgt_slice_note, member)
#define WAIT(kind, member)     FIELD(kind, struct fgt_slice_wait, member)
#define OF_RUN(kind, member)   FIELD(kind, struct fgt_run_wait, member)
#define WAKER(kind, member)    FIELD(kind, struct fgt_slice_waker, member)
#define WAKE(kind, member)     FIELD(kind, struct fgt_slice_wake, member)
#define PROCESS(kind, member)  FIELD(kind, struct fgt_slice_process, member)
#define MEMBER(kind, member)   FIELD(kind, struct fgt_slice_member, member)

const struct fgt_table fgt_slice_tables[FGT_TABLE_COUNT] = {
	{ "anchors", TABLE(anchors, anchor_count, 2),
	  .fields = { ANCHOR(DELTA64, mono_ns), ANCHOR(DELTA64, wall_ns) } },
	{ "ticks", TABLE(tick_ns, tick_count, 1),
	  .fields = { { .kind = FGT_FIELD_DELTA64, .offset = 0 } } },
	{ "paces", TABLE(paces, pace_count, 2), .is_optional = true,
	  .fields = { PACE(DELTA32, first_tick), PACE(U32, periods) } },
	{ "threads", TABLE(threads, thread_count, 3),
	  .fields = { THREAD(I32, tid), THREAD(U32, name),
		      THREAD(U64, start_time) } },
	{ "symbols", TABLE(symbols, symbol_count, 4),
	  .fields = { SYMBOL(U32, function), SYMBOL(U32, file),
		      SYMBOL(U32, line), SYMBOL(U32, reason) } },
	{ "frames", TABLE(frames, frame_count, 5),
	  .fields = { FRAME(U64, frame.address), FRAME(U32, frame.image),
		      FRAME(U32, frame.flags), FRAME(U32, symbol_first),
		      FRAME(U32, symbol_count) } },
	{ "nodes", TABLE(nodes, node_count, 2),
	  .fields = { NODE(BACK, parent), NODE(U32, frame) } },
	{ "states", TABLE(states, state_count, 2),
	  .fields = { STATE(U32, state), STATE(U32, name) } },
	{ "runs", TABLE(runs, run_count, 5),
	  .fields = { RUN(GROUP, thread), RUN(POSITION, first_tick),
		      RUN(LENGTH, tick_count), RUN(LINK, stack),
		      RUN(U32, state) } },
	{ "edges", TABLE(edges, edge_count, 4), .is_optional = true,
	  .fields = { EDGE(GROUP, thread), EDGE(POSITION, tick),
		      EDGE(U32, on_us), EDGE(U32, off_us) } },
	{ "tasks", TABLE(tasks, task_count, 7), .is_optional = true,
	  .fields = { TASK(DELTA32, track), TASK(U64, number),
		      TASK(U64, begin_ns), TASK(U64, end_ns), TASK(U32, parent),
		      TASK(U32, name), TASK(I32, tid) } },
	{ "spans", TABLE(spans, span_count, 7), .is_optional = true,
	  .fields = { SPAN(DELTA32, task), SPAN(U32, depth), SPAN(U64, number),
		      SPAN(U64, begin_ns), SPAN(U64, end_ns), SPAN(U32, name),
		      SPAN(I32, tid) } },
	{ "marks", TABLE(marks, mark_count, 3), .is_optional = true,
	  .fields = { MARK(DELTA64, at_ns), MARK(U32, name), MARK(I32, tid) } },
	{ "counters", TABLE(counters, counter_count, 3), .is_optional = true,
	  .fields = { COUNTER(DELTA32, name), COUNTER(U64, at_ns),
		      COUNTER(DOUBLE, value) } },
	{ "labels", TABLE(labels, label_count, 3), .is_optional = true,
	  .fields = { LABEL(DELTA32, span), LABEL(U32, key),
		      LABEL(U32, value) } },
	{ "notes", TABLE(notes, note_count, 2), .is_optional = true,
	  .fields = { NOTE(U32, key), NOTE(U32, value) } },
	{ "waits", TABLE(waits, wait_count, 7), .is_optional = true,
	  .is_rare = true,
	  .fields = { WAIT(U32, kind), WAIT(I32, owner_tid), WAIT(U64, address),
		      WAIT(I32, number), WAIT(U64, timeout_ns), WAIT(U32, text),
		      WAIT(U32, object) } },
	{ "run_waits", TABLE(run_waits, run_wait_count, 2), .is_optional = true,
	  .is_rare = true,
	  .fields = { OF_RUN(DELTA32, run), OF_RUN(U32, wait) } },
	{ "wakers", TABLE(wakers, waker_count, 5), .is_optional = true,
	  .is_rare = true,
	  .fields = { WAKER(I32, pid), WAKER(I32, tid), WAKER(U32, name),
		      WAKER(U32, context), WAKER(LINK, stack) } },
	{ "wakes", TABLE(wakes, wake_count, 4), .is_optional = true,
	  .is_rare = true,
	  .fields = { WAKE(DELTA32, thread), WAKE(DELTA64, at_ns),
		      WAKE(U32, waker), WAKE(U32, delay_us) } },
	{ "processes", TABLE(processes, process_count, 5), .is_optional = true,
	  .is_rare = true,
	  .fields = { PROCESS(I32, pid), PROCESS(U64, start_time),
		      PROCESS(U32, name), PROCESS(U32, exe),
		      PROCESS(U32, title) } },
	{ "pressures", TABLE(pressures, pressure_count, 5), .is_optional = true,
	  .is_rare = true,
	  .fields = { PRESSURE(DELTA64, mono_ns), PRESSURE(DELTA64, us[0]),
		      PRESSURE(DELTA64, us[1]), PRESSURE(DELTA64, us[2]),
		      PRESSURE(DELTA64, us[3]) } },
	{ "members", TABLE(members, member_count, 2), .is_optional = true,
	  .is_rare = true,
	  .fields = { MEMBER(DELTA32, thread), MEMBER(U32, process) } },
};
