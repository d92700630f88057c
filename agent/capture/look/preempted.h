/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runnable thread that waits for a CPU between two samples: was it put off
 * its CPU, or only woken up? And what did it do when it was last sampled?
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_PREEMPTED_H
#define FGT_AGENT_CAPTURE_LOOK_PREEMPTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/slice/frame.h"

/*
 * Looks at the kernel stack of a thread that is not on a CPU (needs
 * CAP_SYS_ADMIN): 1 it was interrupted in its own code or in the midst of a
 * system call's work, 0 it was woken and stands where it was blocked;
 * negative errno if that cannot be told. Costs about 10 µs.
 *
 * MT-Safe | AS-Safe
 */
int fgt_preempted_look(int task_fd, int32_t tid);
/* The same from the text of /proc/…/stack. */
int fgt_preempted_parse(const char *text);

/* The stack of a thread's last sample, for ticks that no sample tells. */
struct fgt_last_run {
	struct fgt_frame *frames; /* [count], leaf first, markers left out */
	uint32_t count, capacity;
	uint64_t generation; /* of the images that frames name */
};

/* Keeps a copy; without memory it keeps nothing. */
void fgt_last_run_keep(struct fgt_last_run *last,
		       const struct fgt_frame *frames, size_t count,
		       uint64_t generation);
/*
 * Puts it into frames[capacity], below a leaf marker unless that is 0. Returns
 * the number of frames, 0 if there is none of this generation.
 */
size_t fgt_last_run_show(const struct fgt_last_run *last, uint64_t generation,
			 enum fgt_marker leaf, struct fgt_frame *frames,
			 size_t capacity);
void fgt_last_run_done(struct fgt_last_run *last);

#endif
