/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of traces, spans and events: made without waiting, read strictly.
 */
#ifndef FGT_AGENT_LIB_TRANSACTIONS_TRACE_ID_H
#define FGT_AGENT_LIB_TRANSACTIONS_TRACE_ID_H

#include <stddef.h>

#define FGT_TRACE_ID_DIGITS 32
#define FGT_SPAN_ID_DIGITS  16

/*
 * New seeds from the kernel, or from clock and addresses where it has none
 * yet; never waits. Before the first id, and in each process anew.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_trace_id_seed(void);

/*
 * Writes 32 or 16 hex digits, never all zero, and a NUL. Unique, not secret.
 *
 * MT-Safe | AS-Safe
 */
void fgt_trace_id_make(char *ret_text, size_t digits);

/*
 * Reads a sentry-trace header ("32hex-16hex", then nothing, "-0" or "-1") or a
 * W3C traceparent ("00-32hex-16hex-2hex"; of later versions what it has in
 * common with 00). Lower case only, no id of zeros. -EINVAL.
 *
 * MT-Safe | AS-Safe
 */
int fgt_trace_id_parse(const char *header,
		       char ret_trace_id[FGT_TRACE_ID_DIGITS + 1],
		       char ret_span_id[FGT_SPAN_ID_DIGITS + 1]);

/*
 * Where a trace lies between 0 and 1, the same for all who see its id: by its
 * last 56 bits, which W3C wants to be random.
 *
 * MT-Safe | AS-Safe
 */
double fgt_trace_id_share(const char *trace_id);

#endif
