/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of a slice have no names, and what would give them names.
 * Pure, except for what it prints.
 */
#include "agent/cli/summary/summary_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/summary/summary.h"
#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"
#include "upload/why/place.h"

#define NAMELESS_PERCENT 10 /* more than this is worth a line */

/* The innermost frame of the stack that is no library of the system; NULL:
 * there is none. */
static const struct fgt_slice_frame *
own_frame(const struct fgt_ring_slice *slice, uint32_t node)
{
	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent) {
		const struct fgt_slice_frame *frame =
			&slice->frames[slice->nodes[node].frame];
		uint32_t image = frame->frame.image;

		if ((frame->frame.flags & FGT_FRAME_MARKER) ||
		    !frame->symbol_count)
			continue;
		if (!image || !fgt_place_is_library(fgt_slice_string(
				      slice, slice->images[image - 1].path)))
			return frame;
	}
	return NULL;
}

int fgt_nameless_count(const struct fgt_ring_slice *slice,
		       struct fgt_nameless *ret_nameless)
{
	FGT_AUTO(free) void *bytes = NULL;
	struct fgt_nameless nameless = { 0 };
	uint64_t *of_image, most = 0;

	if (!FGT_ARRAY_NEW(of_image, slice->image_count + 1))
		return -ENOMEM;
	bytes = of_image;
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		const struct fgt_slice_frame *frame =
			own_frame(slice, run->stack);
		uint64_t weight = fgt_pace_weight(slice, run->first_tick,
						  run->tick_count);
		uint32_t reason, image;

		if (run->state == FGT_STATE_RUNNING)
			nameless.running += weight;
		if (!frame)
			continue;
		reason = slice->symbols[frame->symbol_first].reason;
		image = frame->frame.image;
		if (reason == FGT_SYMBOL_NO_MAP) {
			nameless.compiled += weight;
			if (run->state == FGT_STATE_RUNNING)
				nameless.running_compiled += weight;
		}
		if (reason != FGT_SYMBOL_STRIPPED || !image)
			continue;
		nameless.stripped += weight;
		of_image[image] += weight;
		if (of_image[image] > most) {
			most = of_image[image];
			nameless.path = fgt_slice_string(
				slice, slice->images[image - 1].path);
		}
	}
	*ret_nameless = nameless;
	return 0;
}

/* Threads that wait, as most of a pool do, hide what runs. */
static void print_compiled(const struct fgt_nameless *nameless,
			   uint64_t samples, FILE *file)
{
	double of_all = fgt_percent(nameless->compiled, samples);
	double of_running =
		fgt_percent(nameless->running_compiled, nameless->running);
	bool is_much = of_all > NAMELESS_PERCENT;

	if (is_much || of_running > NAMELESS_PERCENT)
		fprintf(file,
			"%.0f %% of %s samples are in code compiled at run "
			"time, without names: node --perf-basic-prof or jcmd "
			"PID Compiler.perfmap writes a perf map\n",
			is_much ? of_all : of_running,
			is_much ? "all" : "the running");
}

static bool is_server_named(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && urls[0];
}

void fgt_nameless_print(const struct fgt_nameless *nameless, uint64_t samples,
			FILE *file)
{
	double stripped = fgt_percent(nameless->stripped, samples);

	if (stripped > NAMELESS_PERCENT) {
		fprintf(file,
			"%.0f %% of all samples are in functions without "
			"names, most of them of ",
			stripped);
		fgt_print_text(file, nameless->path, 200);
		fputs(": install its debug package (-dbgsym, -debuginfo)",
		      file);
		fputs(is_server_named() ? "\n"
					: ", or set DEBUGINFOD_URLS to a "
					  "debuginfod server\n",
		      file);
	}
	print_compiled(nameless, samples, file);
}
