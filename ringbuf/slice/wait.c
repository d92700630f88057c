/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits and wake-ups of a slice. Runs in any thread; must not trust the numbers
 * of what it checks.
 */
#include "ringbuf/slice/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/slice.h"

static const char *const kind_names[FGT_WAIT_KINDS] = {
	[FGT_WAIT_UNKNOWN] = "unknown",
	[FGT_WAIT_MUTEX] = "mutex",
	[FGT_WAIT_RWLOCK] = "rwlock",
	[FGT_WAIT_PI_LOCK] = "lock",
	[FGT_WAIT_NOTIFICATION] = "notification",
	[FGT_WAIT_DESCRIPTOR] = "descriptor",
	[FGT_WAIT_EVENTS] = "events",
	[FGT_WAIT_CHILD] = "child",
	[FGT_WAIT_SLEEP] = "sleep",
	[FGT_WAIT_FAULT] = "page fault",
	[FGT_WAIT_SIGNAL] = "signal",
	[FGT_WAIT_IPC] = "ipc",
	[FGT_WAIT_STOPPED] = "stopped",
	[FGT_WAIT_KERNEL] = "kernel",
	[FGT_WAIT_JOIN] = "join",
};

const char *fgt_wait_kind_name(uint32_t kind)
{
	return kind_names[kind < FGT_WAIT_KINDS ? kind : FGT_WAIT_UNKNOWN];
}

/* The smaller port is the service's: the other one was given for this
 * connection. */
void fgt_wait_name_socket(const char *protocol, uint16_t local_port,
			  const struct fgt_wait_peer *peer, bool does_listen,
			  char *ret_name, size_t size)
{
	static const uint8_t mapped[] = { [10] = 0xff, 0xff };
	bool is_mapped = peer->is_six &&
			 memcmp(peer->address, mapped, sizeof(mapped)) == 0;
	bool is_six = peer->is_six && !is_mapped;
	char host[INET6_ADDRSTRLEN] = "";

	inet_ntop(is_six ? AF_INET6 : AF_INET,
		  peer->address + (is_mapped ? 12 : 0), host, sizeof(host));
	if (does_listen || !peer->port)
		snprintf(ret_name, size, "%s port %u", protocol, local_port);
	else if (peer->port <= local_port)
		snprintf(ret_name, size, "%s to %s%s%s:%u", protocol,
			 is_six ? "[" : "", host, is_six ? "]" : "",
			 peer->port);
	else
		snprintf(ret_name, size, "%s from %s at port %u", protocol,
			 host, local_port);
}

void fgt_wait_name_unix(const char *bytes, size_t len, char *ret_name,
			size_t size)
{
	size_t at = (size_t)snprintf(ret_name, size, "unix ");

	/* A path ends with a NUL, an abstract name begins with one. */
	if (len > 1 && bytes[0] && !bytes[len - 1])
		len--;
	for (size_t i = 0; i < len && at + 1 < size; i++, at++) {
		ret_name[at] = bytes[i] ? bytes[i] : '@';
		/* Brackets: see the texts of events. */
		if ((unsigned char)ret_name[at] < ' ' || ret_name[at] == 127 ||
		    strchr("()", ret_name[at]))
			ret_name[at] = '?';
	}
	ret_name[at < size ? at : size - 1] = '\0';
}

static bool are_reasons_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->wait_count; i++) {
		const struct fgt_slice_wait *wait = &slice->waits[i];

		if (wait->kind >= FGT_WAIT_KINDS ||
		    wait->text >= slice->strings.count ||
		    wait->object >= slice->strings.count)
			return false;
	}
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (run->wait > slice->wait_count ||
		    (run->wait && !fgt_state_is_blocked(run->state)))
			return false;
	}
	return slice->run_wait_count == 0;
}

static bool are_wakers_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->waker_count; i++) {
		const struct fgt_slice_waker *waker = &slice->wakers[i];

		if (waker->context >= FGT_WAKE_CONTEXTS ||
		    waker->name >= slice->strings.count ||
		    (waker->stack != FGT_NODE_NONE &&
		     waker->stack >= slice->node_count))
			return false;
	}
	return true;
}

static bool are_wakes_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->wake_count; i++) {
		const struct fgt_slice_wake *wake = &slice->wakes[i];
		const struct fgt_slice_wake *last = wake - 1;

		if (wake->thread >= slice->thread_count ||
		    wake->waker >= slice->waker_count ||
		    wake->at_ns > slice->tick_ns[slice->tick_count - 1])
			return false;
		if (i && (wake->thread < last->thread ||
			  (wake->thread == last->thread &&
			   wake->at_ns < last->at_ns)))
			return false;
	}
	return true;
}

