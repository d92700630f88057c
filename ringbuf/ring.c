/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring as its writer sees it: threads, and ticks that tell what changed.
 * Runs in the one thread that samples; must not do work for a thread that did
 * not change (the key frame once a second excepted).
 */
#include "ringbuf/ring.h"

#include "ringbuf/cut.h"
#include "ringbuf/writer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define DEFAULT_HZ	   101
#define DEFAULT_SECONDS	   30
#define DEFAULT_SIZE_BYTES ((size_t)64 << 20)

/* CLOCK_MONOTONIC beyond 146 years is not believed: sums cannot overflow. */
#define MONO_NS_MAX (FGT_WORD_VALUE_MAX)

struct fgt_ring {
	/* Of a ring that was opened, only region is used. */
	struct fgt_writer writer;
};

/* ---- Life ------------------------------------------------------------- */

static const struct fgt_region_costs costs = {
	.node_bytes = FGT_ID_TABLE_BYTES,
	.frame_bytes = FGT_ID_TABLE_BYTES,
	.image_bytes = FGT_ID_TABLE_BYTES,
	/* Its state, and its places in live and changing. */
	.thread_bytes = FGT_ID_TABLE_BYTES + sizeof(struct fgt_writer_thread) +
			2 * sizeof(uint32_t),
};

static size_t count_table_bytes(const struct fgt_region_shape *shape)
{
	return shape->nodes * costs.node_bytes +
	       shape->frames * costs.frame_bytes +
	       shape->images * costs.image_bytes +
	       shape->threads * costs.thread_bytes;
}

static void make_table(struct fgt_id_table *table, char **memory,
		       uint32_t capacity)
{
	fgt_id_table_init(table, (void *)*memory, capacity);
	*memory += (size_t)capacity * FGT_ID_TABLE_BYTES;
}

/* The writer's own tables: one piece, touched only as it is used. */
static int make_tables(struct fgt_writer *writer)
{
	const struct fgt_region_shape *shape = &writer->region.shape;
	size_t len_bytes = count_table_bytes(shape);
	char *memory;

	memory = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -errno;
	writer->memory = memory;
	writer->len_bytes = len_bytes;
	/* First what needs 8-byte alignment. */
	writer->threads = (void *)memory;
	memory += shape->threads * sizeof(*writer->threads);
	make_table(&writer->nodes, &memory, shape->nodes);
	make_table(&writer->frames, &memory, shape->frames);
	make_table(&writer->images, &memory, shape->images);
	make_table(&writer->slots, &memory, shape->threads);
	writer->live = (void *)memory;
	writer->changing = writer->live + shape->threads;
	return 0;
}

int fgt_ring_new(const struct fgt_ring_options *options,
		 struct fgt_ring **ret_ring)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = NULL;
	struct fgt_region_shape shape;
	struct fgt_region *region;
	int error;

	error = fgt_region_plan(
		options->hz ? options->hz : DEFAULT_HZ,
		options->seconds ? options->seconds : DEFAULT_SECONDS,
		options->size_bytes ? options->size_bytes : DEFAULT_SIZE_BYTES,
		&costs, &shape);
	if (error)
		return error;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	region = &ring->writer.region;
	error = fgt_region_init(region, &shape, options->is_shared);
	if (error)
		return error;
	error = make_tables(&ring->writer);
	if (error)
		return error;
	region->header->total_bytes =
		region->len_bytes + ring->writer.len_bytes;
	error = fgt_intern_init(&ring->writer);
	if (error)
		return error;
	*ret_ring = FGT_TAKE(ring);
	return 0;
}

int fgt_ring_open(int memfd, struct fgt_ring **ret_ring)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = NULL;
	int error;

	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	error = fgt_region_map(&ring->writer.region, memfd);
	if (error)
		return error;
	*ret_ring = FGT_TAKE(ring);
	return 0;
}

void fgt_ring_free(struct fgt_ring *ring)
{
	if (!ring)
		return;
	if (ring->writer.memory)
		munmap(ring->writer.memory, ring->writer.len_bytes);
	fgt_region_done(&ring->writer.region);
	free(ring);
}

int fgt_ring_fd(const struct fgt_ring *ring)
{
	return ring->writer.region.memfd;
}

