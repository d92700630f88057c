/* SPDX-License-Identifier: Apache-2.0 */
/* Slices built by hand for the tests of codec and formats. */
#include "tests/unit/ringbuf/slice_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint32_t intern(struct fgt_ring_slice *slice, const char *text)
{
	uint32_t id;

	assert_int_equal(
		fgt_strings_intern(&slice->strings, text, strlen(text), &id),
		0);
	return id;
}

/* Room for one more record, zeroed. A large table doubles: the realloc() of a
 * sanitizer copies. A small one has no spare room, so that overruns are seen. */
static void *grow(void **table, uint32_t *count, size_t size)
{
	if (*count < 256 || !(*count & (*count - 1)))
		*table = realloc(*table, size * (*count < 256 ? *count + 1
							      : 2 * *count));
	assert_non_null(*table);
	return memset((char *)*table + (*count)++ * size, 0, size);
}

#define GROW(table, count) grow((void **)&(table), &(count), sizeof(*(table)))

struct fgt_ring_slice *fixture_new(uint32_t ticks)
{
	struct fgt_ring_slice *slice;
	struct fgt_anchor *anchor;

	assert_int_equal(fgt_slice_new(&slice), 0);
	slice->process.pid = 4242;
	slice->process.uid = 1000;
	slice->process.start_time = 123456;
	strcpy(slice->process.name, "app");
	strcpy(slice->process.exe, "/opt/app/bin/app");
	strcpy(slice->process.host, "box");
	strcpy(slice->process.arch, "x86_64");
	strcpy(slice->process.os_release, "6.1.0");
	slice->period_ns = FIXTURE_PERIOD_NS;
	slice->effective_hz = 99.5;
	slice->requested_from_ns = FIXTURE_START_NS;
	slice->requested_to_ns = FIXTURE_START_NS + ticks * FIXTURE_PERIOD_NS;
	anchor = GROW(slice->anchors, slice->anchor_count);
	anchor->mono_ns = FIXTURE_START_NS;
	anchor->wall_ns = FIXTURE_WALL_NS;
	for (uint32_t i = 0; i < ticks; i++)
		*(uint64_t *)GROW(slice->tick_ns, slice->tick_count) =
			FIXTURE_START_NS + i * FIXTURE_PERIOD_NS;
	return slice;
}

uint32_t fixture_thread(struct fgt_ring_slice *slice, int32_t tid,
			const char *name)
{
	struct fgt_slice_thread *thread =
		GROW(slice->threads, slice->thread_count);

	thread->tid = tid;
	thread->name = intern(slice, name);
	thread->start_time = 123456;
	return slice->thread_count - 1;
}

uint32_t fixture_image(struct fgt_ring_slice *slice, const char *path,
		       uint64_t bias, const char *build_id)
{
	struct fgt_slice_image *image = GROW(slice->images, slice->image_count);

	image->path = intern(slice, path);
	image->bias = bias;
	image->start = bias;
	image->end = bias + 0x100000;
	image->build_id_len = (uint32_t)strlen(build_id);
	memcpy(image->build_id, build_id, image->build_id_len);
	return slice->image_count - 1;
}

uint32_t fixture_frame(struct fgt_ring_slice *slice, const char *function)
{
	struct fgt_symbol_text text = { .function = function,
					.file = "/src/app/main.c" };
	struct fgt_slice_frame *frame;
	uint32_t id = slice->frame_count;

	if (!slice->image_count)
		fixture_image(slice, "/opt/app/bin/app", 0x550000000000,
			      "0123456789abcdefghij");
	frame = GROW(slice->frames, slice->frame_count);
	frame->frame.address = 0x1000 + id * 16;
	frame->frame.image = 1;
	text.line = id + 1;
	assert_int_equal(fgt_slice_add_symbols(slice, id, &text, 1), 0);
	return id;
}

uint32_t fixture_marker(struct fgt_ring_slice *slice, uint32_t marker)
{
	struct fgt_slice_frame *frame = GROW(slice->frames, slice->frame_count);

	frame->frame.address = marker;
	frame->frame.flags = FGT_FRAME_MARKER;
	return slice->frame_count - 1;
}

uint32_t fixture_node(struct fgt_ring_slice *slice, uint32_t parent,
		      uint32_t frame)
{
	struct fgt_slice_node *node;

	for (uint32_t i = 0; i < slice->node_count; i++)
		if (slice->nodes[i].parent == parent &&
		    slice->nodes[i].frame == frame)
			return i;
	node = GROW(slice->nodes, slice->node_count);
	node->parent = parent;
	node->frame = frame;
	return slice->node_count - 1;
}

