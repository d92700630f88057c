/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the wake-ups of a thread into the ring. Runs in the sampler's thread.
 */
#include "agent/capture/sampled.h"

#include <string.h>

void fgt_sampled_write_wakes(struct fgt_sampled *sampled,
			     const struct fgt_tick *tick,
			     const struct fgt_thread *thread)
{
	struct fgt_wake_list *list = &sampled->look.wakes;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct fgt_switch_wake *wake = &list->wakes[i];
		struct fgt_wake_source source = {
			.pid = (int32_t)wake->pid,
			.tid = (int32_t)wake->tid,
			.context = wake->context,
			.frames = tick->frames,
		};

		source.frame_count = fgt_look_waker(&sampled->look, tick, wake);
		memcpy(source.name, wake->name, sizeof(wake->name));
		(void)fgt_ring_add_wake(sampled->ring, thread->slot, wake->ns,
					wake->delay_us, &source);
	}
	if (list->lost)
		fgt_ring_lose_wakes(sampled->ring, list->lost);
	list->count = list->lost = 0;
}
