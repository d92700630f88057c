/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges of a slice. Runs in any thread; must not trust the order of what it
 * sorts and checks.
 */
#include "ringbuf/slice/edge.h"

#include <errno.h>

#include "ringbuf/base/array.h"

/* µs that the recorder rounds to, in two steps. */
#define ROUNDING_NS 2100u

/* The earlier of the two. */
static uint32_t far_us(const struct fgt_edge *edge)
{
	return edge->on_us > edge->off_us ? edge->on_us : edge->off_us;
}

static int compare(const void *left, const void *right)
{
	const struct fgt_edge *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->tick != b->tick)
		return a->tick < b->tick ? -1 : 1;
	return far_us(a) > far_us(b) ? -1 : far_us(a) < far_us(b);
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

static bool is_state_possible(uint32_t state, bool is_on_cpu)
{
	return is_on_cpu ? !fgt_state_is_blocked(state)
			 : state != FGT_STATE_RUNNING;
}

bool fgt_edges_are_possible(bool is_on_first, uint32_t count, uint32_t before,
			    uint32_t after)
{
	return is_state_possible(before, !is_on_first) &&
	       is_state_possible(after,
				 fgt_edges_are_on_last(is_on_first, count));
}

/* us before the tick; 0 if that is before earliest_ns. Edges are kept to 1 µs:
 * some move a little, to be in order. */
static uint64_t edge_ns(uint64_t tick_ns, uint32_t us, uint64_t earliest_ns)
{
	uint64_t before_ns = (uint64_t)us * 1000;

	if (!us || before_ns >= tick_ns)
		return 0;
	if (tick_ns - before_ns >= earliest_ns)
		return tick_ns - before_ns;
	return earliest_ns - (tick_ns - before_ns) <= ROUNDING_NS &&
			       earliest_ns < tick_ns
		       ? earliest_ns
		       : 0;
}

static bool add_edge(struct fgt_edge_list *edges, uint64_t tick_ns, uint32_t us,
		     uint64_t earliest_ns, bool is_on)
{
	if (!edges->count)
		edges->is_on_first = is_on;
	else
		earliest_ns = edges->ns[edges->count - 1] + 2;
	if (edges->count == FGT_EDGE_LIST_MAX ||
	    is_on != (edges->is_on_first == (edges->count % 2 == 0)))
		return false;
	edges->ns[edges->count] = edge_ns(tick_ns, us, earliest_ns);
	return edges->ns[edges->count++] != 0;
}

/* False: it cannot be after those before. */
static bool add_both(struct fgt_edge_list *edges, const struct fgt_edge *edge,
		     uint64_t tick_ns, uint64_t earliest_ns)
{
	bool is_on_first = edge->on_us > edge->off_us;
	uint32_t second_us = is_on_first ? edge->off_us : edge->on_us;

	return add_edge(edges, tick_ns, far_us(edge), earliest_ns,
			is_on_first) &&
	       (!second_us ||
		add_edge(edges, tick_ns, second_us, earliest_ns, !is_on_first));
}

void fgt_edges_take(const struct fgt_ring_slice *slice, uint32_t *cursor,
		    uint32_t thread, uint32_t tick, uint64_t earliest_ns,
		    struct fgt_edge_list *ret_edges)
{
	const struct fgt_edge wanted = { thread, tick, UINT32_MAX, UINT32_MAX };
	const struct fgt_edge *edges = slice->edges;
	uint32_t at = *cursor;
	bool is_possible = true;

	ret_edges->count = 0;
	while (at < slice->edge_count && compare(&edges[at], &wanted) < 0)
		at++;
	for (; at < slice->edge_count && edges[at].thread == thread &&
	       edges[at].tick == tick;
	     at++)
		is_possible = is_possible &&
			      add_both(ret_edges, &edges[at],
				       slice->tick_ns[tick], earliest_ns);
	*cursor = at;
	if (!is_possible)
		ret_edges->count = 0;
}