bool fgt_waits_are_valid(const struct fgt_ring_slice *slice)
{
	return are_reasons_valid(slice) && are_wakers_valid(slice) &&
	       are_wakes_valid(slice);
}

static int number_waits(const struct fgt_ring_slice *source,
			struct fgt_ring_slice *result, uint32_t *marks)
{
	int error;

	for (uint32_t i = 0; i < result->run_count; i++)
		if (result->runs[i].wait)
			marks[result->runs[i].wait - 1] = 1;
	error = FGT_NARROW_TABLE(source, result, waits, wait_count, marks);
	for (uint32_t i = 0; i < result->wait_count && !error; i++) {
		struct fgt_slice_wait *wait = &result->waits[i];

		error = fgt_narrow_string(source, result, &wait->text);
		if (!error)
			error = fgt_narrow_string(source, result,
						  &wait->object);
	}
	for (uint32_t i = 0; i < result->run_count && !error; i++)
		if (result->runs[i].wait)
			result->runs[i].wait = marks[result->runs[i].wait - 1];
	return error;
}

void fgt_waits_mark_holders(const struct fgt_ring_slice *source,
			    const struct fgt_ring_slice *result,
			    uint32_t *threads, uint32_t *named)
{
	for (uint32_t i = 0; i < result->run_count; i++) {
		uint32_t wait = result->runs[i].wait, holder;

		if (!wait)
			continue;
		holder = fgt_slice_find_thread(
			source, source->waits[wait - 1].owner_tid);
		if (holder < source->thread_count && !threads[holder])
			named[holder] = threads[holder] = 1;
	}
}

int fgt_waits_narrow(const struct fgt_ring_slice *source,
		     struct fgt_ring_slice *result)
{
	FGT_AUTO(free) void *memory = NULL;
	uint32_t *marks;

	if (!source->wait_count)
		return 0;
	if (!FGT_ARRAY_NEW(marks, source->wait_count))
		return -ENOMEM;
	memory = marks;
	return number_waits(source, result, marks);
}

int fgt_wakes_keep(const struct fgt_ring_slice *source, const uint32_t *threads,
		   uint64_t from_ns, uint64_t to_ns,
		   struct fgt_ring_slice *result, uint32_t *nodes)
{
	if (!source->wake_count)
		return 0;
	if (!FGT_ARRAY_NEW(result->wakes, source->wake_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < source->wake_count; i++) {
		const struct fgt_slice_wake *wake = &source->wakes[i];
		uint32_t stack = source->wakers[wake->waker].stack;

		if (!threads[wake->thread] || wake->at_ns < from_ns ||
		    wake->at_ns > to_ns)
			continue;
		result->wakes[result->wake_count++] = *wake;
		if (stack != FGT_NODE_NONE)
			nodes[stack] = 1;
	}
	return 0;
}

static int number_wakers(const struct fgt_ring_slice *source,
			 const uint32_t *nodes, struct fgt_ring_slice *result,
			 uint32_t *marks)
{
	int error;

	for (uint32_t i = 0; i < result->wake_count; i++)
		marks[result->wakes[i].waker] = 1;
	error = FGT_NARROW_TABLE(source, result, wakers, waker_count, marks);
	for (uint32_t i = 0; i < result->waker_count && !error; i++) {
		struct fgt_slice_waker *waker = &result->wakers[i];

		error = fgt_narrow_string(source, result, &waker->name);
		if (waker->stack != FGT_NODE_NONE)
			waker->stack = nodes[waker->stack] - 1;
	}
	for (uint32_t i = 0; i < result->wake_count && !error; i++)
		result->wakes[i].waker = marks[result->wakes[i].waker] - 1;
	return error;
}

int fgt_wakes_narrow(const struct fgt_ring_slice *source,
		     const uint32_t *threads, const uint32_t *nodes,
		     struct fgt_ring_slice *result)
{
	FGT_AUTO(free) void *memory = NULL;
	uint32_t *marks;

	if (!result->wake_count)
		return 0;
	if (!FGT_ARRAY_NEW(marks, source->waker_count))
		return -ENOMEM;
	memory = marks;
	for (uint32_t i = 0; i < result->wake_count; i++)
		result->wakes[i].thread = threads[result->wakes[i].thread] - 1;
	return number_wakers(source, nodes, result, marks);
}

int fgt_run_waits_new(const struct fgt_ring_slice *slice,
		      struct fgt_run_wait **ret_run_waits, uint32_t *ret_count)
{
	struct fgt_run_wait *run_waits;
	uint32_t count = 0;

