/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which trace each thread works, published for profilers of any kind as an
 * OpenTelemetry thread context (OTEP 4947): the variable otel_thread_ctx_v1.
 */
#ifndef FGT_AGENT_LIB_CONTEXT_THREAD_TRACE_H
#define FGT_AGENT_LIB_CONTEXT_THREAD_TRACE_H

/* What readers find the kind of the variable by, in the process context. */
#define FGT_THREAD_TRACE_SCHEMA "tlsdesc_v1_dev"

/* Of one thread: the latest 8 traces that it works for. */
struct fgt_thread_trace;

/*
 * The calling thread works for the trace of owner from now on, before its other
 * ones. trace_id, span_id: 32 and 16 hex digits. *trace: the thread's, NULL
 * before its first one. Nothing is published where another library of the
 * program does that for the thread, nor without memory.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_thread_trace_enter(struct fgt_thread_trace **trace, const void *owner,
			    const char *trace_id, const char *span_id);

/* Other ids, if the calling thread works for owner. trace may be NULL.
 * MT-Safe | AS-Unsafe */
void fgt_thread_trace_change(struct fgt_thread_trace *trace, const void *owner,
			     const char *trace_id, const char *span_id);

/* The calling thread works for the one before, or none. trace may be NULL.
 * MT-Safe | AS-Unsafe */
void fgt_thread_trace_leave(struct fgt_thread_trace *trace, const void *owner);

/* No thread works for owner any more: asks all threads that had traces.
 * MT-Safe | AS-Unsafe */
void fgt_thread_trace_end(const void *owner);

/* The calling thread ends. trace may be NULL. MT-Safe | AS-Unsafe */
void fgt_thread_trace_free(struct fgt_thread_trace *trace);

/* In the child of a fork, whose only thread this is: it works for none. trace
 * may be NULL. AS-Safe */
void fgt_thread_trace_forked(struct fgt_thread_trace *trace);

#endif
