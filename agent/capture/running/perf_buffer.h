/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring buffer that the kernel fills with perf records, and what is in a
 * record. Nothing that lies there is trusted: sizes are checked against what
 * is there before they are used.
 *
 * Runs in the sampler's thread; the thread that makes a sampler opens its
 * buffers. MT-Unsafe for one buffer | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_PERF_BUFFER_H
#define FGT_AGENT_CAPTURE_RUNNING_PERF_BUFFER_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/capture/running/running.h"

struct fgt_perf_buffer {
	struct perf_event_mmap_page *page; /* NULL: not mapped */
	const uint8_t *data;
	uint64_t size; /* of data, a power of two */
	uint64_t tail, head; /* read up to; known to be filled up to */
	uint8_t *bounce; /* a record that lies across the end */
};

/*
 * Maps the buffer of an event: page_count pages (a power of two) of data, or
 * fewer if only fewer may be locked, but at least so many. Errno of mmap,
 * -ENOMEM.
 */
int fgt_perf_buffer_map(struct fgt_perf_buffer *buffer, int fd,
			size_t page_count, size_t least);
/* Twice is no harm. */
void fgt_perf_buffer_unmap(struct fgt_perf_buffer *buffer);

/*
 * The next record, in one piece, or NULL. Valid until the following call.
 * What is malformed makes the buffer skip all that it holds: *ret_is_broken.
 */
const struct perf_event_header *
fgt_perf_buffer_next(struct fgt_perf_buffer *buffer, bool *ret_is_broken);
/* Gives the space of what was read back to the kernel. */
void fgt_perf_buffer_release(struct fgt_perf_buffer *buffer);

/* A sample with IP, TID, TIME, READ (a count alone), REGS_USER (mask),
 * STACK_USER. */
#define FGT_PERF_SAMPLE_TYPE                                                   \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |                 \
	 PERF_SAMPLE_READ | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

/*
 * -EBADMSG; -ESRCH for a thread that is all but gone and has no number. The
 * pid alone is cheap: fgt_perf_sample_pid().
 */
int fgt_perf_sample_parse(const struct perf_event_header *header,
			  const struct fgt_arch *arch,
			  struct fgt_running_sample *ret_sample);
/* 0 if the record is too short. */
int32_t fgt_perf_sample_pid(const struct perf_event_header *header);

int fgt_perf_task_parse(const struct perf_event_header *header,
			struct fgt_running_task *ret_task);

#endif
