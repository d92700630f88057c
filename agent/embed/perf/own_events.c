/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events on the CPU time of threads, and what is known of each. Runs in the
 * sampler's thread; the keeper makes the system calls on descriptors.
 */
#include "agent/embed/perf/own_events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/running/perf_event.h"
#include "agent/capture/threads/procfs.h"
#include "agent/embed/perf/perf_keeper.h"
#include "agent/embed/signal/signal_permission.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define EVENTS_MAX 16u
#define REST_BYTES 512u /* of a record, besides the stack */
/* Of records: room for those of a tick, or for as many as fit. */
#define RECORD_MIN_BYTES 4096u
#define RECORD_MAX_BYTES 32768u
#define RECORDS		 16u
#define BUFFER_MAX_BYTES 131072u
/* A busy thread has fewer than so many records in a tick: each costs it up to
 * 17 µs (in a virtual machine). */
#define RECORDS_A_TICK 4u
/* Of CPU time between two records that are as large as a buffer permits. */
#define FULL_BUFFER_NS 15500000u
/* So many samples on average in each tick in which the thread ran: more show
 * the ends of runs too often, fewer miss short runs. */
#define SAMPLES_A_TICK 2u
#define SWITCHES_MAX   5000u /* a second; 1 % of a CPU for the event */
#define REVIEW_TICKS   8u
#define PERIOD_TICKS   128u /* so long a period is kept */
/* An event that may not look into the kernel has no record there. The next one
 * shows what called it, if it comes soon. */
#define GAP_MAX_NS  5000000u
#define GAP_PERIODS 2u /* and no less than so many */
#define WINDOW_NS   600000000u
#define QUIET_TICKS 3u
/* Without a record for so many quarters of a period, it was off its CPU. */
#define PAST_QUARTERS 5u
#define IDLE_NS	      1000000000u

/* Of CPU time between two records; no round numbers, since many programs take
 * turns of whole milliseconds. */
static const uint32_t periods_ns[] = { 485437, 970873, 1941747, 3313709 };
/* Where most fall into short calls in the kernel and leave no record. */
#define DENSE_NS 970873u

struct own_event {
	struct fgt_thread *thread;
	uint32_t index; /* in fgt_own_events.items */
	int fd;
	struct fgt_perf_buffer buffer;
	uint32_t record_bytes;
	uint64_t period_ns;
	uint32_t ticks; /* in which it ran */
	uint32_t quiet_ticks; /* of them, in a row, without a record */
	uint64_t last_run_ns;
	uint64_t record_ns; /* time of the last record */
	/* CPU time up to the last record, since the last sample, and from that
	 * to the next one. */
	uint64_t counted_ns, since_ns, wanted_ns;
	/* CPU time since the last verdict on its records, and that of it for
	 * which they stand. */
	uint64_t ran_ns, shown_ns;
	uint64_t switches, switches_ns; /* at the last review; 0: none */
};

struct fgt_own_events {
	struct fgt_perf_keeper *keeper;
	size_t page_bytes, locked_bytes, locked_max_bytes;
	bool sees_kernel;
	uint32_t random;
	uint32_t count;
	struct own_event *items[EVENTS_MAX];
};

static uint32_t draw(struct fgt_own_events *events)
{
	events->random = events->random * 1664525u + 1013904223u;
	return events->random >> 16;
}

/* ---- Open and close ----------------------------------------------------- */

static uint32_t record_bytes_for(const struct fgt_thread *thread)
{
	uint32_t bytes = RECORD_MIN_BYTES;

	while (bytes < fgt_thread_read_bytes(thread) + REST_BYTES)
		bytes *= 2;
	return bytes;
}

static size_t buffer_bytes_for(uint32_t record_bytes)
{
	return record_bytes * RECORDS < BUFFER_MAX_BYTES
		       ? record_bytes * RECORDS
		       : BUFFER_MAX_BYTES;
}

/* A buffer has one page besides its data. */
static size_t locked_bytes_for(const struct fgt_own_events *events,
			       uint32_t record_bytes)
{
	return buffer_bytes_for(record_bytes) + events->page_bytes;
}

/* By what the thread uses in a tick, and no more often than there is room for
 * in one. */
static uint64_t period_for(const struct fgt_thread *thread,
			   uint32_t record_bytes)
{
	uint64_t least_ns = FULL_BUFFER_NS /
			    (buffer_bytes_for(record_bytes) / record_bytes);
	uint64_t wanted_ns = thread->active->ran_ns / RECORDS_A_TICK;
	size_t i = 0;

	if (thread->active->is_often_in_kernel && wanted_ns > DENSE_NS)
		wanted_ns = DENSE_NS;
	if (wanted_ns < least_ns)
		wanted_ns = least_ns;
	while (i + 1 < sizeof(periods_ns) / sizeof(periods_ns[0]) &&
	       periods_ns[i] < wanted_ns)
		i++;
	return periods_ns[i];
}

