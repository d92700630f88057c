/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges of a slice. Runs in any thread; must not trust the order of what it
 * sorts and checks.
 */
#include "ringbuf/slice/edge.h"

#include <errno.h>

#include "ringbuf/base/array.h"

static int compare(const void *left, const void *right)
{
	const struct fgt_edge *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return a->tick < b->tick ? -1 : a->tick > b->tick;
}

void fgt_edges_sort(struct fgt_ring_slice *slice)
{
	FGT_ARRAY_SORT(slice->edges, slice->edge_count, compare);
}

bool fgt_edges_are_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->edge_count; i++) {
		const struct fgt_edge *edge = &slice->edges[i];

		if (edge->thread >= slice->thread_count ||
		    edge->tick >= slice->tick_count ||
		    (i && compare(edge - 1, edge) >= 0))
			return false;
	}
	return true;
}

int fgt_edges_narrow(const struct fgt_ring_slice *source,
		     const uint32_t *threads, uint32_t first_tick,
		     struct fgt_ring_slice *result)
{
	if (!FGT_ARRAY_NEW(result->edges, source->edge_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < source->edge_count; i++) {
		struct fgt_edge edge = source->edges[i];

		if (!threads[edge.thread] || edge.tick < first_tick ||
		    edge.tick - first_tick >= result->tick_count)
			continue;
		edge.thread = threads[edge.thread] - 1;
		edge.tick -= first_tick;
		result->edges[result->edge_count++] = edge;
	}
	return 0;
}

uint64_t fgt_edge_ns(const struct fgt_ring_slice *slice, uint32_t tick,
		     uint32_t us)
{
	uint64_t before_ns = (uint64_t)us * 1000;

	if (!us || slice->tick_ns[tick] - slice->tick_ns[0] < before_ns)
		return 0;
	return slice->tick_ns[tick] - before_ns;
}