static uint32_t find_frame(struct fgt_ring_slice *slice, const char *name)
{
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		const struct fgt_slice_frame *frame = &slice->frames[i];

		if (frame->frame.flags & FGT_FRAME_MARKER
			    ? name[0] == '#' && frame->frame.address ==
							(uint64_t)atoi(name + 1)
			    : frame->symbol_count == 1 &&
				      !strcmp(name,
					      fgt_slice_string(
						      slice,
						      slice->symbols
							      [frame->symbol_first]
								      .function)))
			return i;
	}
	return name[0] == '#' ? fixture_marker(slice, (uint32_t)atoi(name + 1))
			      : fixture_frame(slice, name);
}

static uint32_t find_image(struct fgt_ring_slice *slice, const char *path)
{
	uint32_t at = 0;

	while (at < slice->image_count &&
	       strcmp(fgt_slice_string(slice, slice->images[at].path), path))
		at++;
	return at < slice->image_count ? at : fixture_image(slice, path, 0, "");
}

/* "libc.so.6!read": a function of that image. Cuts the text. */
static uint32_t find_library_frame(struct fgt_ring_slice *slice, char *name,
				   char *mark)
{
	uint32_t frame = find_frame(slice, mark + 1);

	*mark = '\0';
	slice->frames[frame].frame.image = find_image(slice, name) + 1;
	return frame;
}

uint32_t fixture_stack(struct fgt_ring_slice *slice, const char *folded)
{
	uint32_t node = FGT_NODE_NONE;
	char *copy = strdup(folded), *rest = copy, *name;

	assert_non_null(copy);
	while ((name = strsep(&rest, ";"))) {
		char *mark = strchr(name, '!');

		node = fixture_node(slice, node,
				    mark ? find_library_frame(slice, name, mark)
					 : find_frame(slice, name));
	}
	free(copy);
	return node;
}

static const char *state_name(uint32_t state)
{
	switch (state) {
	case FGT_STATE_RUNNING:
		return "running";
	case FGT_STATE_RUNNABLE:
		return "runnable";
	case FIXTURE_EPOLL:
		return "epoll_wait";
	case FIXTURE_FUTEX:
		return "futex";
	default:
		return "syscall";
	}
}

static void add_state(struct fgt_ring_slice *slice, uint32_t state)
{
	struct fgt_slice_state *added;
	uint32_t at = 0;

	while (at < slice->state_count && slice->states[at].state < state)
		at++;
	if (at < slice->state_count && slice->states[at].state == state)
		return;
	GROW(slice->states, slice->state_count);
	added = &slice->states[at];
	memmove(added + 1, added,
		(slice->state_count - 1 - at) * sizeof(*added));
	added->state = state;
	added->name = intern(slice, state_name(state));
}

void fixture_run(struct fgt_ring_slice *slice, uint32_t thread,
		 uint32_t first_tick, uint32_t tick_count, uint32_t stack,
		 uint32_t state)
{
	struct fgt_run *run = GROW(slice->runs, slice->run_count);

	run->thread = thread;
	run->first_tick = first_tick;
	run->tick_count = tick_count;
	run->stack = stack;
	run->state = state;
	add_state(slice, state);
}

void fixture_edge(struct fgt_ring_slice *slice, uint32_t thread, uint32_t tick,
		  uint32_t on_us, uint32_t off_us)
{
	struct fgt_edge *edge = GROW(slice->edges, slice->edge_count);

	*edge = (struct fgt_edge){ thread, tick, on_us, off_us };
}

static uint64_t at(int ms)
{
	return FIXTURE_START_NS + (uint64_t)((int64_t)ms * 1000000);
}

uint32_t fixture_task(struct fgt_ring_slice *slice, uint32_t track,
		      const char *name, int begin_ms, int end_ms,
		      uint32_t parent)
{
	struct fgt_slice_task *task = GROW(slice->tasks, slice->task_count);

	task->number = (uint64_t)slice->task_count << 21;
	task->track = track;
	task->name = intern(slice, name);
	task->begin_ns = at(begin_ms);
	task->end_ns = end_ms ? at(end_ms) : 0;
	task->parent = parent;
	task->tid = 4242;
	return slice->task_count - 1;
}

uint32_t fixture_span(struct fgt_ring_slice *slice, uint32_t task,
		      uint32_t depth, const char *name, int begin_ms,
		      int end_ms)
{
	struct fgt_slice_span *span = GROW(slice->spans, slice->span_count);

	span->number = (uint64_t)slice->span_count << 21 | 1;
	span->task = task;
	span->depth = depth;
	span->name = intern(slice, name);
	span->begin_ns = at(begin_ms);
	span->end_ns = end_ms ? at(end_ms) : 0;
	span->tid = 4243;
	return slice->span_count - 1;
}

