/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the waits and wake-ups of a slice from a cut's private copies. Runs in
 * any reader; must refuse invalid copies, since the ring may belong to another
 * process.
 */
#include "ringbuf/ring/cut.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"

int fgt_cut_build_wait(struct fgt_cut *cut, struct fgt_ring_slice *slice,
		       uint32_t id, struct fgt_run *run)
{
	struct fgt_slice_wait *built;
	struct fgt_cut_wait *copy;

	if (!fgt_state_is_blocked(run->state) || !cut->wait_rows.index[id])
		return -EBADMSG;
	copy = &cut->waits[cut->wait_rows.index[id] - 1];
	run->wait = copy->out;
	if (copy->out)
		return 0;
	if (copy->wait.kind >= FGT_WAIT_KINDS)
		return -EBADMSG;
	built = &slice->waits[slice->wait_count];
	built->kind = copy->wait.kind;
	built->owner_tid = copy->wait.owner_tid;
	built->address = copy->wait.address;
	built->timeout_ns = copy->wait.timeout_ns;
	built->number = copy->wait.number;
	copy->out = run->wait = ++slice->wait_count;
	return fgt_strings_intern(
		&slice->strings, copy->wait.text,
		strnlen(copy->wait.text, sizeof(copy->wait.text)),
		&built->text);
}

static int build_waker(struct fgt_cut *cut, struct fgt_ring_slice *slice,
		       uint32_t id, uint32_t *ret_waker)
{
	struct fgt_cut_waker *copy;
	struct fgt_slice_waker *built;
	int error;

	if (!cut->waker_rows.index[id])
		return -EBADMSG;
	copy = &cut->wakers[cut->waker_rows.index[id] - 1];
	if (!copy->out) {
		if (copy->row.context >= FGT_WAKE_CONTEXTS)
			return -EBADMSG;
		built = &slice->wakers[slice->waker_count];
		built->pid = copy->row.pid;
		built->tid = copy->row.tid;
		built->context = copy->row.context;
		error = fgt_cut_build_stack(cut, slice, copy->row.node,
					    &built->stack);
		if (error)
			return error;
		error = fgt_strings_intern(
			&slice->strings, copy->row.name,
			strnlen(copy->row.name, sizeof(copy->row.name)),
			&built->name);
		if (error)
			return error;
		copy->out = ++slice->waker_count;
	}
	*ret_waker = copy->out - 1;
	return 0;
}

static int compare_wakes(const void *left, const void *right)
{
	const struct fgt_slice_wake *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	return a->waker < b->waker ? -1 : a->waker > b->waker;
}

/* 0: it does not show when the thread got a CPU. */
static uint64_t on_ns_of(const struct fgt_ring_slice *slice,
			 const struct fgt_edge *edge)
{
	uint64_t tick_ns = slice->tick_ns[edge->tick];
	uint64_t before_ns = (uint64_t)edge->on_us * 1000;

	return before_ns && before_ns < tick_ns ? tick_ns - before_ns : 0;
}

/*
 * A thread that was woken gets a CPU before it is woken again: where that is an
 * edge, it shows the delay that was not known yet when the wake-up was
 * recorded.
 */
static void find_delays(struct fgt_ring_slice *slice)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < slice->wake_count; i++) {
		struct fgt_slice_wake *wake = &slice->wakes[i];
		bool is_last = i + 1 == slice->wake_count ||
			       wake[1].thread != wake->thread;
		const struct fgt_edge *edge;
		uint64_t on_ns;

		/* Edges are up to 1 µs early. */
		while (at < slice->edge_count &&
		       (slice->edges[at].thread < wake->thread ||
			(slice->edges[at].thread == wake->thread &&
			 on_ns_of(slice, &slice->edges[at]) + 1000 <
				 wake->at_ns)))
			at++;
		if (at == slice->edge_count)
			return;
		edge = &slice->edges[at];
		on_ns = on_ns_of(slice, edge);
		if (wake->delay_us != FGT_WAKE_DELAY_UNKNOWN ||
		    edge->thread != wake->thread ||
		    (!is_last && on_ns > wake[1].at_ns))
			continue;
		wake->delay_us =
			on_ns > wake->at_ns
				? (uint32_t)((on_ns - wake->at_ns) / 1000)
				: 0;
	}
}

int fgt_cut_build_wakes(struct fgt_cut *cut, struct fgt_ring_slice *slice)
{
	slice->lost_wakes = cut->lost_wakes;
	if (!FGT_ARRAY_NEW(slice->wakes, cut->wake_count) ||
	    !FGT_ARRAY_NEW(slice->wakers, cut->waker_rows.count))
		return -ENOMEM;
	for (uint32_t i = 0; i < cut->wake_count; i++) {
		const struct fgt_cut_wake *wake = &cut->wakes[i];
		struct fgt_slice_wake *built = &slice->wakes[slice->wake_count];
		uint32_t thread = cut->tracks[wake->slot].thread;
		int error;

		if (!thread)
			continue;
		built->thread = thread - 1;
		built->at_ns = wake->at_ns;
		built->delay_us = wake->delay_us;
		error = build_waker(cut, slice, wake->waker, &built->waker);
		if (error)
			return error;
		slice->wake_count++;
	}
	FGT_ARRAY_SORT(slice->wakes, slice->wake_count, compare_wakes);
	find_delays(slice);
	return 0;
}
