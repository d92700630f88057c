/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the traces of threads. Runs in the program's threads; must not wait
 * for anything but a few instructions of another thread.
 *
 * A reader stops the thread and reads, or reads twice. So only the thread itself
 * writes ids to its record; another one makes it invalid at most, and the thread
 * shows what is left at its next call.
 */
#include "agent/lib/context/thread_trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX FGT_THREAD_TRACES_MAX
/* W3C's flag: the caller may have recorded the trace. A transaction is, until
 * its end decides whether it is kept. */
#define SAMPLED 1

struct trace_record {
	uint8_t ids[FGT_THREAD_TRACE_IDS];
	_Atomic uint8_t valid; /* 1: to be read */
	uint8_t trace_flags;
	uint16_t attributes_bytes; /* no attribute follows */
};
_Static_assert(sizeof(struct trace_record) == 28, "as readers expect it");

struct fgt_thread_trace {
	struct trace_record record;
	/* Protects the rest, and writes to the record. Innermost. */
	pthread_mutex_t lock;
	/* The last one is published. Relaxed: read without the lock only to
	 * pass over threads that do not have an owner. 0: empty. */
	_Atomic uintptr_t owners[OPEN_MAX];
	uint8_t ids[OPEN_MAX][FGT_THREAD_TRACE_IDS];
	size_t count;
	struct fgt_thread_trace *next, **place; /* of the list */
};

/*
 * The name and the way to find it are the specification's. Weak: a program that
 * defines it too, for its SDK, has one variable.
 */
extern __thread void *otel_thread_ctx_v1;
__attribute__((weak, visibility("default"))) __thread void *otel_thread_ctx_v1;

static struct {
	pthread_mutex_t lock; /* each thread's nests inside */
	struct fgt_thread_trace *first;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- The record --------------------------------------------------------- */

static void hide(struct fgt_thread_trace *trace)
{
	atomic_store_explicit(&trace->record.valid, 0, memory_order_relaxed);
}

/* In the thread itself; lock held. The pointer may be another library's, or
 * have been. */
static void publish(struct fgt_thread_trace *trace)
{
	struct trace_record *record = &trace->record;

	hide(trace);
	if (!trace->count) {
		if (otel_thread_ctx_v1 == record)
			otel_thread_ctx_v1 = NULL;
		return;
	}
	/* Release: a reader that sees new ids sees that they are not valid
	 * yet. */
	atomic_thread_fence(memory_order_release);
	memcpy(record->ids, trace->ids[trace->count - 1], sizeof(record->ids));
	record->trace_flags = SAMPLED;
	atomic_store_explicit(&record->valid, 1, memory_order_release);
	if (!otel_thread_ctx_v1)
		otel_thread_ctx_v1 = record;
}

/* ---- Traces of one thread ------------------------------------------------ */

static uintptr_t load_owner(const struct fgt_thread_trace *trace, size_t i)
{
	return atomic_load_explicit((_Atomic uintptr_t *)&trace->owners[i],
				    memory_order_relaxed);
}

static void set_owner(struct fgt_thread_trace *trace, size_t i, uintptr_t owner)
{
	atomic_store_explicit(&trace->owners[i], owner, memory_order_relaxed);
}

/* Its place from 1 on, 0: none. */
static size_t find(const struct fgt_thread_trace *trace, const void *owner)
{
	size_t i = OPEN_MAX;

	while (i && load_owner(trace, i - 1) != (uintptr_t)owner)
		i--;
	return i;
}

/* Lock held. True: it was the one that is published. */
static bool take_out(struct fgt_thread_trace *trace, size_t place)
{
	bool was_last = place == trace->count;

	for (size_t i = place; i < trace->count; i++)
		set_owner(trace, i - 1, load_owner(trace, i));
	set_owner(trace, --trace->count, 0);
	memmove(trace->ids[place - 1], trace->ids[place],
		(trace->count + 1 - place) * sizeof(*trace->ids));
	return was_last;
}

static struct fgt_thread_trace *new_trace(void)
{
	struct fgt_thread_trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return NULL;
	pthread_mutex_init(&trace->lock, NULL);
	pthread_mutex_lock(&all.lock);
	trace->next = all.first;
	trace->place = &all.first;
	if (trace->next)
		trace->next->place = &trace->next;
	all.first = trace;
	pthread_mutex_unlock(&all.lock);
	return trace;
}

void fgt_thread_trace_enter(struct fgt_thread_trace **trace, const void *owner,
			    const uint8_t ids[FGT_THREAD_TRACE_IDS])
{
	struct fgt_thread_trace *mine = *trace;
	size_t place;

	if (!mine)
		mine = *trace = new_trace();
	if (!mine)
		return;
	pthread_mutex_lock(&mine->lock);
	place = find(mine, owner);
	if (!place && mine->count == OPEN_MAX)
		place = 1;
	if (place)
		(void)take_out(mine, place);
	memcpy(mine->ids[mine->count], ids, sizeof(mine->ids[0]));
	set_owner(mine, mine->count++, (uintptr_t)owner);
	publish(mine);
	pthread_mutex_unlock(&mine->lock);
}

void fgt_thread_trace_change(struct fgt_thread_trace *trace, const void *owner,
			     const uint8_t ids[FGT_THREAD_TRACE_IDS])
{
	size_t place;

	if (!trace)
		return;
	pthread_mutex_lock(&trace->lock);
	place = find(trace, owner);
	if (place) {
		memcpy(trace->ids[place - 1], ids, sizeof(trace->ids[0]));
		publish(trace);
	}
	pthread_mutex_unlock(&trace->lock);
}

void fgt_thread_trace_leave(struct fgt_thread_trace *trace, const void *owner)
{
	size_t place;

	if (!trace)
		return;
	pthread_mutex_lock(&trace->lock);
	place = find(trace, owner);
	if (place)
		(void)take_out(trace, place);
	/* Another thread may have hidden what is left. */
	publish(trace);
	pthread_mutex_unlock(&trace->lock);
}

/* ---- All threads that have had a trace ----------------------------------- */

void fgt_thread_trace_end(const void *owner)
{
	size_t place;

	pthread_mutex_lock(&all.lock);
	for (struct fgt_thread_trace *trace = all.first; trace;
	     trace = trace->next) {
		if (!find(trace, owner))
			continue;
		pthread_mutex_lock(&trace->lock);
		place = find(trace, owner);
		if (place && take_out(trace, place))
			hide(trace);
		pthread_mutex_unlock(&trace->lock);
	}
	pthread_mutex_unlock(&all.lock);
}

void fgt_thread_trace_free(struct fgt_thread_trace *trace)
{
	if (!trace)
		return;
	pthread_mutex_lock(&all.lock);
	*trace->place = trace->next;
	if (trace->next)
		trace->next->place = trace->place;
	pthread_mutex_unlock(&all.lock);
	trace->count = 0;
	publish(trace);
	pthread_mutex_destroy(&trace->lock);
	free(trace);
}

void fgt_thread_trace_forked(struct fgt_thread_trace *trace)
{
	pthread_mutex_init(&all.lock, NULL);
	all.first = trace;
	if (!trace)
		return;
	pthread_mutex_init(&trace->lock, NULL);
	for (size_t i = 0; i < OPEN_MAX; i++)
		set_owner(trace, i, 0);
	trace->count = 0;
	trace->next = NULL;
	trace->place = &all.first;
	publish(trace);
}