void fixture_mark(struct fgt_ring_slice *slice, int at_ms, const char *name,
		  int32_t tid)
{
	struct fgt_slice_mark *mark = GROW(slice->marks, slice->mark_count);

	mark->at_ns = at(at_ms);
	mark->name = intern(slice, name);
	mark->tid = tid;
}

void fixture_counter(struct fgt_ring_slice *slice, int at_ms, const char *name,
		     double value)
{
	struct fgt_slice_counter *counter =
		GROW(slice->counters, slice->counter_count);

	counter->at_ns = at(at_ms);
	counter->name = intern(slice, name);
	counter->value = value;
}

void fixture_label(struct fgt_ring_slice *slice, uint32_t span, const char *key,
		   const char *value)
{
	struct fgt_slice_label *label = GROW(slice->labels, slice->label_count);

	label->span = span;
	label->key = intern(slice, key);
	label->value = intern(slice, value);
}

void fixture_add_spans(struct fgt_ring_slice *slice)
{
	uint32_t server = fixture_task(slice, 3, "server#0", -1000, 0, 0);
	uint32_t first = fixture_task(slice, 7, "request#0", 50, 200, 1);
	uint32_t second = fixture_task(slice, 7, "request#0", 250, 0, 1);
	uint32_t query;

	fixture_span(slice, server, 0, "accept", -20, 45);
	fixture_span(slice, first, 0, "parse", 60, 90);
	query = fixture_span(slice, first, 0, "query", 100, 190);
	fixture_span(slice, first, 1, "connect", 110, 120);
	fixture_span(slice, first, 1, "read", 120, 185);
	fixture_span(slice, second, 0, "parse", 260, 0);
	fixture_mark(slice, 120, "cache miss", 4243);
	fixture_mark(slice, 130, "short-lived", 9999);
	fixture_counter(slice, 100, "queue", 3);
	fixture_counter(slice, 300, "queue", 5.5);
	fixture_label(slice, query, "table", "users\x01 <\xff>");
	fixture_label(slice, query, "rows", "17");
	assert_int_equal(fgt_slice_add_note(slice, "trigger", "st\"uck"), 0);
	assert_int_equal(fgt_slice_add_note(slice, "cause", ""), 0);
	assert_true(fgt_slice_is_valid(slice));
}

void fixture_drop_spans(struct fgt_ring_slice *slice)
{
	slice->task_count = slice->span_count = slice->mark_count = 0;
	slice->counter_count = slice->label_count = 0;
}

static void add_rich_stacks(struct fgt_ring_slice *slice,
			    uint32_t ret_stacks[4])
{
	struct fgt_symbol_text inlined[2] = {
		{ .function = "clamp<int>", .file = "clamp.h", .line = 7 },
		{ .function = "ns::work(char const*)",
		  .file = "/src/work.cc",
		  .line = 70,
		  .reason = FGT_SYMBOL_FOUND },
	};
	struct fgt_slice_frame *frame;
	uint32_t node, id;

	ret_stacks[0] = fixture_stack(slice, "main;loop;epoll_wait");
	fixture_image(slice, "/usr/lib/x86_64-linux-gnu/libc.so.6",
		      0x7f0000000000, "");
	node = fixture_stack(slice, "main;loop");
	id = slice->frame_count;
	frame = GROW(slice->frames, slice->frame_count);
	frame->frame = (struct fgt_frame){ .address = 0x1234,
					   .image = 2,
					   .flags = FGT_FRAME_CALLER };
	assert_int_equal(fgt_slice_add_symbols(slice, id, inlined, 2), 0);
	node = fixture_node(slice, node, id);
	ret_stacks[1] = node;
	id = slice->frame_count;
	frame = GROW(slice->frames, slice->frame_count);
	frame->frame.address = 0xabcdef; /* no image, no symbol */
	ret_stacks[2] = fixture_node(slice, node, id);
	ret_stacks[3] = fixture_stack(slice, "#6;worker;#2");
}

struct fgt_slice_wait *fixture_wait(struct fgt_ring_slice *slice, uint32_t kind,
				    int32_t owner_tid, const char *text)
{
	struct fgt_slice_wait *wait = GROW(slice->waits, slice->wait_count);

	slice->runs[slice->run_count - 1].wait = slice->wait_count;
	wait->kind = kind;
	wait->owner_tid = owner_tid;
	wait->number = -1;
	wait->text = intern(slice, text);
	return wait;
}

