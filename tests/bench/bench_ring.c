/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ring and the encoders cost: bytes per idle thread-second and per
 * changed sample, time per tick, time to cut and to encode 30 s.
 * Prints one "name value unit" line each; nothing here passes or fails.
 */
#include <stdio.h>
#include <time.h>

#include "ringbuf/ring/ring.h"
#include "ringbuf/slice/slice_codec.h"
#include "upload/format/format.h"

#define HZ	101
#define SECONDS 30
#define DEPTH	20

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static uint64_t tick_ns(uint64_t tick)
{
	return 1000000000ull + tick * 1000000000ull / HZ;
}

static void make_stack(struct fgt_frame *frames, uint64_t leaf)
{
	for (uint64_t i = 0; i < DEPTH; i++)
		frames[i] = (struct fgt_frame){ .address = 0x1000 + i * 64,
						.flags = FGT_FRAME_CALLER };
	frames[0].address = 0x900000 + leaf * 16;
	frames[0].flags = 0;
}

static int count_bytes(void *context, const void *bytes, size_t len)
{
	(void)bytes;
	*(uint64_t *)context += len;
	return 0;
}

/* Ticks a ring of idle and changing threads; each change is a new stack out
 * of 500. Returns the ns that the ticks took. */
static uint64_t fill(struct fgt_ring *ring, uint32_t threads, uint32_t changing,
		     uint64_t first_tick, uint64_t ticks)
{
	struct fgt_frame frames[DEPTH];
	uint64_t begin_ns = clock_ns();

	for (uint64_t tick = first_tick; tick < first_tick + ticks; tick++) {
		fgt_ring_tick_begin(ring, tick_ns(tick), tick_ns(tick), 0);
		for (uint32_t i = 0; i < threads; i++) {
			if (tick > first_tick && i >= changing)
				break;
			make_stack(frames, (tick * 7 + i) % 500);
			fgt_ring_set(ring, i, frames, DEPTH, FGT_STATE_RUNNING,
				     0);
		}
		fgt_ring_tick_commit(ring);
	}
	return clock_ns() - begin_ns;
}

static struct fgt_ring *make_ring(uint32_t threads)
{
	const struct fgt_ring_options options = { .hz = HZ,
						  .seconds = SECONDS };
	struct fgt_ring *ring;

	if (fgt_ring_new(&options, &ring) < 0)
		exit(1);
	for (uint32_t i = 0; i < threads; i++) {
		char name[16];
		uint32_t slot;

		snprintf(name, sizeof(name), "thread-%u", i);
		if (fgt_ring_thread_add(ring, (int32_t)(1000 + i), 1, name,
					&slot) < 0)
			exit(1);
	}
	return ring;
}

static void bench_bytes(void)
{
	struct fgt_ring_stats before, after;
	struct fgt_ring *ring = make_ring(1000);
	uint64_t none_ns, bytes;

	fill(ring, 1000, 0, 0, 2 * HZ);
	fgt_ring_get_stats(ring, &before);
	none_ns = fill(ring, 0, 0, 2 * HZ, 20 * HZ);
	fgt_ring_get_stats(ring, &after);
	bytes = after.log_used_bytes - before.log_used_bytes;
	printf("ring.idle_thread_second %.2f bytes\n",
	       (double)(bytes - 20ull * HZ * 8) / 20 / 1000);
	printf("ring.tick_1000_idle_threads %.0f ns\n",
	       (double)none_ns / 20 / HZ);
	fgt_ring_free(ring);

	ring = make_ring(100);
	fill(ring, 100, 0, 0, HZ);
	fgt_ring_get_stats(ring, &before);
	none_ns = fill(ring, 100, 100, HZ, 20 * HZ);
	fgt_ring_get_stats(ring, &after);
	bytes = after.log_used_bytes - before.log_used_bytes;
	printf("ring.changed_sample %.2f bytes\n",
	       (double)bytes / (double)(after.changes - before.changes));
	printf("ring.set_changed_stack_of_20 %.0f ns\n",
	       (double)none_ns / (double)(after.changes - before.changes));
	fgt_ring_free(ring);
}

static void encode(const struct fgt_ring_slice *slice,
		   enum fgt_format_kind format, uint32_t threads)
{
	const struct fgt_format_options options = { 0 };
	uint64_t begin_ns = clock_ns(), bytes = 0;
	const struct fgt_sink sink = { .write = count_bytes,
				       .context = &bytes };

	if (fgt_format_write(slice, format, &options, &sink) < 0)
		return;
	printf("encode.%s_%u_threads %.1f ms %.2f MB\n",
	       fgt_format_name(format), threads,
	       (double)(clock_ns() - begin_ns) / 1e6, (double)bytes / 1e6);
}

static void bench_slice(uint32_t threads, uint32_t changing)
{
	struct fgt_ring *ring = make_ring(threads);
	struct fgt_ring_slice *slice;
	uint64_t begin_ns;

	fill(ring, threads, changing, 0, (SECONDS + 5) * HZ);
	begin_ns = clock_ns();
	if (fgt_ring_cut(ring, 0, UINT64_MAX, &slice) == 0) {
		printf("cut.%u_threads_%u_changing %.2f ms, %u runs\n", threads,
		       changing, (double)(clock_ns() - begin_ns) / 1e6,
		       slice->run_count);
		for (int i = 0; i < FGT_KIND_COUNT; i++)
			encode(slice, (enum fgt_format_kind)i, threads);
		fgt_ring_slice_free(slice);
	}
	fgt_ring_free(ring);
}

int main(void)
{
	bench_bytes();
	bench_slice(100, 10);
	bench_slice(1000, 10);
	bench_slice(100, 100);
	return 0;
}
