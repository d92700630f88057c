/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that the threads of a target work for, as the program publishes them
 * for readers (OTEP 4947). At a tick that looks at a thread its context is
 * read; one that is not looked at has not run, and has the same. Each context
 * becomes a span, from the first tick that shows it on, in a span log that is
 * the sampler's. Runs in the sampler's thread, costs nothing for programs that
 * publish no context, and waits for no file system: what a program has not
 * written itself is not read of a mapped file (fault X7).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/sampled.h"
#include "agent/capture/service/thread_context.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/spans/span_log.h"

#define LOG_BYTES (2u << 20)
/* Not among the tracks that programs give to their tasks. */
#define TRACK_FIRST (UINT32_C(1) << 31)
#define SPAN_NAME   "OpenTelemetry span"

struct traced {
	int32_t tid;
	uint32_t start_time;
	uint64_t generation; /* of the address; 0: not known */
	uint64_t address; /* of its variable; 0: cannot be found */
	uint64_t task, span; /* their numbers; 0: none */
	uint64_t begin_ns; /* of the span */
	uint8_t ids[FGT_TRACE_IDS];
};

struct fgt_traces {
	struct fgt_span_log *log; /* the target's */
	struct fgt_span_writer writer;
	uint64_t serial;
	/* Of the maps of that generation; kind NONE: nowhere. */
	uint64_t generation;
	struct fgt_elf_tls tls;
	uint64_t words[2];
	struct traced *threads; /* by their slots in the ring */
	size_t count, capacity;
};

/* ---- Spans ----------------------------------------------------------------- */

static void append(struct fgt_traces *traces, struct fgt_span_record record,
		   const struct traced *thread, const char *text)
{
	record.tid = thread->tid;
	record.text = text;
	record.text_len = (uint8_t)strlen(text);
	/* One that finds no room is counted by the log. */
	(void)fgt_span_log_append(traces->log, &traces->writer, &record);
}

static void append_span(struct fgt_traces *traces, const struct traced *thread,
			enum fgt_span_kind kind, uint64_t end_ns)
{
	append(traces,
	       (struct fgt_span_record){
		       .kind = kind,
		       .number = thread->span,
		       .owner = thread->task,
		       .track = TRACK_FIRST + (uint32_t)thread->tid,
		       .begin_ns = thread->begin_ns,
		       .end_ns = end_ns,
	       },
	       thread, SPAN_NAME);
}

static void append_id(struct fgt_traces *traces, const struct traced *thread,
		      const char *key, const uint8_t *bytes, size_t len)
{
	char text[2 * FGT_TRACE_IDS + 1];

	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	append(traces,
	       (struct fgt_span_record){
		       .kind = FGT_SPAN_LABEL,
		       .number = thread->span,
		       .begin_ns = thread->begin_ns,
		       .key = key,
		       .key_len = (uint8_t)strlen(key),
	       },
	       thread, text);
}

static uint64_t next_number(struct fgt_traces *traces)
{
	traces->serial += FGT_NUMBER_SERIAL_ONE;
	return traces->serial;
}

static void begin_task(struct fgt_traces *traces, struct traced *thread,
		       uint64_t now_ns)
{
	char name[FGT_SPAN_NAME_MAX];

	thread->task = next_number(traces);
	snprintf(name, sizeof(name), "OpenTelemetry, thread %d", thread->tid);
	append(traces,
	       (struct fgt_span_record){
		       .kind = FGT_SPAN_TASK_BEGIN,
		       .number = thread->task,
		       .track = TRACK_FIRST + (uint32_t)thread->tid,
		       .begin_ns = now_ns,
	       },
	       thread, name);
}

static void begin_span(struct fgt_traces *traces, struct traced *thread,
		       const uint8_t ids[FGT_TRACE_IDS], uint64_t now_ns)
{
	if (!thread->task)
		begin_task(traces, thread, now_ns);
	thread->span = next_number(traces) | 1;
	thread->begin_ns = now_ns;
	memcpy(thread->ids, ids, FGT_TRACE_IDS);
	append_span(traces, thread, FGT_SPAN_BEGIN, 0);
	append_id(traces, thread, "trace_id", ids, FGT_TRACE_BYTES);
	append_id(traces, thread, "span_id", ids + FGT_TRACE_BYTES,
		  FGT_TRACE_IDS - FGT_TRACE_BYTES);
}

/* The tick at now_ns does not have it any more. */
static void end_span(struct fgt_traces *traces, struct traced *thread,
		     uint64_t now_ns)
{
	if (!thread->span)
		return;
	append_span(traces, thread, FGT_SPAN_END,
		    now_ns > thread->begin_ns ? now_ns - 1 : thread->begin_ns);
	thread->span = 0;
}

/* ---- Where contexts are ---------------------------------------------------- */

static bool read_words(const struct fgt_sampled *sampled,
		       const struct fgt_elf_tls *tls, uint64_t bias,
		       uint64_t ret_words[2])
{
	const size_t len = 2 * sizeof(*ret_words);

	return tls->kind == FGT_ELF_TLS_PROGRAM ||
	       (fgt_procfs_owns(sampled->look.process.proc_fd, tls->word + bias,
				len) &&
		fgt_sampled_copy(sampled, tls->word + bias, ret_words, len) ==
			(int64_t)len);
}