void fixture_wake(struct fgt_ring_slice *slice, uint32_t thread, int at_ms,
		  int32_t waker_tid, uint32_t stack)
{
	struct fgt_slice_waker *waker = GROW(slice->wakers, slice->waker_count);
	struct fgt_slice_wake *wake = GROW(slice->wakes, slice->wake_count);

	waker->pid = slice->process.pid;
	waker->tid = waker_tid;
	waker->name = intern(slice, "waker");
	waker->stack = stack;
	wake->thread = thread;
	wake->waker = slice->waker_count - 1;
	wake->at_ns = FIXTURE_START_NS + (uint64_t)at_ms * 1000000;
	wake->delay_us = FGT_WAKE_DELAY_UNKNOWN;
}

void fixture_drop_waits(struct fgt_ring_slice *slice)
{
	slice->wait_count = slice->waker_count = slice->wake_count = 0;
	for (uint32_t i = 0; i < slice->run_count; i++)
		slice->runs[i].wait = 0;
}

static void add_rich_waits(struct fgt_ring_slice *slice, uint32_t stack)
{
	struct fgt_slice_wait *wait =
		fixture_wait(slice, FGT_WAIT_MUTEX, 4242, "");

	wait->address = 0x7f0000001008;
	wait->object = intern(slice, "g_lock+0x8");
	fixture_wake(slice, 0, 100, 4243, stack);
	fixture_wake(slice, 1, 490, 0, FGT_NODE_NONE);
	slice->wakers[1].pid = 0;
	slice->wakers[1].context = FGT_WAKE_TIMER;
	slice->wakes[1].delay_us = 70;
	slice->lost_wakes = 5;
}

struct fgt_ring_slice *fixture_rich(void)
{
	struct fgt_ring_slice *slice = fixture_new(60);
	struct fgt_anchor *anchor;
	uint32_t stacks[4];

	anchor = GROW(slice->anchors, slice->anchor_count);
	anchor->mono_ns = FIXTURE_START_NS + 300000000;
	anchor->wall_ns = FIXTURE_WALL_NS + 200000000; /* stepped back */
	slice->missed_ticks = 3;
	slice->evicted_ticks = 1;
	slice->lapped_ticks = 2;
	slice->brief_threads = 4;
	fgt_service_set(&slice->process.service, 0, "shop", 4);
	fgt_service_set(&slice->process.service, 2, "1.4.0\xff", 6);
	slice->brief_cpu_ns = 5000000000;
	for (uint32_t i = 40; i < 60; i++) /* the sampler stood still */
		slice->tick_ns[i] += 10 * FIXTURE_PERIOD_NS;
	add_rich_stacks(slice, stacks);
	slice->images[1].is_deleted = 1;
	slice->images[1].dev = 0x803;
	slice->images[1].ino = 99;
	fixture_thread(slice, 4242, "app");
	fixture_thread(slice, 4243, "worker \xff<1>");
	fixture_thread(slice, 4250, "");
	fixture_run(slice, 0, 0, 10, stacks[0], FIXTURE_EPOLL);
	fixture_run(slice, 0, 10, 5, stacks[1], FGT_STATE_RUNNING);
	fixture_run(slice, 0, 15, 45, stacks[2], FGT_STATE_RUNNING);
	fixture_run(slice, 1, 5, 10, stacks[3], FGT_STATE_RUNNING);
	fixture_run(slice, 1, 20, 30, FGT_NODE_NONE, FIXTURE_FUTEX);
	add_rich_waits(slice, stacks[3]);
	fixture_run(slice, 2, 59, 1, stacks[0], FIXTURE_EPOLL);
	fixture_wait(slice, FGT_WAIT_EVENTS, 0, "2 sockets")->timeout_ns =
		40000000;
	fixture_edge(slice, 0, 4, 9000, 1000);
	fixture_edge(slice, 0, 15, 1, 0);
	fixture_edge(slice, 1, 20, 0, 1048575);
	fixture_add_spans(slice);
	assert_true(fgt_slice_is_valid(slice));
	return slice;
}

static int take_bytes(void *context, const void *bytes, size_t len)
{
	struct fixture_buffer *buffer = context;

	if (buffer->len + len + 1 > buffer->capacity) {
		buffer->capacity = (buffer->len + len + 1) * 2;
		buffer->bytes = realloc(buffer->bytes, buffer->capacity);
		assert_non_null(buffer->bytes);
	}
	memcpy(buffer->bytes + buffer->len, bytes, len);
	buffer->len += len;
	buffer->bytes[buffer->len] = 0;
	return 0;
}

struct fgt_sink fixture_buffer_sink(struct fixture_buffer *buffer)
{
	*buffer = (struct fixture_buffer){ 0 };
	return (struct fgt_sink){ .write = take_bytes, .context = buffer };
}

void fixture_buffer_done(struct fixture_buffer *buffer)
{
	free(buffer->bytes);
}

unsigned int fixture_count(const char *text, const char *part)
{
	unsigned int found = 0;

	for (; (text = strstr(text, part)); text++)
		found++;
	return found;
}
