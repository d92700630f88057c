/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes ids of traces, spans and events without waiting; reads trace headers.
 */
#ifndef FGT_AGENT_LIB_TRANSACTIONS_TRACE_ID_H
#define FGT_AGENT_LIB_TRANSACTIONS_TRACE_ID_H

#include <stddef.h>
#include <stdint.h>

#define FGT_TRACE_ID_DIGITS 32
#define FGT_SPAN_ID_DIGITS  16

/*
 * Takes seeds from the kernel, or from clock and addresses if the kernel has
 * none yet; never waits. Call it before the first id, and in each process.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_trace_id_seed(void);

/*
 * Writes 32 or 16 hex digits, not all zero, and a NUL. Unique, not secret.
 *
 * MT-Safe | AS-Safe
 */
void fgt_trace_id_make(char *ret_text, size_t digits);

/*
 * Reads a sentry-trace header ("32hex-16hex", then nothing, "-0" or "-1") or a
 * W3C traceparent ("00-32hex-16hex-2hex", or a later version that begins so).
 * Lower case only; an id of zeros is refused. -EINVAL.
 *
 * MT-Safe | AS-Safe
 */
int fgt_trace_id_parse(const char *header,
		       char ret_trace_id[FGT_TRACE_ID_DIGITS + 1],
		       char ret_span_id[FGT_SPAN_ID_DIGITS + 1]);

/*
 * The bytes of an id of so many hex digits, which are lower case.
 *
 * MT-Safe | AS-Safe
 */
void fgt_trace_id_bytes(const char *id, size_t digits, uint8_t *ret_bytes);

/*
 * Position of a trace between 0 and 1, the same in every process: its last 56
 * bits, which are random by the W3C standard.
 *
 * MT-Safe | AS-Safe
 */
double fgt_trace_id_share(const char *trace_id);

#endif
