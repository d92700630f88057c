/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups the ticks of each thread by stack, state and span of a trace: what
 * formats without a timeline show as one sample. One thread after another, so
 * memory is that of the busiest one.
 *
 *	r = fgt_thread_samples_init(&samples, slice, facts, false);
 *	while (r == 0 && (r = fgt_thread_samples_next(&samples)) == 1)
 *		for (uint32_t i = 0; i < samples.ids.count; i++) …
 *	fgt_thread_samples_done(&samples);
 *
 * MT-Unsafe for one struct fgt_thread_samples | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_THREAD_SAMPLES_H
#define FGT_UPLOAD_FORMAT_PARTS_THREAD_SAMPLES_H

#include "ringbuf/base/id_map.h"
#include "upload/format/parts/trace_links.h"

struct fgt_sample {
	uint32_t stack; /* leaf node, FGT_NODE_NONE: nothing known */
	uint32_t state; /* enum fgt_state */
	uint32_t link; /* of the trace links; 0: none */
	uint32_t first_ticks, last_ticks; /* index + 1; 0: not wanted */
	uint64_t periods; /* that its ticks stand for */
};

/* Consecutive ticks of a sample. */
struct fgt_sample_ticks {
	uint32_t first_tick, tick_count;
	uint32_t next; /* index + 1; 0: the last ones */
};

struct fgt_thread_samples {
	const struct fgt_ring_slice *slice;
	struct fgt_trace_links links;
	bool is_with_ticks;
	uint32_t next_run; /* 0: starts over */
	/* The present thread: */
	uint32_t thread; /* index into threads */
	uint32_t sampled_link; /* that it had when it was last sampled */
	struct fgt_id_map ids; /* (stack, link, state) → sample */
	struct fgt_sample *items; /* [ids.count] */
	struct fgt_sample_ticks *ticks;
	uint32_t capacity, tick_count, tick_capacity;
};

/* facts may be NULL. is_with_ticks: the ticks of each sample are wanted, too,
 * which takes 12 bytes for each run of a thread. -ENOMEM, -EOVERFLOW. */
int fgt_thread_samples_init(struct fgt_thread_samples *samples,
			    const struct fgt_ring_slice *slice,
			    const struct fgt_transaction_facts *facts,
			    bool is_with_ticks);
/* Accepts a zeroed struct. */
void fgt_thread_samples_done(struct fgt_thread_samples *samples);

/* Reads the samples of the next thread that has any; those that only differ in
 * their start time, since a number was used again, are one. 1, 0: there is no
 * further thread, -ENOMEM. */
int fgt_thread_samples_next(struct fgt_thread_samples *samples);

#endif
