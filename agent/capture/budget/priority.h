/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How urgent the sampler's thread is: real-time while it takes little of its
 * CPU, an ordinary thread with a good nice value while it takes more.
 */
#ifndef FGT_AGENT_CAPTURE_BUDGET_PRIORITY_H
#define FGT_AGENT_CAPTURE_BUDGET_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

struct fgt_priority {
	bool may_be_first;
	bool is_first; /* real-time, if that is permitted */
	uint64_t begun_ns, begun_cpu_ns; /* of the span that is measured */
};

/* In the thread that it is about, which becomes real-time if it may. */
void fgt_priority_begin(struct fgt_priority *priority, bool may_be_first,
			uint64_t now_ns, uint64_t cpu_ns);

/*
 * For an ordinary thread that calls it: its time slices become as short as
 * possible (Linux 6.12 or later; before, nothing happens). Of those that want a
 * CPU the scheduler prefers the one whose slice ends first: one that wakes for
 * a moment need not wait until the thread on its CPU has blocked. Needs no
 * privilege; policy and nice value stay. MT-Safe
 */
void fgt_priority_shorten_slice(void);

/* After a tick, with the CPU time of the thread up to it. */
void fgt_priority_review(struct fgt_priority *priority, uint64_t now_ns,
			 uint64_t cpu_ns);

/* The arithmetic of that: true if is_first is another one now. MT-Safe */
bool fgt_priority_judge(struct fgt_priority *priority, uint64_t now_ns,
			uint64_t cpu_ns);

#endif