static int open_event(const struct fgt_own_events *events, int32_t tid,
		      struct own_event *event)
{
	struct perf_event_attr attr =
		fgt_perf_attr(PERF_COUNT_SW_CPU_CLOCK, event->period_ns,
			      event->record_bytes - REST_BYTES);

	attr.exclude_kernel = !events->sees_kernel;
	return fgt_perf_keeper_open(events->keeper, &attr, tid,
				    buffer_bytes_for(event->record_bytes) /
					    events->page_bytes,
				    &event->buffer, &event->fd);
}

/* Of the sampler's thread, to learn what is permitted. */
static int probe(const struct fgt_own_events *events)
{
	struct own_event event = { .record_bytes = RECORD_MIN_BYTES,
				   .period_ns = IDLE_NS };
	int rc = open_event(events, gettid(), &event);

	if (rc == 0)
		fgt_perf_keeper_close(events->keeper, &event.buffer, event.fd);
	return rc;
}

int fgt_own_events_open(size_t locked_max_bytes,
			struct fgt_own_events **ret_events)
{
	FGT_AUTO(fgt_own_events_close)
	struct fgt_own_events *events = calloc(1, sizeof(*events));
	int rc;

	if (!events)
		return -ENOMEM;
	events->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	events->locked_max_bytes = locked_max_bytes;
	events->random = (uint32_t)fgt_clock_ns(CLOCK_MONOTONIC);
	if (locked_bytes_for(events, RECORD_MIN_BYTES) > locked_max_bytes)
		return -EPERM;
	rc = fgt_perf_keeper_start(&events->keeper);
	if (rc < 0)
		return rc;
	events->sees_kernel = true;
	rc = probe(events);
	if (rc < 0) {
		events->sees_kernel = false;
		rc = probe(events);
	}
	if (rc == 0)
		*ret_events = FGT_TAKE(events);
	return rc;
}

void fgt_own_events_close(struct fgt_own_events *events)
{
	if (!events)
		return;
	while (events->count)
		fgt_own_events_drop(events, events->items[0]->thread);
	fgt_perf_keeper_end(events->keeper);
	free(events);
}

bool fgt_own_events_work(struct fgt_own_events *events)
{
	return fgt_perf_keeper_works(events->keeper);
}

int32_t fgt_own_events_tid(const struct fgt_own_events *events)
{
	return fgt_perf_keeper_tid(events->keeper);
}

/* ---- Threads ------------------------------------------------------------ */

/* A sample holds one piece of one stack. A thread that a signal might harm has
 * those pieces. */
bool fgt_own_events_suit(const struct fgt_thread *thread)
{
	return fgt_thread_read_bytes(thread) + REST_BYTES <= RECORD_MAX_BYTES &&
	       (!thread->active->interrupted_sp ||
		!fgt_signal_has_safe_stacks(thread));
}

bool fgt_own_events_have_room(const struct fgt_own_events *events,
			      const struct fgt_thread *thread)
{
	size_t bytes = locked_bytes_for(events, record_bytes_for(thread));

	return events->count < EVENTS_MAX &&
	       events->locked_bytes + bytes <= events->locked_max_bytes;
}

struct fgt_thread *fgt_own_events_least(const struct fgt_own_events *events,
					uint64_t now_ns)
{
	struct fgt_thread *least = NULL;

	for (uint32_t i = 0; i < events->count; i++) {
		struct own_event *event = events->items[i];

		if (now_ns - event->last_run_ns > IDLE_NS)
			event->thread->active->ran_ns = 0;
		if (!least ||
		    event->thread->active->ran_ns < least->active->ran_ns)
			least = event->thread;
	}
	return least;
}

int fgt_own_events_add(struct fgt_own_events *events, struct fgt_thread *thread)
{
	struct own_event *event = calloc(1, sizeof(*event));
	int rc;

	if (!event)
		return -ENOMEM;
	*event = (struct own_event){
		.thread = thread,
		.index = events->count,
		.record_bytes = record_bytes_for(thread),
	};
	event->period_ns = period_for(thread, event->record_bytes);
	rc = open_event(events, thread->tid, event);
	if (rc < 0) {
		free(event);
		return rc;
	}
	events->locked_bytes += locked_bytes_for(events, event->record_bytes);
	events->items[events->count++] = event;
	thread->active->source = event;
	return 0;
}

void fgt_own_events_drop(struct fgt_own_events *events,
			 struct fgt_thread *thread)
{
	struct own_event *event = FGT_TAKE(thread->active->source);
	struct own_event *last;

	if (!event)
		return;
	fgt_perf_keeper_close(events->keeper, &event->buffer, event->fd);
	events->locked_bytes -= locked_bytes_for(events, event->record_bytes);
	last = events->items[--events->count];
	events->items[event->index] = last;
	last->index = event->index;
	free(event);
}

