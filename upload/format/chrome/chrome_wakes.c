/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrows from a thread to one that it woke, as flow events: each end lies in
 * what its thread shows at that instant. Runs in any thread.
 */
#include "ringbuf/slice/processes.h"
#include "upload/format/chrome/chrome.h"
#include "upload/format/parts/arrows.h"

/* Readers pair the ends by category, name and id. In whole µs, as the slices. */
static void put_end(const struct fgt_ring_slice *slice, uint32_t thread,
		    const char *phase, uint32_t id, uint64_t mono_ns,
		    struct fgt_json *json)
{
	fgt_chrome_begin(json, "wake", phase,
			 fgt_chrome_id(fgt_slice_process_of(slice, thread).pid),
			 fgt_chrome_id(slice->threads[thread].tid));
	mono_ns -= slice->tick_ns[0];
	fgt_chrome_put_us(json, "ts", mono_ns - mono_ns % 1000);
	fgt_json_put_string(json, "cat", "wake");
	fgt_json_put_uint(json, "id", (uint64_t)id + 1);
	/* To the slice around it, not to the next one. */
	if (*phase == 'f')
		fgt_json_put_string(json, "bp", "e");
	fgt_json_end_object(json);
}

int fgt_chrome_wakes_put(const struct fgt_ring_slice *slice,
			 struct fgt_json *json, uint32_t *ret_left_out)
{
	struct fgt_arrows arrows;
	int r = fgt_arrows_init(&arrows, slice);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < arrows.count; i++) {
		const struct fgt_arrow *arrow = &arrows.arrows[i];

		put_end(slice, arrow->from, "s", i, arrow->at_ns, json);
		put_end(slice, arrow->to, "f", i, arrow->at_ns, json);
	}
	*ret_left_out = arrows.left_out;
	fgt_arrows_done(&arrows);
	return 0;
}
