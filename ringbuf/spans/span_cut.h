/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a span log into a slice.
 *
 * MT-Safe for different slices | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SPANS_SPAN_CUT_H
#define FGT_RINGBUF_SPANS_SPAN_CUT_H

#include "ringbuf/slice/slice.h"
#include "ringbuf/spans/span_log.h"

/*
 * Adds what was reported during the slice's ticks, and what had begun before or
 * had not ended then. The slice stays valid whatever the log holds: of two
 * records that contradict each other, the later is used. Call once, on a slice
 * that was just cut. -ENOMEM (the slice is valid then, too).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_span_log_cut(const struct fgt_span_log *log,
		     struct fgt_ring_slice *slice);

/*
 * The same for the memfd of a log; -1: there is none; and for another log, whose
 * numbers are others; NULL: none. A descriptor that is no log adds no spans:
 * -EINVAL, which callers may ignore.
 */
int fgt_span_memfd_cut(int memfd, const struct fgt_span_log *other,
		       struct fgt_ring_slice *slice);

/* ---- Between the parts of it ------------------------------------------- */

/* A text among those that were gathered. */
struct fgt_span_text {
	size_t at;
	uint8_t len;
};

/* A task or a span. */
struct fgt_span_item {
	uint64_t number, owner;
	uint64_t begin_ns, end_ns; /* end UINT64_MAX: open */
	struct fgt_span_text name;
	uint32_t track;
	int32_t tid;
	bool has_ended; /* its end was found, with all of its fields */
	uint32_t index; /* of the task among tasks, then in the slice + 1 */
	uint32_t depth;
};

/* A mark, counter or label. */
struct fgt_span_remark {
	enum fgt_span_kind kind;
	int32_t tid;
	uint64_t at_ns, number;
	double value;
	struct fgt_span_text key, text;
};

struct fgt_span_gathering {
	struct fgt_ring_slice *slice;
	struct fgt_span_item *tasks, *spans;
	struct fgt_span_item **order; /* the tasks, by track, then begin */
	size_t task_count, task_capacity, span_count, span_capacity;
	struct fgt_span_remark *remarks;
	size_t remark_count, remark_capacity;
	char *text;
	size_t text_len, text_capacity;
};

/* The item of that number, NULL if there is none. Items are by number. */
struct fgt_span_item *fgt_span_find(struct fgt_span_item *items, size_t count,
				    uint64_t number);

/*
 * Fills the slice's tables. Tasks are by number; spans by task, then as they
 * nest; remarks by time; everything is within what is around it. -ENOMEM.
 */
int fgt_span_build(struct fgt_span_gathering *all);

#endif
