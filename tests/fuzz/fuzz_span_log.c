/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span log whose chunks hold any bytes, as a hostile process would pass it:
 * never a crash, and the slice that it is cut into is valid.
 */
#include <stdlib.h>
#include <string.h>

#include "ringbuf/slice/spans.h"
#include "ringbuf/spans/span_cut.h"
#include "ringbuf/spans/span_region.h"

#define START_NS UINT64_C(1000)

static struct fgt_ring_slice *new_slice(void)
{
	struct fgt_ring_slice *slice;

	if (fgt_slice_new(&slice))
		abort();
	slice->period_ns = 1000;
	slice->requested_to_ns = UINT64_MAX;
	slice->tick_count = slice->anchor_count = 1;
	slice->tick_ns = calloc(1, sizeof(*slice->tick_ns));
	slice->anchors = calloc(1, sizeof(*slice->anchors));
	if (!slice->tick_ns || !slice->anchors)
		abort();
	slice->tick_ns[0] = START_NS;
	return slice;
}

/* State and words of each chunk from the input, as far as that reaches. */
static void fill(struct fgt_span_log *log, const uint8_t *bytes, size_t len)
{
	for (uint32_t i = 0; i < log->chunk_count; i++) {
		size_t part = len < sizeof(struct fgt_span_chunk)
				      ? len
				      : sizeof(struct fgt_span_chunk);

		memset(&log->region->chunks[i], 0,
		       sizeof(struct fgt_span_chunk));
		memcpy(&log->region->chunks[i], bytes, part);
		bytes += part;
		len -= part;
	}
	log->region->next = log->chunk_count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static struct fgt_span_log *log;
	struct fgt_ring_slice *slice = new_slice();

	if (!log && fgt_span_log_new(FGT_SPAN_LOG_BYTES_MIN, &log))
		abort();
	fill(log, bytes, len);
	if (fgt_span_log_cut(log, slice) == 0 && !fgt_slice_is_valid(slice))
		abort();
	fgt_ring_slice_free(slice);
	return 0;
}
