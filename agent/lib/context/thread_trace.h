/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which trace each thread works, published for profilers of any kind as an
 * OpenTelemetry thread context (OTEP 4947): the variable otel_thread_ctx_v1.
 */
#ifndef FGT_AGENT_LIB_CONTEXT_THREAD_TRACE_H
#define FGT_AGENT_LIB_CONTEXT_THREAD_TRACE_H

#include <stdint.h>

/* By this name in the process context, readers know the kind of the
 * variable. */
#define FGT_THREAD_TRACE_SCHEMA "tlsdesc_v1_dev"

#define FGT_THREAD_TRACE_IDS  24 /* bytes: 16 of the trace, 8 of the span */
#define FGT_THREAD_TRACES_MAX 8u

/* The traces that one thread works for. */
struct fgt_thread_trace;

/*
 * The calling thread begins to work for the trace of owner, which is shown until
 * it leaves; the oldest of FGT_THREAD_TRACES_MAX traces makes room. *trace
 * belongs to the thread and is NULL before its first trace. Where another
 * library of the program shows a context for the thread, that one stays; without
 * memory nothing is shown.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_thread_trace_enter(struct fgt_thread_trace **trace, const void *owner,
			    const uint8_t ids[FGT_THREAD_TRACE_IDS]);

/* Other ids, if the calling thread works for owner. trace may be NULL.
 * MT-Safe | AS-Unsafe */
void fgt_thread_trace_change(struct fgt_thread_trace *trace, const void *owner,
			     const uint8_t ids[FGT_THREAD_TRACE_IDS]);

/* The calling thread does not work for owner any more: the trace that it began
 * before is shown, if there is one. trace may be NULL. MT-Safe | AS-Unsafe */
void fgt_thread_trace_leave(struct fgt_thread_trace *trace, const void *owner);

/*
 * No thread works for owner any more. A thread that showed it shows nothing
 * until its next call. Looks at each thread that has had a trace.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_thread_trace_end(const void *owner);

/* The calling thread ends. trace may be NULL. MT-Safe | AS-Unsafe */
void fgt_thread_trace_free(struct fgt_thread_trace *trace);

/* In the child of a fork, for pthread_atfork(3): its only thread works for no
 * trace. trace may be NULL. */
void fgt_thread_trace_forked(struct fgt_thread_trace *trace);

#endif