/* Each switch costs the thread 2 µs. */
static bool is_restless(struct own_event *event, uint64_t now_ns)
{
	unsigned long long run_ns, wait_ns, switches;
	uint64_t before = event->switches, since_ns = event->switches_ns;
	char path[64], text[128];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat",
		 event->thread->tid);
	if (fgt_procfs_read(AT_FDCWD, path, text, sizeof(text)) < 0 ||
	    sscanf(text, "%llu %llu %llu", &run_ns, &wait_ns, &switches) != 3)
		return false;
	event->switches = switches;
	event->switches_ns = now_ns;
	return since_ns && (switches - before) * 1000000000u >
				   (now_ns - since_ns) * SWITCHES_MAX;
}

/* Where it is in short calls half of its time, a twelfth is missing. */
static bool lacks_records(struct own_event *event)
{
	bool lacks;

	if (event->quiet_ticks >= QUIET_TICKS)
		return true;
	if (event->ran_ns < WINDOW_NS)
		return false;
	lacks = event->shown_ns < event->ran_ns / 6 * 5;
	event->ran_ns = event->shown_ns = 0;
	return lacks;
}

int fgt_own_events_follow(struct fgt_own_events *events,
			  struct fgt_thread *thread,
			  const struct fgt_running_use *use)
{
	struct own_event *event = thread->active->source;

	(void)events;
	if (!fgt_own_events_suit(thread))
		return -ENOSPC;
	if (record_bytes_for(thread) > event->record_bytes ||
	    (event->ticks >= PERIOD_TICKS &&
	     period_for(thread, event->record_bytes) != event->period_ns))
		return -EAGAIN;
	if (!use->runtime_ns)
		return 0;
	event->last_run_ns = use->now_ns;
	event->ran_ns += use->runtime_ns;
	if (use->is_throughout)
		event->quiet_ticks++;
	if (lacks_records(event)) {
		if (event->period_ns <= DENSE_NS ||
		    thread->active->is_often_in_kernel)
			return -ENODATA;
		thread->active->is_often_in_kernel = true;
		return -EAGAIN;
	}
	return ++event->ticks % REVIEW_TICKS == 0 &&
			       is_restless(event, use->now_ns)
		       ? -EBUSY
		       : 0;
}

/* ---- Samples ------------------------------------------------------------ */

/* Half to one and a half of the mean: none of them keeps step with turns that
 * the thread takes. */
static uint64_t draw_wanted(struct fgt_own_events *events,
			    const struct own_event *event)
{
	uint64_t mean_ns = event->thread->active->ran_ns / SAMPLES_A_TICK;

	return mean_ns / 2 + mean_ns * draw(events) / 65536;
}

/* A record stands for the CPU time since the one before it. True: it is the
 * first one after the time at which a sample is wanted. */
static bool is_wanted(struct fgt_own_events *events, struct own_event *event,
		      uint64_t count_ns, bool has_lost)
{
	uint64_t gap_ns = count_ns - event->counted_ns;
	uint64_t gap_max_ns = event->period_ns * GAP_PERIODS;

	if (!event->counted_ns) /* the event began within a tick */
		event->ran_ns = 0;
	if (gap_max_ns < GAP_MAX_NS)
		gap_max_ns = GAP_MAX_NS;
	if (gap_ns > gap_max_ns && !has_lost)
		gap_ns = gap_max_ns;
	event->counted_ns = count_ns;
	event->shown_ns += gap_ns;
	event->since_ns += gap_ns;
	if (event->since_ns < event->wanted_ns)
		return false;
	event->since_ns -= event->wanted_ns;
	event->wanted_ns = draw_wanted(events, event);
	if (event->since_ns > event->wanted_ns)
		event->since_ns = event->wanted_ns;
	return true;
}

/* Any of those that are wanted, with the same chance. Valid until the buffer is
 * released: one record at most lies across its end. */
static bool take_any(struct fgt_own_events *events, struct own_event *event,
		     struct fgt_running_sample *ret_sample)
{
	const struct perf_event_header *header;
	struct fgt_running_sample sample;
	bool is_broken, has_lost = false;
	uint32_t count = 0;

	while ((header = fgt_perf_buffer_next(&event->buffer, &is_broken))) {
		has_lost |= header->type == PERF_RECORD_LOST;
		if (header->type != PERF_RECORD_SAMPLE ||
		    fgt_perf_sample_parse(header, &fgt_arch_host, &sample) < 0)
			continue;
		event->quiet_ticks = 0;
		event->record_ns = sample.time_ns;
		if (is_wanted(events, event, sample.count_ns, has_lost) &&
		    draw(events) % ++count == 0)
			*ret_sample = sample;
	}
	return count > 0;
}

static bool is_past(const struct own_event *event, uint64_t now_ns)
{
	return now_ns > event->record_ns + event->period_ns / 4 * PAST_QUARTERS;
}

void fgt_own_events_drain(struct fgt_own_events *events,
			  const struct fgt_running_handler *handler)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	for (uint32_t i = 0; i < events->count; i++) {
		struct own_event *event = events->items[i];
		struct fgt_running_sample sample;

		if (take_any(events, event, &sample) &&
		    handler->is_wanted(handler->context, sample.pid)) {
			sample.is_past = is_past(event, now_ns);
			handler->sample(handler->context, &sample);
		}
		fgt_perf_buffer_release(&event->buffer);
	}
}
