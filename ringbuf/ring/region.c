/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays the region out, makes it and maps it. Runs in the writer's thread and in
 * readers of any process; must check a header that it did not write.
 */
#include "ringbuf/ring/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ringbuf/base/fd.h"

#define LINE_BYTES 64u

/* Segments beyond one a second: those closed because they ate too much. */
#define SPARE_SEGMENTS 98u

/* Tries to read a text in one piece before taking what is there. */
#define PAIR_TRIES 8

struct layout {
	uint64_t segments, threads, images, frames, nodes, waits, wakers, log,
		end;
};

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* Cannot overflow: every count is below 2^32, log_words is checked. */
static struct layout lay_out(const struct fgt_region_shape *shape)
{
	struct layout at;

	at.segments = round_up(sizeof(struct fgt_region_header));
	at.threads = at.segments + (uint64_t)shape->segments *
					   sizeof(struct fgt_region_segment);
	at.images = at.threads +
		    (uint64_t)shape->threads * sizeof(struct fgt_region_thread);
	at.frames =
		round_up(at.images + (uint64_t)shape->images *
					     sizeof(struct fgt_region_image));
	at.nodes =
		round_up(at.frames + (uint64_t)shape->frames *
					     sizeof(struct fgt_region_frame));
	at.waits =
		round_up(at.nodes + (uint64_t)shape->nodes * sizeof(fgt_word));
	at.wakers = at.waits +
		    (uint64_t)shape->waits * sizeof(struct fgt_region_wait);
	at.log = round_up(at.wakers + (uint64_t)shape->wakers *
					      sizeof(struct fgt_region_waker));
	at.end = round_up(at.log + shape->log_words * sizeof(fgt_word));
	return at;
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

int fgt_region_plan(unsigned int hz, unsigned int seconds, size_t size_bytes,
		    const struct fgt_region_costs *costs,
		    struct fgt_region_shape *ret_shape)
{
	struct fgt_region_shape shape = { .hz = hz, .seconds = seconds };
	uint64_t size = size_bytes, used;

	if (hz < 1 || hz > FGT_REGION_HZ_MAX || seconds < 1 ||
	    seconds > FGT_REGION_SECONDS_MAX || size < FGT_REGION_SIZE_MIN ||
	    size > (uint64_t)1 << 34)
		return -EINVAL;
	shape.segments = seconds + SPARE_SEGMENTS;
	shape.nodes = (uint32_t)clamp(
		size / 4 / (sizeof(fgt_word) + costs->node_bytes), 1,
		FGT_REGION_IDS_MAX);
	shape.frames = (uint32_t)clamp(
		size / 8 /
			(sizeof(struct fgt_region_frame) + costs->frame_bytes),
		1, FGT_REGION_IDS_MAX);
	shape.images = (uint32_t)clamp(
		size / 32 /
			(sizeof(struct fgt_region_image) + costs->image_bytes),
		64, 65536);
	/* 5 % and 1.5 %. */
	shape.waits = (uint32_t)clamp(
		size * 5 / 100 /
			(sizeof(struct fgt_region_wait) + costs->wait_bytes),
		64, 65536);
	shape.wakers = (uint32_t)clamp(
		size / 64 /
			(sizeof(struct fgt_region_waker) + costs->waker_bytes),
		64, 1u << 20);
	/* At most 1/64 of the log's words: see fgt_log_make_room(). */
	shape.threads =
		(uint32_t)clamp(size / 13 /
					(sizeof(struct fgt_region_thread) +
					 costs->thread_bytes),
				1, FGT_REGION_SLOTS_MAX);
	used = lay_out(&shape).end + shape.nodes * costs->node_bytes +
	       shape.frames * costs->frame_bytes +
	       shape.images * costs->image_bytes +
	       shape.waits * costs->wait_bytes +
	       shape.wakers * costs->waker_bytes +
	       shape.threads * costs->thread_bytes;
	/* The log takes the rest: about half. */
	if (size < used + size / 6)
		return -EINVAL;
	shape.log_words =
		(size - used) / LINE_BYTES * (LINE_BYTES / sizeof(fgt_word));
	shape.threads = (uint32_t)clamp(shape.threads, 1, shape.log_words / 64);
	*ret_shape = shape;
	return 0;
}

static void set_pointers(struct fgt_region *region)
{
	struct layout at = lay_out(&region->shape);
	char *memory = region->memory;

	region->header = (void *)memory;
	region->segments = (void *)(memory + at.segments);
	region->threads = (void *)(memory + at.threads);
	region->images = (void *)(memory + at.images);
	region->frames = (void *)(memory + at.frames);
	region->nodes = (void *)(memory + at.nodes);
	region->waits = (void *)(memory + at.waits);
	region->wakers = (void *)(memory + at.wakers);
	region->log = (void *)(memory + at.log);
}

int fgt_region_init(struct fgt_region *region,
		    const struct fgt_region_shape *shape, bool is_shared)
{
	size_t len_bytes = lay_out(shape).end;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	int error;

	memset(region, 0, sizeof(*region));
	region->shape = *shape;
	region->memfd = -1;
	if (is_shared) {
		error = fgt_memfd_open("fgtrace-ring", len_bytes,
				       &region->memfd);
		if (error)
			return error;
		flags = MAP_SHARED | MAP_NORESERVE;
	}
	region->memory = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, flags,
			      region->memfd, 0);
	if (region->memory == MAP_FAILED) {
		region->memory = NULL;
		return -errno;
	}
	region->len_bytes = len_bytes;
	error = is_shared ? fgt_memfd_seal(region->memfd) : 0;
	if (error)
		return error;
	set_pointers(region);
	region->header->version = FGT_REGION_VERSION;
	region->header->shape = *shape;
	region->header->region_bytes = len_bytes;
	fgt_region_store(&region->header->tail_seq, 1);
	region->header->magic = FGT_REGION_MAGIC;
	return 0;
}

