/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenTelemetry context of a thread of another process (OTEP 4947): a
 * thread-local pointer to a record with the ids of a trace and a span.
 */
#ifndef FGT_AGENT_CAPTURE_SERVICE_THREAD_CONTEXT_H
#define FGT_AGENT_CAPTURE_SERVICE_THREAD_CONTEXT_H

#include "agent/capture/service/context.h"
#include "agent/unwind/elf/elf_tls.h"

#define FGT_TRACE_BYTES 16u
#define FGT_TRACE_IDS	24u /* bytes: of the trace, then of the span */

/*
 * Where glibc's record of a thread lies: *ret_pointer is its thread pointer.
 * -ENOTSUP another libc, or another layout of it; errno of
 * get_robust_list(2), errors of the memory's read(). x86-64 only.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_thread_pointer_find(const struct fgt_context_memory *memory,
			    int32_t tid, uint64_t *ret_pointer);

/*
 * The address of that thread's variable. words: what the program holds at
 * tls->word. -EAGAIN: the thread has not used it yet, -EPROTO: words make no
 * sense; errors of read().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_thread_variable_find(const struct fgt_context_memory *memory,
			     const struct fgt_elf_tls *tls,
			     const uint64_t words[2], uint64_t pointer,
			     uint64_t *ret_address);

/*
 * What the variable leads to now. 1: ret_ids, 0: no context; -EAGAIN it changed
 * while it was read, so the thread runs; errors of read().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_thread_context_read(const struct fgt_context_memory *memory,
			    uint64_t variable, uint8_t ret_ids[FGT_TRACE_IDS]);

#endif
