/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf events on single threads, each with a buffer for one sample. A tick that
 * finds a thread running switches its event on; the event's first sample
 * switches it off. So each tick has its sample, taken a moment after
 * it, and the event costs the thread little in between. Runs in the sampler's
 * thread; must never keep an event on a thread that switches all the time.
 */
#include "agent/capture/running/running.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/running/perf_event.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define RECORD_BYTES	16384u /* the smallest buffer */
#define REST_BYTES	512u /* of a record, besides the stack */
#define STACK_BYTES_MAX 57344u /* a record ends below 64 KiB */
#define EVENTS_MAX	1024u
/* How long the thread is on a CPU between the tick and its sample. The kernel
 * accepts no less than 10 µs. */
#define SOON_NS 50000u
/* Likewise of a thread that the tick before found in the kernel. There the
 * event's timer fires once in so long without effect, and costs it 1 µs, 15 µs
 * in some virtual machines: in a long system call less and less often. */
#define SOON_IN_KERNEL_NS 500000u
#define KERNEL_MAX_NS	  2000000u
#define KERNEL_GROWTH	  4u
#define SWITCHES_MAX	  10000u /* a second; 0.3 % of a CPU for the event */
#define RETRY_MAX_NS	  500000000u
#define REFUSED_RETRY_NS  10000000000u
#define AWAITED_MAX	  16u

struct thread_event {
	uint32_t index; /* in perf_thread_state.events */
	uint32_t stack_bytes; /* in a sample */
	uint64_t period_ns;
	uint64_t first_ns; /* … the next time; it may be as it was before */
	uint64_t asked_ns; /* of CPU time that it was on, at the last tick */
	uint64_t on_ns; /* when it was switched on */
	bool is_asked; /* it is on: a sample will come */
	bool was_in_kernel; /* … but at ticks before the last the thread was */
	int fd;
	struct fgt_perf_buffer buffer;
};

struct perf_thread_state {
	struct fgt_fd_budget *budget;
	size_t page_bytes;
	bool sees_kernel;
	uint32_t turn; /* see take_sample() */
	/* Asked at the last tick, of threads whose samples lack a part of the
	 * stack. */
	struct thread_event *awaited[AWAITED_MAX];
	uint32_t awaited_count;
	uint32_t count;
	struct thread_event *events[EVENTS_MAX];
};

static struct perf_event_attr attr_of(const struct perf_thread_state *perf,
				      uint64_t period_ns, uint32_t stack_bytes)
{
	struct perf_event_attr attr =
		fgt_perf_attr(PERF_COUNT_SW_CPU_CLOCK, period_ns, stack_bytes);

	attr.exclude_kernel = !perf->sees_kernel;
	attr.disabled = 1;
	return attr;
}

/* May this user have such events? 0, or errno of perf_event_open(2). */
static int probe(const struct perf_thread_state *perf)
{
	const struct perf_event_attr attr = attr_of(perf, SOON_NS, 0);
	FGT_AUTO(fgt_fd_close) int fd = fgt_perf_open(&attr, 0, -1);

	return fd < 0 ? fd : 0;
}

static int threads_open(struct fgt_fd_budget *budget, uint64_t period_ns,
			void **ret_state, struct fgt_why *why)
{
	struct perf_thread_state *perf;
	int rc;

	(void)period_ns;
	perf = calloc(1, sizeof(*perf));
	if (!perf)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	perf->budget = budget;
	perf->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	perf->sees_kernel = true;
	rc = probe(perf);
	if (rc < 0) {
		perf->sees_kernel = false;
		rc = probe(perf);
	}
	if (rc < 0) {
		free(perf);
		return fgt_perf_explain(rc, false, why);
	}
	*ret_state = perf;
	return 0;
}

static void await(struct perf_thread_state *perf, struct thread_event *event)
{
	if (perf->awaited_count < AWAITED_MAX)
		perf->awaited[perf->awaited_count++] = event;
}

static void stop_awaiting(struct perf_thread_state *perf,
			  const struct thread_event *event)
{
	for (uint32_t i = perf->awaited_count; i-- > 0;)
		if (perf->awaited[i] == event)
			perf->awaited[i] = perf->awaited[--perf->awaited_count];
}

static void threads_drop(void *state, struct fgt_thread *thread)
{
	struct perf_thread_state *perf = state;
	struct thread_event *event = FGT_TAKE(thread->active->source);
	struct thread_event *last;

	if (!event)
		return;
	stop_awaiting(perf, event);
	fgt_perf_buffer_unmap(&event->buffer);
	fgt_fd_budget_close(perf->budget, &event->fd);
	last = perf->events[--perf->count];
	perf->events[event->index] = last;
	last->index = event->index;
	free(event);
}

