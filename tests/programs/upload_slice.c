/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads a small made-up slice and prints the outcome, for
 * tests/integration/test_upload.py:
 *   upload_slice DSN_FILE [ca=FILE] [connect_ms=N] [total_ms=N] [low_speed_s=N]
 *                [functions=N]
 * functions: how many distinct long names the slice holds, to make it big.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/slice/slice.h"
#include "upload/deliver/sentry_upload.h"

#define PERIOD_NS  10000000ull
#define TICK_COUNT 100u
#define DEPTH	   200u

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static uint32_t intern(struct fgt_ring_slice *slice, const char *text)
{
	uint32_t id;

	if (fgt_strings_intern(&slice->strings, text, strlen(text), &id))
		abort();
	return id;
}

/* Names that gzip compresses badly. */
static void add_function(struct fgt_ring_slice *slice, uint32_t frame)
{
	char name[400];
	const struct fgt_symbol_text text = { .function = name,
					      .file = "/src/main.c",
					      .line = frame + 1 };

	snprintf(name, sizeof(name), "work_%u_", frame);
	for (size_t i = strlen(name); i < sizeof(name) - 1; i++)
		name[i] = (char)('A' + rand() % 26 + (rand() % 2 ? 32 : 0));
	name[sizeof(name) - 1] = 0;
	if (fgt_slice_add_symbols(slice, frame, &text, 1))
		abort();
}

static void fill_process(struct fgt_ring_slice *slice)
{
	slice->process.pid = 4242;
	strcpy(slice->process.name, "app");
	strcpy(slice->process.exe, "/opt/app/bin/app");
	strcpy(slice->process.host, "box");
	strcpy(slice->process.arch, "x86_64");
	strcpy(slice->process.os_release, "6.1.0");
	slice->period_ns = PERIOD_NS;
	slice->effective_hz = 100;
	slice->requested_from_ns = PERIOD_NS;
	slice->requested_to_ns = PERIOD_NS * TICK_COUNT;
}

static void fill_ticks(struct fgt_ring_slice *slice)
{
	slice->anchors = must(calloc(1, sizeof(*slice->anchors)));
	slice->anchor_count = 1;
	slice->anchors->mono_ns = PERIOD_NS;
	slice->anchors->wall_ns = 1767225600000000000ull;
	slice->tick_ns = must(calloc(TICK_COUNT, sizeof(*slice->tick_ns)));
	slice->tick_count = TICK_COUNT;
	for (uint32_t i = 0; i < TICK_COUNT; i++)
		slice->tick_ns[i] = PERIOD_NS * (i + 1);
}

static void fill_functions(struct fgt_ring_slice *slice, uint32_t count)
{
	slice->frames = must(calloc(count, sizeof(*slice->frames)));
	slice->frame_count = count;
	slice->nodes = must(calloc(count, sizeof(*slice->nodes)));
	slice->node_count = count;
	for (uint32_t i = 0; i < count; i++) {
		slice->frames[i].frame.address = 0x1000 + i * 16;
		slice->nodes[i].frame = i;
		slice->nodes[i].parent = i % DEPTH ? i - 1 : FGT_NODE_NONE;
		add_function(slice, i);
	}
}

/* Each thread has one stack of DEPTH functions, different for each thread. */
static void fill_threads(struct fgt_ring_slice *slice)
{
	uint32_t count = (slice->node_count + DEPTH - 1) / DEPTH;

	slice->threads = must(calloc(count, sizeof(*slice->threads)));
	slice->thread_count = count;
	slice->runs = must(calloc(count, sizeof(*slice->runs)));
	slice->run_count = count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t end = (i + 1) * DEPTH;

		slice->threads[i].tid = 4242 + (int32_t)i;
		slice->threads[i].name = intern(slice, "worker");
		slice->runs[i].thread = i;
		slice->runs[i].tick_count = TICK_COUNT;
		slice->runs[i].stack =
			(end < slice->node_count ? end : slice->node_count) - 1;
	}
	slice->states = must(calloc(1, sizeof(*slice->states)));
	slice->state_count = 1;
	slice->states->name = intern(slice, "running");
}

static unsigned int number(const char *argument, const char *name,
			   unsigned int otherwise)
{
	size_t len = strlen(name);

	return strncmp(argument, name, len) != 0
		       ? otherwise
		       : (unsigned int)strtoul(argument + len, NULL, 10);
}

int main(int argc, char **argv)
{
	struct fgt_upload_limits limits = { .ca_file = NULL };
	struct fgt_upload_outcome outcome = { .status = 0 };
	struct fgt_why why = { .text = "" };
	struct fgt_ring_slice *slice = NULL;
	struct fgt_dsn dsn;
	unsigned int functions = 5;
	int error;

	for (int i = 2; i < argc; i++) {
		if (!strncmp(argv[i], "ca=", 3))
			limits.ca_file = argv[i] + 3;
		limits.connect_timeout_ms = number(
			argv[i], "connect_ms=", limits.connect_timeout_ms);
		limits.total_timeout_ms =
			number(argv[i], "total_ms=", limits.total_timeout_ms);
		limits.low_speed_s =
			number(argv[i], "low_speed_s=", limits.low_speed_s);
		functions = number(argv[i], "functions=", functions);
	}
	if (argc < 2 || fgt_slice_new(&slice))
		return 2;
	fill_process(slice);
	fill_ticks(slice);
	fill_functions(slice, functions);
	fill_threads(slice);
	error = fgt_slice_is_valid(slice) ? 0 : -1000;
	if (!error)
		error = fgt_dsn_read_file(argv[1], 0, &dsn, &why);
	if (!error)
		error = fgt_sentry_upload(slice, &dsn, NULL, &limits, &outcome,
					  &why);
	fgt_ring_slice_free(slice);
	printf("error=%d\nstatus=%ld\nevent_id=%s\nsent_bytes=%zu\n"
	       "plain_bytes=%zu\nretry_after_s=%u\nwhy=%s\n",
	       error, outcome.status, outcome.event_id, outcome.sent_bytes,
	       outcome.plain_bytes, outcome.retry_after_s, why.text);
	return error ? 1 : 0;
}