static bool is_shape_sane(const struct fgt_region_shape *shape)
{
	return shape->hz >= 1 && shape->hz <= FGT_REGION_HZ_MAX &&
	       shape->seconds >= 1 &&
	       shape->seconds <= FGT_REGION_SECONDS_MAX &&
	       shape->segments >= 2 && shape->threads >= 1 &&
	       shape->threads <= FGT_REGION_SLOTS_MAX && shape->images >= 1 &&
	       shape->images <= FGT_REGION_IDS_MAX && shape->frames >= 1 &&
	       shape->frames <= FGT_REGION_IDS_MAX && shape->nodes >= 1 &&
	       shape->nodes <= FGT_REGION_IDS_MAX && shape->waits >= 1 &&
	       shape->waits <= FGT_REGION_IDS_MAX && shape->wakers >= 1 &&
	       shape->wakers <= FGT_REGION_IDS_MAX && shape->log_words >= 64 &&
	       shape->log_words <= (uint64_t)1 << 31;
}

/* The header's fixed part as it was at one moment: its owner can change it. */
static int read_shape(int memfd, struct fgt_region_shape *ret_shape)
{
	const size_t fixed = offsetof(struct fgt_region_header, head_seq);
	struct fgt_region_header header = { 0 };
	struct stat status;
	void *memory;

	if (!fgt_memfd_is_sealed(memfd) || fstat(memfd, &status) ||
	    status.st_size < (off_t)sizeof(header))
		return -EINVAL;
	memory = mmap(NULL, sizeof(header), PROT_READ, MAP_SHARED, memfd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	memcpy(&header, memory, fixed);
	munmap(memory, sizeof(header));
	if (header.magic != FGT_REGION_MAGIC ||
	    header.version != FGT_REGION_VERSION ||
	    !is_shape_sane(&header.shape) ||
	    lay_out(&header.shape).end > (uint64_t)status.st_size)
		return -EINVAL;
	*ret_shape = header.shape;
	return 0;
}

int fgt_region_map(struct fgt_region *region, int memfd)
{
	struct fgt_region_shape shape = { 0 };
	int error;

	memset(region, 0, sizeof(*region));
	region->memfd = -1;
	error = read_shape(memfd, &shape);
	if (error)
		return error;
	region->shape = shape;
	region->len_bytes = lay_out(&shape).end;
	region->memory =
		mmap(NULL, region->len_bytes, PROT_READ, MAP_SHARED, memfd, 0);
	if (region->memory == MAP_FAILED) {
		region->memory = NULL;
		return -errno;
	}
	set_pointers(region);
	return 0;
}

void fgt_region_done(struct fgt_region *region)
{
	if (region->memory)
		munmap(region->memory, region->len_bytes);
	region->memory = NULL;
	fgt_fd_close(FGT_TAKE_FD(region->memfd));
}

void fgt_region_write_pair(fgt_word *version, fgt_word *copies, size_t words,
			   const uint64_t *values)
{
	uint64_t next = fgt_region_load(version) + 1;

	for (size_t i = 0; i < words; i++)
		fgt_region_store(&copies[(next & 1) * words + i], values[i]);
	/* Release: pairs with the first load in fgt_region_read_pair(). */
	fgt_region_store(version, next);
}

void fgt_region_read_pair(const fgt_word *version, const fgt_word *copies,
			  size_t words, uint64_t *ret_values)
{
	for (int i = 0; i < PAIR_TRIES; i++) {
		uint64_t now = fgt_region_load(version);

		for (size_t k = 0; k < words; k++)
			ret_values[k] =
				fgt_region_load(&copies[(now & 1) * words + k]);
		/* A word of a later text was stored after its predecessor's
		 * version: seeing the word means seeing that version here. */
		if (fgt_region_load(version) == now)
			return;
	}
}