/* Room for as much stack as the thread was last seen to need. */
static uint32_t stack_bytes_for(const struct fgt_thread *thread)
{
	uint32_t bytes = RECORD_BYTES;

	while (bytes < fgt_thread_read_bytes(thread) + REST_BYTES &&
	       bytes < STACK_BYTES_MAX)
		bytes *= 2;
	bytes -= REST_BYTES;
	return bytes > STACK_BYTES_MAX ? STACK_BYTES_MAX : bytes;
}

static int map_buffer(const struct perf_thread_state *perf,
		      struct thread_event *event)
{
	size_t pages = 1;

	while (pages * perf->page_bytes < event->stack_bytes + REST_BYTES)
		pages *= 2;
	return fgt_perf_buffer_map(&event->buffer, event->fd, pages, pages);
}

static int add_event(struct perf_thread_state *perf, struct fgt_thread *thread)
{
	uint32_t stack_bytes = stack_bytes_for(thread);
	const struct perf_event_attr attr = attr_of(perf, SOON_NS, stack_bytes);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct thread_event *event;
	int rc;

	if (perf->count == EVENTS_MAX)
		return -EMFILE;
	fd = fgt_perf_open(&attr, thread->tid, -1);
	if (fd < 0)
		return FGT_TAKE_FD(fd);
	event = calloc(1, sizeof(*event));
	if (!event)
		return -ENOMEM;
	event->stack_bytes = stack_bytes;
	event->period_ns = event->first_ns = SOON_NS;
	event->fd = fd;
	rc = map_buffer(perf, event);
	if (rc == 0 && !fgt_fd_budget_take(perf->budget)) {
		fgt_perf_buffer_unmap(&event->buffer);
		rc = -EMFILE;
	}
	if (rc < 0) {
		free(event);
		return rc;
	}
	(void)FGT_TAKE_FD(fd);
	event->index = perf->count;
	perf->events[perf->count++] = event;
	thread->active->source = event;
	return 0;
}

/* Smoothed over some eight ticks. */
static uint32_t switch_rate(const struct fgt_active_thread *active,
			    const struct fgt_running_use *use)
{
	uint64_t rate = use->switches * 1000000000u / use->period_ns;

	if (rate > UINT32_MAX / 8)
		rate = UINT32_MAX / 8;
	return (uint32_t)((active->switch_rate * 7ull + rate) / 8);
}

/* So that the event costs no more than that on average, where it is there for
 * one tick at a time. */
static uint64_t pause_of(uint64_t rate, uint64_t period_ns)
{
	uint64_t pause_ns = rate * period_ns / SWITCHES_MAX;

	return pause_ns < RETRY_MAX_NS ? pause_ns : RETRY_MAX_NS;
}

static void threads_consider(void *state, struct fgt_thread *thread,
			     const struct fgt_running_use *use)
{
	struct fgt_active_thread *active = thread->active;
	const struct thread_event *event = active->source;

	if (!use->is_new)
		active->switch_rate = switch_rate(active, use);
	if (!event)
		return;
	if (active->switch_rate > SWITCHES_MAX)
		active->source_retry_ns =
			use->now_ns +
			pause_of(active->switch_rate, use->period_ns);
	else if (event->is_asked ||
		 stack_bytes_for(thread) <= event->stack_bytes)
		return;
	threads_drop(state, thread);
}

/* The first time that its timer fired after the last tick, the thread was in
 * the kernel. */
static bool has_skipped(const struct thread_event *event, uint64_t count_ns)
{
	return count_ns - event->asked_ns >= event->first_ns / 4 * 7;
}

/* The timer starts again. */
static void set_period(struct thread_event *event, uint64_t period_ns)
{
	if (ioctl(event->fd, PERF_EVENT_IOC_PERIOD, &period_ns) == 0)
		event->period_ns = period_ns;
}

/* A sample that an earlier tick asked for has not come. */
static enum fgt_running_answer ask_again(const struct perf_thread_state *perf,
					 struct thread_event *event)
{
	uint64_t count_ns, period_ns = event->period_ns * KERNEL_GROWTH;

	if (perf->sees_kernel)
		return FGT_RUNNING_SAMPLE_COMES;
	if (read(event->fd, &count_ns, sizeof(count_ns)) < 0 ||
	    !has_skipped(event, count_ns))
		return FGT_RUNNING_USER_SAMPLE_COMES;
	event->was_in_kernel = true;
	event->asked_ns = count_ns;
	set_period(event,
		   period_ns < KERNEL_MAX_NS ? period_ns : KERNEL_MAX_NS);
	event->first_ns = event->period_ns;
	return FGT_RUNNING_IN_KERNEL;
}