	for (uint32_t i = 0; i < slice->run_count; i++)
		count += slice->runs[i].wait != 0;
	if (!FGT_ARRAY_NEW(run_waits, count))
		return -ENOMEM;
	*ret_count = count;
	count = 0;
	for (uint32_t i = 0; i < slice->run_count; i++)
		if (slice->runs[i].wait)
			run_waits[count++] =
				(struct fgt_run_wait){ i, slice->runs[i].wait };
	*ret_run_waits = run_waits;
	return 0;
}

bool fgt_run_waits_settle(struct fgt_ring_slice *slice)
{
	bool is_valid = true;

	for (uint32_t i = 0; i < slice->run_wait_count; i++) {
		const struct fgt_run_wait *at = &slice->run_waits[i];

		if (at->run >= slice->run_count || !at->wait ||
		    slice->runs[at->run].wait) {
			is_valid = false;
			break;
		}
		slice->runs[at->run].wait = at->wait;
	}
	free(slice->run_waits);
	slice->run_waits = NULL;
	slice->run_wait_count = 0;
	return is_valid;
}

/* ---- The whole machine -------------------------------------------------- */

/* Between the two around it; NAN: there are none. */
static double pressure_at(const struct fgt_ring_slice *slice,
			  enum fgt_pressure_kind kind, uint64_t ns)
{
	const struct fgt_slice_pressure *from, *to;
	uint32_t after;
	double part;

	after = (uint32_t)FGT_ARRAY_BISECT(at, slice->pressure_count,
					   slice->pressures[at].mono_ns < ns);
	if (after == slice->pressure_count)
		return NAN;
	to = &slice->pressures[after];
	if (to->mono_ns == ns)
		return (double)to->us[kind];
	if (!after)
		return NAN;
	from = to - 1;
	part = (double)(ns - from->mono_ns) /
	       (double)(to->mono_ns - from->mono_ns);
	return (double)from->us[kind] +
	       part * ((double)to->us[kind] - (double)from->us[kind]);
}

double fgt_pressure_ms(const struct fgt_ring_slice *slice,
		       enum fgt_pressure_kind kind, uint64_t from_ns,
		       uint64_t to_ns)
{
	double from_us = pressure_at(slice, kind, from_ns);
	double to_us = pressure_at(slice, kind, to_ns);

	return to_us >= from_us ? (to_us - from_us) / 1000 : NAN;
}

int fgt_pressures_copy(const struct fgt_slice_pressure *pressures,
		       uint32_t count, struct fgt_ring_slice *result)
{
	uint64_t first_ns = result->tick_ns[0];
	uint64_t last_ns = fgt_slice_end_ns(result);
	uint32_t first = (uint32_t)FGT_ARRAY_BISECT(
		at, count, pressures[at].mono_ns <= first_ns);
	uint32_t end = (uint32_t)FGT_ARRAY_BISECT(
		at, count, pressures[at].mono_ns < last_ns);

	first -= first > 0;
	end += end < count;
	if (first >= end)
		return 0;
	if (!FGT_ARRAY_NEW(result->pressures, end - first))
		return -ENOMEM;
	result->pressure_count = end - first;
	memcpy(result->pressures, pressures + first,
	       result->pressure_count * sizeof(*result->pressures));
	return 0;
}

/* ---- The end of a wait --------------------------------------------------- */

static size_t first_wake_at(const struct fgt_ring_slice *slice, uint32_t thread,
			    uint64_t from_ns)
{
	return FGT_ARRAY_BISECT(i, slice->wake_count,
				slice->wakes[i].thread < thread ||
					(slice->wakes[i].thread == thread &&
					 slice->wakes[i].at_ns < from_ns));
}

/* Did it get or leave a CPU between the ticks first and last? It was not in one
 * wait then. */
static bool has_moved(const struct fgt_ring_slice *slice, uint32_t thread,
		      uint32_t first, uint32_t last)
{
	const struct fgt_edge *edges = slice->edges;
	size_t at = FGT_ARRAY_BISECT(
		i, slice->edge_count,
		edges[i].thread < thread ||
			(edges[i].thread == thread && edges[i].tick <= first));

	return at < slice->edge_count && edges[at].thread == thread &&
	       edges[at].tick < last;
}

const struct fgt_slice_wake *fgt_wake_find(const struct fgt_ring_slice *slice,
					   uint32_t thread, uint32_t tick,
					   uint32_t end, uint32_t *ret_next)
{
	size_t at = first_wake_at(slice, thread, slice->tick_ns[tick]);
	const struct fgt_slice_wake *wake = &slice->wakes[at];
	uint32_t next;

	if (at == slice->wake_count || wake->thread != thread)
		return NULL;
	next = (uint32_t)FGT_ARRAY_BISECT(i, slice->tick_count,
					  slice->tick_ns[i] <= wake->at_ns);
	if (next > end || has_moved(slice, thread, tick, next))
		return NULL;
	/* That of another wait, where the wait's own was lost? */
	if (slice->lost_wakes && next != end && next != tick + 1)
		return NULL;
	*ret_next = next;
	return wake;
}
