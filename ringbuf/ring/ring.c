/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring's life and its figures. Runs in the writer's thread, open, free, fd
 * and get_stats in any; must not touch the writer's tables in those.
 */
#include "ringbuf/ring/ring.h"

#include "ringbuf/ring/writer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define DEFAULT_HZ	   101
#define DEFAULT_SECONDS	   30
#define DEFAULT_SIZE_BYTES ((size_t)64 << 20)

/* ---- Life ------------------------------------------------------------- */

static const struct fgt_region_costs costs = {
	.node_bytes = FGT_ID_TABLE_BYTES,
	.frame_bytes = FGT_ID_TABLE_BYTES,
	.image_bytes = FGT_ID_TABLE_BYTES,
	.wait_bytes = FGT_ID_TABLE_BYTES,
	.waker_bytes = FGT_ID_TABLE_BYTES,
	/* Its state, its places in live and changing, its edges and wakes. */
	.thread_bytes = FGT_ID_TABLE_BYTES + sizeof(struct fgt_writer_thread) +
			2 * sizeof(uint32_t) +
			(FGT_WRITER_EDGE_WORDS + FGT_WRITER_WAKE_WORDS) *
				sizeof(uint64_t),
};

static size_t count_table_bytes(const struct fgt_region_shape *shape)
{
	return shape->nodes * costs.node_bytes +
	       shape->frames * costs.frame_bytes +
	       shape->images * costs.image_bytes +
	       shape->waits * costs.wait_bytes +
	       shape->wakers * costs.waker_bytes +
	       shape->threads * costs.thread_bytes;
}

/* things: a table of the region whose entries are found by hash_of, or NULL. */
static void make_table(struct fgt_id_table *table, char **memory,
		       uint32_t capacity,
		       uint64_t (*hash_of)(const void *things, uint32_t id),
		       const void *things)
{
	fgt_id_table_init(table, (void *)*memory, capacity, hash_of, things);
	*memory += (size_t)capacity * FGT_ID_TABLE_BYTES;
}

/* The writer's own tables: one piece, touched only as it is used. */
static int make_tables(struct fgt_writer *writer)
{
	const struct fgt_region *region = &writer->region;
	const struct fgt_region_shape *shape = &region->shape;
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
	writer->edge_words = (void *)memory;
	memory += (size_t)shape->threads * FGT_WRITER_EDGE_WORDS *
		  sizeof(*writer->edge_words);
	writer->wake_words = (void *)memory;
	memory += (size_t)shape->threads * FGT_WRITER_WAKE_WORDS *
		  sizeof(*writer->wake_words);
	make_table(&writer->nodes, &memory, shape->nodes, fgt_intern_hash_node,
		   region->nodes);
	make_table(&writer->frames, &memory, shape->frames,
		   fgt_intern_hash_frame, region->frames);
	make_table(&writer->images, &memory, shape->images,
		   fgt_intern_hash_image, region->images);
	make_table(&writer->waits, &memory, shape->waits, fgt_intern_hash_wait,
		   region->waits);
	make_table(&writer->wakers, &memory, shape->wakers,
		   fgt_intern_hash_waker, region->wakers);
	make_table(&writer->slots, &memory, shape->threads, NULL, NULL);
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
	ring->writer.periods = 1;
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
		.lost_waits = fgt_region_load(&header->lost_waits),
		.lost_wakes = fgt_region_load(&header->lost_wakes),
		.evicted_ticks = fgt_region_load(&header->dropped_ticks),
		.log_used_bytes = fgt_region_load(&header->log_used_words) * 8,
		.log_size_bytes = region->shape.log_words * 8,
		.nodes = (uint32_t)fgt_region_load(&header->nodes),
		.frames = (uint32_t)fgt_region_load(&header->frames),
		.images = (uint32_t)fgt_region_load(&header->images),
		.threads = (uint32_t)fgt_region_load(&header->threads),
		.size_bytes = header->total_bytes,
	};

	fgt_ring_range(ring, &stats.oldest_ns, &stats.newest_ns);
	*ret_stats = stats;
}