static enum fgt_running_answer
threads_ask(void *state, struct fgt_thread *thread, uint64_t now_ns)
{
	struct perf_thread_state *perf = state;
	struct fgt_active_thread *active = thread->active;
	struct thread_event *event;

	if (!active->source &&
	    (now_ns < active->source_retry_ns || add_event(perf, thread) < 0)) {
		if (now_ns >= active->source_retry_ns)
			active->source_retry_ns = now_ns + REFUSED_RETRY_NS;
		return FGT_RUNNING_NO_SAMPLE;
	}
	event = active->source;
	if (event->is_asked)
		return ask_again(perf, event);
	event->on_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	if (ioctl(event->fd, PERF_EVENT_IOC_REFRESH, 1) < 0) {
		threads_drop(perf, thread);
		active->source_retry_ns = now_ns + REFUSED_RETRY_NS;
		return FGT_RUNNING_NO_SAMPLE;
	}
	event->is_asked = true;
	if (active->lacks_stack)
		await(perf, event);
	return perf->sees_kernel ? FGT_RUNNING_SAMPLE_COMES
				 : FGT_RUNNING_USER_SAMPLE_COMES;
}

/* The event counts while the thread is on a CPU. */
static uint64_t off_ns_of(const struct thread_event *event,
			  const struct fgt_running_sample *sample)
{
	uint64_t from_ns = event->on_ns + (sample->count_ns - event->asked_ns);

	return sample->time_ns > from_ns ? sample->time_ns - from_ns : 0;
}

static void take_sample(struct perf_thread_state *perf,
			struct thread_event *event,
			const struct perf_event_header *header,
			const struct fgt_running_handler *handler)
{
	struct fgt_running_sample sample;
	uint64_t period_ns;

	if (fgt_perf_sample_parse(header, &fgt_arch_host, &sample) < 0)
		return;
	sample.is_after_kernel = !perf->sees_kernel &&
				 has_skipped(event, sample.count_ns);
	sample.late_ns = sample.count_ns - event->asked_ns;
	sample.was_in_kernel = event->was_in_kernel;
	if (!event->was_in_kernel) /* else asked_ns is of a later tick */
		sample.off_ns = off_ns_of(event, &sample);
	/* It left the kernel up to as long before the last tick as after it. */
	if (event->was_in_kernel)
		sample.is_after_kernel |= perf->turn++ % 2;
	event->was_in_kernel = false;
	event->asked_ns = sample.count_ns;
	event->first_ns = event->period_ns;
	period_ns = sample.is_after_kernel ? SOON_IN_KERNEL_NS : SOON_NS;
	if (period_ns != event->period_ns)
		set_period(event, period_ns);
	if (event->first_ns < event->period_ns)
		event->first_ns = event->period_ns;
	if (handler->is_wanted(handler->context, sample.pid))
		handler->sample(handler->context, &sample);
}

/* The buffer has room for one sample, which switched the event off. */
static void drain_event(struct perf_thread_state *perf,
			struct thread_event *event,
			const struct fgt_running_handler *handler)
{
	const struct perf_event_header *header;
	bool is_broken;

	while ((header = fgt_perf_buffer_next(&event->buffer, &is_broken))) {
		event->is_asked = false;
		if (header->type == PERF_RECORD_SAMPLE)
			take_sample(perf, event, header, handler);
	}
	fgt_perf_buffer_release(&event->buffer);
}

/* Samples may make threads known, but drop none. */
static void threads_drain(void *state,
			  const struct fgt_running_handler *handler)
{
	struct perf_thread_state *perf = state;

	perf->awaited_count = 0;
	for (uint32_t i = 0; i < perf->count; i++)
		drain_event(perf, perf->events[i], handler);
}

static bool threads_drain_awaited(void *state,
				  const struct fgt_running_handler *handler)
{
	struct perf_thread_state *perf = state;

	for (uint32_t i = perf->awaited_count; i-- > 0;) {
		struct thread_event *event = perf->awaited[i];

		drain_event(perf, event, handler);
		if (!event->is_asked)
			stop_awaiting(perf, event);
	}
	return perf->awaited_count;
}

const struct fgt_running fgt_running_perf_thread = {
	.name = "perf-thread",
	.timing = FGT_RUNNING_AFTER_TICKS,
	.open = threads_open,
	.close = free,
	.drain = threads_drain,
	.consider = threads_consider,
	.drop = threads_drop,
	.ask = threads_ask,
	.drain_awaited = threads_drain_awaited,
};