void fgt_ring_set_process(struct fgt_ring *ring,
			  const struct fgt_process_info *process)
{
	struct fgt_region_header *header = ring->writer.region.header;
	uint64_t words[FGT_REGION_PROCESS_WORDS] = { 0 };

	memcpy(words, process, sizeof(*process));
	fgt_region_write_pair(&header->process_version, header->process,
			      FGT_REGION_PROCESS_WORDS, words);
}

/* ---- Images ----------------------------------------------------------- */

int fgt_ring_image_get(struct fgt_ring *ring, const struct fgt_image *image,
		       uint32_t *ret_image)
{
	return fgt_intern_image(&ring->writer, image, ret_image);
}

void fgt_ring_image_put(struct fgt_ring *ring, uint32_t image)
{
	const struct fgt_id_table *table = &ring->writer.images;

	if (image != FGT_IMAGE_NONE && image <= table->fresh &&
	    table->refs[image - 1])
		fgt_intern_drop_image(&ring->writer, image);
}

/* ---- Threads ---------------------------------------------------------- */

static struct fgt_writer_thread *find_thread(struct fgt_writer *writer,
					     uint32_t slot)
{
	struct fgt_writer_thread *thread;

	if (slot >= writer->region.shape.threads)
		return NULL;
	thread = &writer->threads[slot];
	if (thread->phase != FGT_THREAD_ADDED &&
	    thread->phase != FGT_THREAD_LIVE)
		return NULL;
	return thread->is_ending ? NULL : thread;
}

static void note_change(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];

	if (thread->is_changing)
		return;
	thread->is_changing = true;
	writer->changing[writer->changing_count++] = slot;
}

static void store_name(struct fgt_writer *writer, uint32_t slot,
		       const char *name)
{
	struct fgt_region_thread *row = &writer->region.threads[slot];
	char text[FGT_THREAD_NAME_MAX] = { 0 };
	uint64_t words[FGT_REGION_NAME_WORDS];

	memcpy(text, name, strnlen(name, sizeof(text) - 1));
	memcpy(words, text, sizeof(words));
	fgt_region_write_pair(&row->version, row->names, FGT_REGION_NAME_WORDS,
			      words);
}

int fgt_ring_thread_add(struct fgt_ring *ring, int32_t tid, uint64_t start_time,
			const char *name, uint32_t *ret_slot)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_region_thread *row;
	uint32_t slot = fgt_id_table_take(&writer->slots);

	while (slot == FGT_ID_NONE && fgt_log_evict_oldest(writer))
		slot = fgt_id_table_take(&writer->slots);
	if (slot == FGT_ID_NONE)
		return -ENOSPC;
	row = &writer->region.threads[slot];
	fgt_region_store(&row->tid, (uint32_t)tid);
	fgt_region_store(&row->start_time, start_time);
	store_name(writer, slot, name);
	writer->threads[slot] = (struct fgt_writer_thread){
		.phase = FGT_THREAD_ADDED,
		.node = FGT_NODE_NONE,
		.next_node = FGT_NODE_NONE,
		.state = FGT_STATE_UNKNOWN,
		.next_state = FGT_STATE_UNKNOWN,
	};
	note_change(writer, slot);
	writer->made.threads++;
	*ret_slot = slot;
	return 0;
}

void fgt_ring_thread_rename(struct fgt_ring *ring, uint32_t slot,
			    const char *name)
{
	if (find_thread(&ring->writer, slot))
		store_name(&ring->writer, slot, name);
}

int fgt_ring_thread_end(struct fgt_ring *ring, uint32_t slot)
{
	struct fgt_writer_thread *thread = find_thread(&ring->writer, slot);

	if (!thread)
		return -EINVAL;
	thread->is_ending = true;
	note_change(&ring->writer, slot);
	return 0;
}

void fgt_ring_drop_slot(struct fgt_writer *writer, uint32_t slot)
{
	if (--writer->slots.refs[slot])
		return;
	writer->threads[slot].phase = FGT_THREAD_FREE;
	fgt_id_table_give(&writer->slots, slot);
}

/* ---- A tick ----------------------------------------------------------- */

