/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All instances of one span or task: which took long, and the part of a slice
 * in which they ran.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_INSTANCES_H
#define FGT_UPLOAD_WHY_INSTANCES_H

#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

struct fgt_instance {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	int32_t tid; /* of the thread that began it */
	/* String id: its label "trace_id", or that of the span around it; 0:
	 * none. */
	uint32_t trace;
};

struct fgt_instances {
	struct fgt_instance *items; /* the longest one first */
	uint32_t count;
};

/*
 * name: of spans, and of tasks; trace: the id of a trace. NULL: any, but not
 * both. What has not ended is taken as long as the slice has ticks. -ENODATA:
 * there is none, and why names those that there are; -ENOMEM.
 */
int fgt_instances_find(const struct fgt_ring_slice *slice, const char *name,
		       const char *trace, struct fgt_instances *ret_instances,
		       struct fgt_why *why);
void fgt_instances_done(struct fgt_instances *instances);

/* The length of which percent of them are not longer: 50 is the median. */
uint64_t fgt_instances_quantile(const struct fgt_instances *instances,
				double percent);

/* How many are longer than that: the first ones. */
uint32_t fgt_instances_count_over(const struct fgt_instances *instances,
				  uint64_t ns);

/*
 * The ticks of their threads that fall into the instances [first, end), as a
 * slice that is independent of the given one; what lies between ticks is lost.
 * -ENODATA: no tick does; -ENOMEM.
 */
int fgt_instances_cut(const struct fgt_ring_slice *slice,
		      const struct fgt_instances *instances, uint32_t first,
		      uint32_t end, struct fgt_ring_slice **ret_part);

#endif
