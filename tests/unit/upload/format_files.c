/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format_files DIR [naps | TICKS THREADS]: writes slices built by hand in every
 * format into DIR, for other programs that read them and for the fuzzer's
 * corpus. With numbers it writes one busy slice of that size instead and prints
 * bytes and milliseconds, for the budget of encoders; with naps, threads that
 * work and sleep in turn, with their edges, and some that live for a tick.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"
#include "upload/format/parts/gzip.h"

static int write_file(void *context, const void *bytes, size_t len)
{
	return fwrite(bytes, 1, len, context) == len ? 0 : -EIO;
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int write_one(const struct fgt_ring_slice *slice,
		     enum fgt_format_kind format,
		     const struct fgt_format_options *options, const char *path)
{
	FGT_AUTO(fgt_file_close) FILE *file = fopen(path, "we");
	struct fgt_sink sink = { .write = write_file, .context = file };
	double start_ms = now_ms();
	int r;

	if (!file)
		return -errno;
	r = fgt_format_write(slice, format, options, &sink);
	fprintf(stderr, "%-40s %9ld bytes %8.1f ms%s\n", path, ftell(file),
		now_ms() - start_ms, r ? " FAILED" : "");
	return r;
}

/* OTLP's other shape. */
static int write_sums(const struct fgt_ring_slice *slice, const char *folder,
		      const char *name)
{
	const struct fgt_format_options options = { .otlp_shape =
							    FGT_OTLP_SUM };
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s-root.sum.otlp", folder, name);
	return write_one(slice, FGT_KIND_OTLP, &options, path);
}

static int write_all(const struct fgt_ring_slice *slice, const char *folder,
		     const char *name)
{
	static const char *const endings[FGT_KIND_COUNT] = {
		".fgt",	   ".trace.json", ".envelope",	      ".chunk.envelope",
		".pb.gz",  ".folded",	  ".speedscope.json", ".otlp",
		".pftrace"
	};
	static const char *const states[] = { "auto", "root", "leaf", "no" };
	char path[1024];
	int r = 0;

	for (int s = FGT_STATE_FRAMES_ROOT; s <= FGT_STATE_FRAMES_NO; s++)
		for (int f = 0; f < FGT_KIND_COUNT && !r; f++) {
			const struct fgt_format_options options = {
				.state_frames = (enum fgt_state_frames)s,
				.release = "app@1.0",
			};

			snprintf(path, sizeof(path), "%s/%s-%s%s", folder, name,
				 states[s], endings[f]);
			r = write_one(slice, (enum fgt_format_kind)f, &options,
				      path);
		}
	return r ? r : write_sums(slice, folder, name);
}

/* Every tenth thread runs and changes its stack at every other tick. */
static struct fgt_ring_slice *busy_slice(uint32_t ticks, uint32_t threads)
{
	struct fgt_ring_slice *slice = fixture_new(ticks);
	uint32_t stacks[200];
	char folded[4096];

	slice->period_ns = 9900990;
	for (uint32_t i = 0; i < ticks; i++)
		slice->tick_ns[i] = FIXTURE_START_NS + i * slice->period_ns;
	for (uint32_t i = 0; i < 200; i++) {
		size_t at = 0;

		for (uint32_t depth = 0; depth < 30; depth++)
			at += (size_t)snprintf(
				folded + at, sizeof(folded) - at,
				"%snamespace::function_%u(int, char const*)",
				at ? ";" : "",
				depth < 20 ? depth : depth * 200 + i);
		stacks[i] = fixture_stack(slice, folded);
	}
	for (uint32_t t = 0; t < threads; t++) {
		fixture_thread(slice, (int32_t)(4242 + t), "worker");
		if (t % 10) {
			fixture_run(slice, t, 0, ticks, stacks[t % 200],
				    FIXTURE_FUTEX);
			continue;
		}
		for (uint32_t i = 0; i + 2 <= ticks; i += 2)
			fixture_run(slice, t, i, 2, stacks[(i + t) % 200],
				    FGT_STATE_RUNNING);
	}
	return slice;
}

/* Few names, any order: what viewers match by name gets every chance. */
static struct fgt_ring_slice *tangled_slice(void)
{
	struct fgt_ring_slice *slice = fixture_new(300);
	uint32_t random = 1;

	for (uint32_t t = 0; t < 3; t++) {
		fixture_thread(slice, (int32_t)(4242 + t), "tangle");
		for (uint32_t i = 0; i < 300; i++) {
			char folded[32] = "a";
			uint32_t depth;

			random = random * 1664525 + 1013904223;
			depth = random >> 16 & 7;
			for (uint32_t d = 1; d <= depth; d++) {
				random = random * 1664525 + 1013904223;
				folded[2 * d - 1] = ';';
				folded[2 * d] = "abcd"[random >> 24 & 3];
			}
			fixture_run(slice, t, i, 1,
				    fixture_stack(slice, folded),
				    random >> 20 & 1 ? FIXTURE_FUTEX
						     : FGT_STATE_RUNNING);
		}
	}
	return slice;
}

/* ---- Threads that work and sleep in turn -------------------------------- */

#define NAP_TICKS 3000u

/* µs; it works first. */
struct napper {
	uint32_t work_us, sleep_us;
};

static bool is_at_work(const struct napper *napper, uint64_t at_us)
{
	return at_us % (napper->work_us + napper->sleep_us) < napper->work_us;
}

/* The instant at which it next begins to work, or to sleep. */
static uint64_t next_turn_us(const struct napper *napper, uint64_t at_us)
{
	uint32_t period_us = napper->work_us + napper->sleep_us;

	return at_us / period_us * period_us +
	       (is_at_work(napper, at_us) ? napper->work_us : period_us);
}

/* All turns between the tick before and this one, two to a record. */
static void add_turns(struct fgt_ring_slice *slice, uint32_t thread,
		      const struct napper *napper, uint32_t tick,
		      const uint64_t us[2])
{
	uint64_t at_us = next_turn_us(napper, us[0]);

	while (at_us < us[1]) {
		bool is_on_first = is_at_work(napper, at_us);
		uint64_t then_us = next_turn_us(napper, at_us);
		uint32_t first = (uint32_t)(us[1] - at_us);
		uint32_t second = then_us < us[1] ? (uint32_t)(us[1] - then_us)
						  : 0;

		fixture_edge(slice, thread, tick, is_on_first ? first : second,
			     is_on_first ? second : first);
		at_us = next_turn_us(napper, then_us);
	}
}

static void add_napper(struct fgt_ring_slice *slice, uint32_t thread,
		       const struct napper *napper)
{
	uint32_t stacks[2] = { fixture_stack(slice, "main;nap"),
			       fixture_stack(slice, "main;work") };
	uint64_t us[2] = { 0 };

	for (uint32_t tick = 0; tick < NAP_TICKS; tick++) {
		bool is_running;

		us[1] = (slice->tick_ns[tick] - slice->tick_ns[0]) / 1000 +
			100000;
		is_running = is_at_work(napper, us[1]);
		fixture_run(slice, thread, tick, 1, stacks[is_running],
			    is_running ? FGT_STATE_RUNNING : FIXTURE_FUTEX);
		if (tick)
			add_turns(slice, thread, napper, tick, us);
		us[0] = us[1];
	}
}

/* Each lives for one tick, or two. */
static void add_brief_threads(struct fgt_ring_slice *slice)
{
	uint32_t stack = fixture_stack(slice, "start;brief");

	for (uint32_t i = 0; i < 40; i++) {
		uint32_t thread =
			fixture_thread(slice, (int32_t)(5000 + i), "brief");

		fixture_run(slice, thread, 40 + i * 50, 1 + i % 2, stack,
			    FGT_STATE_RUNNING);
	}
}

static struct fgt_ring_slice *napping_slice(void)
{
	static const struct napper nappers[] = {
		{ 3000, 7037 }, { 3011, 4000 },	 { 1003, 3300 },
		{ 8000, 3019 }, { 15011, 3000 }, { 1000, 26417 },
	};
	struct fgt_ring_slice *slice = fixture_new(NAP_TICKS);

	/* As the sampler: up to three sixteenths of a period more or less. */
	for (uint32_t i = 1; i < NAP_TICKS; i++)
		slice->tick_ns[i] = slice->tick_ns[i - 1] +
				    FIXTURE_PERIOD_NS / 16 * (13 + i / 16 % 7);
	for (uint32_t i = 0; i < sizeof(nappers) / sizeof(nappers[0]); i++) {
		fixture_thread(slice, (int32_t)(4242 + i), "napper");
		add_napper(slice, i, &nappers[i]);
	}
	add_brief_threads(slice);
	return slice;
}

static int write_spans(const struct fgt_ring_slice *slice, const char *folder)
{
	const struct fgt_format_options options = { .release = "app@1.0" };
	char path[1024];
	int r;

	snprintf(path, sizeof(path), "%s/spans.trace.json", folder);
	r = write_one(slice, FGT_KIND_CHROME, &options, path);
	if (r)
		return r;
	snprintf(path, sizeof(path), "%s/spans.pftrace", folder);
	r = write_one(slice, FGT_KIND_PERFETTO, &options, path);
	if (r)
		return r;
	snprintf(path, sizeof(path), "%s/spans.envelope", folder);
	return write_one(slice, FGT_KIND_SENTRY, &options, path);
}

static int write_small(const char *folder)
{
	struct fgt_ring_slice *rich = fixture_rich(),
			      *tangled = tangled_slice();
	int r;

	/* Folded stacks know of no spans: nothing to compare these with. */
	r = write_spans(rich, folder);
	/* Only timelines have edges; the formats that they are compared with
	 * have ticks. */
	rich->edge_count = 0;
	fixture_drop_spans(rich);
	if (!r)
		r = write_all(rich, folder, "rich");
	if (!r)
		r = write_all(tangled, folder, "tangled");
	fgt_ring_slice_free(rich);
	fgt_ring_slice_free(tangled);
	return r;
}

int main(int argc, char **argv)
{
	struct fgt_ring_slice *slice;
	int r;

	if (argc < 2 || argc > 4) {
		fprintf(stderr,
			"usage: format_files DIR [naps | TICKS THREADS]\n");
		return 2;
	}
	if (argc == 2)
		return write_small(argv[1]) ? 1 : 0;
	slice = argc == 3 ? napping_slice()
			  : busy_slice((uint32_t)atoi(argv[2]),
				       (uint32_t)atoi(argv[3]));
	r = write_all(slice, argv[1], argc == 3 ? "naps" : "busy");
	fgt_ring_slice_free(slice);
	return r ? 1 : 0;
}
