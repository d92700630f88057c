/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace headers as any client of a program may send them: never read beyond
 * their end, and what is accepted are ids.
 */
#include "agent/lib/transactions/trace_id.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_id(const char *text, size_t digits)
{
	return strlen(text) == digits &&
	       strspn(text, "0123456789abcdef") == digits &&
	       strspn(text, "0") < digits;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	/* Room for just the header, so that a byte too much is seen. */
	char *header = malloc(len + 1);
	char trace_id[FGT_TRACE_ID_DIGITS + 1] = "unchanged";
	char span_id[FGT_SPAN_ID_DIGITS + 1] = "unchanged";
	double share;

	if (!header)
		return 0;
	memcpy(header, bytes, len);
	header[len] = '\0';
	if (fgt_trace_id_parse(header, trace_id, span_id) == 0) {
		share = fgt_trace_id_share(trace_id);
		if (!is_id(trace_id, FGT_TRACE_ID_DIGITS) ||
		    !is_id(span_id, FGT_SPAN_ID_DIGITS) ||
		    !strstr(header, trace_id) || !strstr(header, span_id) ||
		    !(share >= 0 && share < 1))
			abort();
	} else if (strcmp(trace_id, "unchanged") != 0 ||
		   strcmp(span_id, "unchanged") != 0) {
		abort();
	}
	free(header);
	return 0;
}