void fgt_ring_tick_begin(struct fgt_ring *ring, uint64_t mono_ns,
			 uint64_t wall_ns, uint64_t missed)
{
	struct fgt_writer *writer = &ring->writer;

	if (mono_ns > MONO_NS_MAX)
		mono_ns = MONO_NS_MAX;
	if (writer->tick_count && mono_ns <= writer->last_ns)
		mono_ns = writer->last_ns + 1;
	writer->now_ns = mono_ns;
	writer->wall_ns = wall_ns;
	writer->missed_ticks += missed;
	writer->is_tick_open = true;
	if (writer->opens_segment || !fgt_log_is_segment_due(writer))
		return;
	writer->opens_segment = true;
	writer->made = (struct fgt_writer_level){ 0 };
}

/* Takes over the reference on node. */
static void set_next(struct fgt_writer *writer, uint32_t slot, uint32_t node,
		     uint32_t state, uint32_t credit_ticks)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];

	fgt_intern_drop_node(writer, thread->next_node);
	thread->next_node = node;
	thread->next_state = (uint16_t)state;
	thread->credit_ticks = credit_ticks;
	if (!thread->is_changing)
		note_change(writer, slot);
}

int fgt_ring_set(struct fgt_ring *ring, uint32_t slot,
		 const struct fgt_frame *frames, size_t count, uint32_t state,
		 uint32_t credit_ticks)
{
	struct fgt_writer *writer = &ring->writer;
	uint32_t node;
	int error;

	if (!find_thread(writer, slot) || state > FGT_STATE_MAX)
		return -EINVAL;
	error = fgt_intern_stack(writer, frames, count, &node);
	if (error)
		return error;
	set_next(writer, slot, node, state, credit_ticks);
	return 0;
}

int fgt_ring_set_state(struct fgt_ring *ring, uint32_t slot, uint32_t state,
		       uint32_t marker, uint32_t credit_ticks)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_writer_thread *thread = find_thread(writer, slot);
	uint32_t node;

	if (!thread || state > FGT_STATE_MAX || marker >= FGT_MARKER_COUNT)
		return -EINVAL;
	node = thread->node;
	if (marker)
		node = fgt_intern_marker(writer, node, marker);
	else
		fgt_intern_hold_node(writer, node);
	set_next(writer, slot, node, state, credit_ticks);
	return 0;
}

/* ---- Commit ----------------------------------------------------------- */

static void append_credit(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	struct fgt_region_segment *segment =
		fgt_region_segment_at(&writer->region, writer->segment_seq);
	uint64_t first, reach = fgt_region_load(&segment->reach_tick);

	if (thread->credit_ticks > writer->tick_count - thread->first_tick)
		thread->credit_ticks =
			(uint32_t)(writer->tick_count - thread->first_tick);
	if (!thread->credit_ticks)
		return;
	first = writer->tick_count - thread->credit_ticks;
	/* Published with len_words. */
	if (first < reach)
		fgt_region_store(&segment->reach_tick, first);
	fgt_log_append(writer, fgt_word_of_credit(slot, thread->credit_ticks));
}

static void commit_end(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	uint32_t last;

	fgt_intern_drop_node(writer, thread->node);
	fgt_intern_drop_node(writer, thread->next_node);
	if (thread->phase == FGT_THREAD_LIVE) {
		fgt_log_append_change(writer, slot, FGT_STATE_GONE,
				      FGT_NODE_NONE);
		last = writer->live[--writer->live_count];
		writer->live[thread->live_index] = last;
		writer->threads[last].live_index = thread->live_index;
	}
	*thread = (struct fgt_writer_thread){ .phase = FGT_THREAD_ENDED };
	fgt_ring_drop_slot(writer, slot);
}

static void commit_change(struct fgt_writer *writer, uint32_t slot)
{
	struct fgt_writer_thread *thread = &writer->threads[slot];
	bool is_new = thread->phase == FGT_THREAD_ADDED;

	if (is_new) {
		thread->phase = FGT_THREAD_LIVE;
		thread->first_tick = writer->tick_count;
		thread->live_index = writer->live_count;
		writer->live[writer->live_count++] = slot;
	} else if (thread->node == thread->next_node &&
		   thread->state == thread->next_state) {
		/* One of the two equal references is enough. */
		fgt_intern_drop_node(writer, thread->next_node);
		thread->next_node = FGT_NODE_NONE;
		return;
	}
	append_credit(writer, slot);
	fgt_log_append_change(writer, slot, thread->next_state,
			      thread->next_node);
	fgt_intern_drop_node(writer, thread->node);
	thread->node = thread->next_node;
	thread->state = thread->next_state;
	thread->next_node = FGT_NODE_NONE;
	thread->is_logged = true;
	fgt_region_add(&writer->region.header->changes, 1);
}

