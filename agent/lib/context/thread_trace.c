/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the traces of threads. Runs in the program's threads; must not wait
 * for anything but a few instructions of another thread. A reader stops the
 * thread, or reads twice: a record that is being changed is not valid.
 */
#include "agent/lib/context/thread_trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX    8u
#define TRACE_BYTES 16u
#define SPAN_BYTES  8u
#define IS_RECORDED 1 /* a flag of W3C's trace context */

struct trace_ids {
	uint8_t trace[TRACE_BYTES], span[SPAN_BYTES];
};

struct trace_record {
	struct trace_ids ids;
	_Atomic uint8_t valid; /* 1: to be read */
	uint8_t trace_flags;
	uint16_t attributes_bytes; /* no attribute follows */
};
_Static_assert(sizeof(struct trace_record) == 28, "as readers expect it");

struct fgt_thread_trace {
	struct trace_record record;
	/* Protects the rest and writes to the record; only the end of a
	 * transaction in another thread takes it elsewhere. Innermost. */
	pthread_mutex_t lock;
	struct {
		const void *owner;
		struct trace_ids ids;
	} open[OPEN_MAX]; /* the last one is published */
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

/* Lock held. */
static void publish(struct fgt_thread_trace *trace)
{
	struct trace_record *record = &trace->record;

	atomic_store_explicit(&record->valid, 0, memory_order_relaxed);
	if (!trace->count)
		return;
	/* Release: who sees the new ids sees that they are not valid yet. */
	atomic_thread_fence(memory_order_release);
	record->ids = trace->open[trace->count - 1].ids;
	record->trace_flags = IS_RECORDED;
	atomic_store_explicit(&record->valid, 1, memory_order_release);
}

/* Of 0 to 9 and a to f. */
static uint8_t value_of(char digit)
{
	return (uint8_t)((digit & 15) + (digit >= 'a' ? 9 : 0));
}

static void parse(const char *digits, uint8_t *ret_bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ret_bytes[i] = (uint8_t)(value_of(digits[2 * i]) << 4 |
					 value_of(digits[2 * i + 1]));
}

/* ---- Those of a thread -------------------------------------------------- */

/* Its place from 1 on, 0: none. Lock held. */
static size_t find(const struct fgt_thread_trace *trace, const void *owner)
{
	size_t i = trace->count;

	while (i && trace->open[i - 1].owner != owner)
		i--;
	return i;
}

/* Lock held. */
static void take_out(struct fgt_thread_trace *trace, size_t place)
{
	trace->count--;
	memmove(&trace->open[place - 1], &trace->open[place],
		(trace->count + 1 - place) * sizeof(*trace->open));
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
			    const char *trace_id, const char *span_id)
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
		take_out(mine, place);
	mine->open[mine->count].owner = owner;
	parse(trace_id, mine->open[mine->count].ids.trace, TRACE_BYTES);
	parse(span_id, mine->open[mine->count].ids.span, SPAN_BYTES);
	mine->count++;
	publish(mine);
	pthread_mutex_unlock(&mine->lock);
	if (!otel_thread_ctx_v1)
		otel_thread_ctx_v1 = &mine->record;
}

void fgt_thread_trace_change(struct fgt_thread_trace *trace, const void *owner,
			     const char *trace_id, const char *span_id)
{
	size_t place;

	if (!trace)
		return;
	pthread_mutex_lock(&trace->lock);
	place = find(trace, owner);
	if (place) {
		parse(trace_id, trace->open[place - 1].ids.trace, TRACE_BYTES);
		parse(span_id, trace->open[place - 1].ids.span, SPAN_BYTES);
		publish(trace);
	}
	pthread_mutex_unlock(&trace->lock);
}

static void leave(struct fgt_thread_trace *trace, const void *owner)
{
	size_t place;

	pthread_mutex_lock(&trace->lock);
	place = find(trace, owner);
	if (place) {
		take_out(trace, place);
		publish(trace);
	}
	pthread_mutex_unlock(&trace->lock);
}

/* Of the calling thread: another library may have set it meanwhile. */
static void withdraw(const struct fgt_thread_trace *trace)
{
	if (otel_thread_ctx_v1 == &trace->record)
		otel_thread_ctx_v1 = NULL;
}

void fgt_thread_trace_leave(struct fgt_thread_trace *trace, const void *owner)
{
	if (!trace)
		return;
	leave(trace, owner);
	/* Only this thread adds to it. */
	if (!trace->count)
		withdraw(trace);
}

/* ---- Those of all threads ----------------------------------------------- */

void fgt_thread_trace_end(const void *owner)
{
	pthread_mutex_lock(&all.lock);
	for (struct fgt_thread_trace *trace = all.first; trace;
	     trace = trace->next)
		leave(trace, owner);
	pthread_mutex_unlock(&all.lock);
}

void fgt_thread_trace_free(struct fgt_thread_trace *trace)
{
	if (!trace)
		return;
	withdraw(trace);
	pthread_mutex_lock(&all.lock);
	*trace->place = trace->next;
	if (trace->next)
		trace->next->place = trace->place;
	pthread_mutex_unlock(&all.lock);
	pthread_mutex_destroy(&trace->lock);
	free(trace);
}

void fgt_thread_trace_forked(struct fgt_thread_trace *trace)
{
	pthread_mutex_init(&all.lock, NULL);
	all.first = trace;
	if (!trace)
		return;
	withdraw(trace);
	pthread_mutex_init(&trace->lock, NULL);
	trace->count = 0;
	trace->next = NULL;
	trace->place = &all.first;
	publish(trace);
}
