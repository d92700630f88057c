/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wake-ups between threads of a slice. Runs in any thread.
 */
#include "upload/format/parts/arrows.h"

#include <errno.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/processes.h"

/* thread_count: an interrupt, or no thread of the slice. */
static uint32_t waker_of(const struct fgt_ring_slice *slice,
			 const struct fgt_slice_wake *wake)
{
	const struct fgt_slice_waker *waker = &slice->wakers[wake->waker];
	uint32_t thread = slice->thread_count;

	if (waker->context == FGT_WAKE_TASK)
		thread = fgt_slice_find_thread(slice, waker->tid);
	if (thread < slice->thread_count &&
	    fgt_slice_process_of(slice, thread).pid != waker->pid)
		thread = slice->thread_count;
	return thread;
}

static int compare_arrows(const void *left, const void *right)
{
	const struct fgt_arrow *a = left, *b = right;

	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	return (a->to > b->to) - (a->to < b->to);
}

/* Every n-th one is kept where there are n times as many. */
static void thin_out(struct fgt_arrows *arrows)
{
	uint32_t step = (arrows->count + FGT_ARROWS_MAX - 1) / FGT_ARROWS_MAX;
	uint32_t kept = 0;

	for (uint32_t i = 0; step > 1 && i < arrows->count; i += step)
		arrows->arrows[kept++] = arrows->arrows[i];
	if (step > 1) {
		arrows->left_out = arrows->count - kept;
		arrows->count = kept;
	}
}

int fgt_arrows_init(struct fgt_arrows *arrows,
		    const struct fgt_ring_slice *slice)
{
	FGT_AUTO(free) void *memory = NULL;
	bool *is_shown;

	*arrows = (struct fgt_arrows){ .count = 0 };
	if (!FGT_ARRAY_NEW(is_shown, slice->thread_count))
		return -ENOMEM;
	memory = is_shown;
	if (!FGT_ARRAY_NEW(arrows->arrows, slice->wake_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->run_count; i++)
		is_shown[slice->runs[i].thread] = true;
	for (uint32_t i = 0; i < slice->wake_count; i++) {
		const struct fgt_slice_wake *wake = &slice->wakes[i];
		uint32_t from = waker_of(slice, wake);

		if (from == slice->thread_count || !is_shown[from] ||
		    wake->at_ns < slice->tick_ns[0])
			continue;
		arrows->arrows[arrows->count++] = (struct fgt_arrow){
			.at_ns = wake->at_ns,
			.from = from,
			.to = wake->thread,
		};
	}
	FGT_ARRAY_SORT(arrows->arrows, arrows->count, compare_arrows);
	thin_out(arrows);
	return 0;
}

void fgt_arrows_done(struct fgt_arrows *arrows)
{
	free(arrows->arrows);
}