static void commit_changes(struct fgt_writer *writer)
{
	for (uint32_t i = 0; i < writer->changing_count; i++) {
		uint32_t slot = writer->changing[i];

		writer->threads[slot].is_changing = false;
		if (writer->threads[slot].is_ending)
			commit_end(writer, slot);
		else
			commit_change(writer, slot);
	}
}

/* Key frame: what the live threads do that did not change just now. */
static void append_key_frame(struct fgt_writer *writer)
{
	uint64_t changed_words = writer->made.log_words;

	for (uint32_t i = 0; i < writer->live_count; i++) {
		uint32_t slot = writer->live[i];
		const struct fgt_writer_thread *thread = &writer->threads[slot];

		if (!thread->is_logged)
			fgt_log_append_change(writer, slot, thread->state,
					      thread->node);
	}
	/* Its size must not make the next one come sooner. */
	writer->made.log_words = changed_words;
}

static void append_missed(struct fgt_writer *writer)
{
	uint64_t missed = writer->missed_ticks;

	if (!missed)
		return;
	if (missed > FGT_WORD_VALUE_MAX)
		missed = FGT_WORD_VALUE_MAX;
	fgt_log_append(writer, fgt_word_of_value(FGT_WORD_MISSED, missed));
	fgt_region_add(&writer->region.header->missed_ticks, missed);
	writer->missed_ticks = 0;
}

void fgt_ring_tick_commit(struct fgt_ring *ring)
{
	struct fgt_writer *writer = &ring->writer;
	uint64_t words = 2 + 2 * (uint64_t)writer->changing_count;
	uint64_t delta_ns = writer->now_ns - writer->last_ns;

	if (!writer->is_tick_open)
		return;
	if (writer->opens_segment)
		words += writer->live_count;
	fgt_log_make_room(writer, words);
	if (writer->opens_segment) {
		fgt_log_open_segment(writer);
		delta_ns = 0;
	}
	fgt_log_append(writer, fgt_word_of_value(FGT_WORD_TICK, delta_ns));
	append_missed(writer);
	commit_changes(writer);
	if (writer->opens_segment)
		append_key_frame(writer);
	for (uint32_t i = 0; i < writer->changing_count; i++)
		writer->threads[writer->changing[i]].is_logged = false;
	writer->changing_count = 0;
	writer->opens_segment = false;
	writer->is_tick_open = false;
	fgt_log_publish(writer);
	fgt_log_evict_aged(writer);
}

/* ---- Readers ---------------------------------------------------------- */

int fgt_ring_range(const struct fgt_ring *ring, uint64_t *ret_oldest_ns,
		   uint64_t *ret_newest_ns)
{
	return fgt_cut_range(&ring->writer.region, ret_oldest_ns,
			     ret_newest_ns);
}

int fgt_ring_cut(const struct fgt_ring *ring, uint64_t from_ns, uint64_t to_ns,
		 struct fgt_slice **ret_slice)
{
	return fgt_cut_slice(&ring->writer.region, from_ns, to_ns, ret_slice);
}

void fgt_ring_get_stats(const struct fgt_ring *ring,
			struct fgt_ring_stats *ret_stats)
{
	const struct fgt_region *region = &ring->writer.region;
	const struct fgt_region_header *header = region->header;
	struct fgt_ring_stats stats = {
		.ticks = fgt_region_load(&header->ticks),
		.missed_ticks = fgt_region_load(&header->missed_ticks),
		.changes = fgt_region_load(&header->changes),
		.overflows = fgt_region_load(&header->overflows),
		.evicted_bytes = fgt_region_load(&header->dropped_ticks),
		.log_used_bytes = fgt_region_load(&header->log_used_words) * 8,
		.log_size_bytes = region->shape.log_words * 8,
		.nodes = (uint32_t)fgt_region_load(&header->nodes),
		.frames = (uint32_t)fgt_region_load(&header->frames),
		.images = (uint32_t)fgt_region_load(&header->images),
		.threads = (uint32_t)fgt_region_load(&header->threads),
		.size_bytes = header->total_bytes,
	};

	fgt_cut_range(region, &stats.oldest_ns, &stats.newest_ns);
	*ret_stats = stats;
}