static int begin_traces(struct fgt_sampled *sampled)
{
	struct fgt_traces *traces = calloc(1, sizeof(*traces));
	int r = traces ? fgt_span_log_new(LOG_BYTES, &traces->log) : -ENOMEM;

	if (r < 0) {
		free(traces);
		return r;
	}
	/* No other process reads it. */
	fgt_span_log_unshare(traces->log);
	fgt_target_set_traces(sampled->target, traces->log);
	traces->serial = FGT_NUMBER_OBSERVED;
	sampled->traces = traces;
	return 0;
}

/* The first image that has the variable. */
static bool find_variable(struct fgt_sampled *sampled, struct fgt_elf_tls *tls,
			  uint64_t words[2])
{
	const struct fgt_maps *maps = sampled->look.stacks.maps;

	for (size_t i = 0; maps->context_count && i < maps->image_count; i++) {
		const struct fgt_maps_image *slot = &maps->images[i];

		if (!slot->file)
			continue;
		*tls = fgt_image_file_elf(slot->file)->thread_context;
		if (tls->kind != FGT_ELF_TLS_NONE)
			return read_words(sampled, tls, slot->image.bias,
					  words);
	}
	return false;
}

static void end_all(struct fgt_traces *traces, uint64_t now_ns)
{
	for (size_t i = 0; i < traces->count; i++)
		end_span(traces, &traces->threads[i], now_ns);
	traces->tls.kind = FGT_ELF_TLS_NONE;
	traces->generation = 0;
}

void fgt_sampled_find_traces(struct fgt_sampled *sampled)
{
	const struct fgt_stacks *stacks = &sampled->look.stacks;
	struct fgt_elf_tls tls;
	uint64_t words[2] = { 0 };

	/* Another process's memory only: a program that records itself may be
	 * killed for the calls that this takes. */
	if (sampled->look.is_embedded || !stacks->maps)
		return;
	if (sampled->traces &&
	    sampled->traces->generation == stacks->generation + 1)
		return;
	if (!find_variable(sampled, &tls, words)) {
		if (sampled->traces)
			end_all(sampled->traces, sampled->look.tick_ns);
		return;
	}
	if (!sampled->traces && begin_traces(sampled) < 0)
		return;
	sampled->traces->tls = tls;
	memcpy(sampled->traces->words, words, sizeof(words));
	sampled->traces->generation = stacks->generation + 1;
}

void fgt_sampled_end_traces(struct fgt_sampled *sampled)
{
	if (!sampled->traces)
		return;
	end_all(sampled->traces, sampled->look.tick_ns);
	free(sampled->traces->threads);
	free(FGT_TAKE(sampled->traces));
}

/* ---- Threads ---------------------------------------------------------------- */

static struct traced *traced_of(struct fgt_traces *traces,
				const struct fgt_thread *thread,
				uint64_t now_ns)
{
	struct traced *found;

	while (traces->count <= thread->slot) {
		if (FGT_ARRAY_GROW(traces->threads, traces->count,
				   traces->capacity))
			return NULL;
		memset(&traces->threads[traces->count++], 0, sizeof(*found));
	}
	found = &traces->threads[thread->slot];
	if (found->tid == thread->tid &&
	    found->start_time == thread->start_time)
		return found;
	end_span(traces, found, now_ns);
	*found = (struct traced){ .tid = thread->tid,
				  .start_time = thread->start_time };
	return found;
}

static void find_address(struct fgt_traces *traces,
			 const struct fgt_context_memory *memory,
			 struct traced *thread)
{
	uint64_t pointer;
	int r = fgt_thread_pointer_find(memory, thread->tid, &pointer);

	thread->address = 0;
	if (r == 0)
		r = fgt_thread_variable_find(memory, &traces->tls,
					     traces->words, pointer,
					     &thread->address);
	if (r != -EAGAIN)
		thread->generation = traces->generation;
	/* The loader fills the words in when they are first used: they are read
	 * again. */
	if (r == -EPROTO)
		traces->generation = 0;
}

/* Before the first tick that shows its stack. */
static uint64_t begin_of(const struct fgt_tick *tick, uint64_t tick_ns,
			 uint32_t credit_ticks)
{
	uint64_t before_ns = credit_ticks * tick->period_ns;

	if (before_ns)
		before_ns += tick->period_ns / 2;
	return before_ns < tick_ns ? tick_ns - before_ns : tick_ns;
}

void fgt_sampled_read_trace(struct fgt_sampled *sampled,
			    const struct fgt_tick *tick,
			    const struct fgt_thread *thread,
			    uint32_t credit_ticks)
{
	const struct fgt_context_memory memory = { fgt_sampled_read_memory,
						   sampled };
	struct fgt_traces *traces = sampled->traces;
	uint64_t now_ns = begin_of(tick, sampled->look.tick_ns, credit_ticks);
	uint8_t ids[FGT_TRACE_IDS];
	struct traced *traced;
	int r = 0;

	if (!traces->generation || thread->slot == FGT_THREAD_NO_SLOT)
		return;
	traced = traced_of(traces, thread, now_ns);
	if (!traced)
		return;
	if (!traced->generation || traced->generation != traces->generation)
		find_address(traces, &memory, traced);
	if (traced->address)
		r = fgt_thread_context_read(&memory, traced->address, ids);
	if (r > 0 && traced->span && !memcmp(ids, traced->ids, sizeof(ids)))
		return;
	end_span(traces, traced, now_ns);
	if (r > 0)
		begin_span(traces, traced, ids, now_ns);
}

void fgt_sampled_end_trace(struct fgt_sampled *sampled,
			   const struct fgt_thread *thread)
{
	struct fgt_traces *traces = sampled->traces;

	if (thread->slot < traces->count)
		end_span(traces, &traces->threads[thread->slot],
			 sampled->look.tick_ns);
}
