/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which span of a distributed trace a thread worked for at a tick: that of the
 * transaction whose facts are given, or a span with the labels "trace_id" and
 * "span_id" (32 and 16 hex digits), which the spans inside of it in the same
 * task inherit. Where several are active, the one that began last counts.
 *
 * MT-Unsafe for one struct fgt_trace_links | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_TRACE_LINKS_H
#define FGT_UPLOAD_FORMAT_PARTS_TRACE_LINKS_H

#include "ringbuf/slice/slice.h"
#include "upload/format/parts/transaction.h"

#define FGT_TRACE_ID_LEN   32 /* hex digits */
#define FGT_TRACE_SPAN_LEN 16
#define FGT_TRACE_LINK_LEN (FGT_TRACE_ID_LEN + FGT_TRACE_SPAN_LEN)
#define FGT_TRACE_LINK_MAX ((1u << 22) - 1)

/* Ticks [first_tick, end_tick) of a thread. */
struct fgt_trace_part {
	int32_t tid;
	uint32_t first_tick, end_tick;
	uint32_t link; /* 1 … FGT_TRACE_LINK_MAX */
};

struct fgt_trace_links {
	const struct fgt_ring_slice *slice;
	struct fgt_strings ids; /* by link: trace id, then span id */
	struct fgt_trace_part *parts; /* by tid, then tick; never overlapping */
	uint32_t part_count, part_capacity;
};

/* facts may be NULL. Malformed ids and those of zeros are left out. -ENOMEM,
 * -EOVERFLOW more than FGT_TRACE_LINK_MAX different ones. */
int fgt_trace_links_init(struct fgt_trace_links *links,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_transaction_facts *facts);
/* Accepts a zeroed struct. */
void fgt_trace_links_done(struct fgt_trace_links *links);

/* The link of a thread at a tick, 0: none; it is the same up to *ret_end_tick,
 * which is end_tick at most. */
uint32_t fgt_trace_links_at(const struct fgt_trace_links *links, int32_t tid,
			    uint32_t tick, uint32_t end_tick,
			    uint32_t *ret_end_tick);

/* FGT_TRACE_LINK_LEN lower-case hex digits of a link that exists. */
static inline const char *
fgt_trace_links_text(const struct fgt_trace_links *links, uint32_t link)
{
	return fgt_strings_get(&links->ids, link);
}

#endif
