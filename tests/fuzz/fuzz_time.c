/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a time and as a duration, at hostile clocks.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/cli/range/time_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define CLOCKS_LEN 16
#define TEXT_SIZE  256

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_now now;
	struct fgt_why why = { "" };
	struct fgt_time time;
	char text[TEXT_SIZE];
	uint64_t ns;

	if (len < CLOCKS_LEN || len - CLOCKS_LEN >= TEXT_SIZE)
		return 0;
	memcpy(&now.mono_ns, bytes, 8);
	memcpy(&now.wall_ns, bytes + 8, 8);
	memcpy(text, bytes + CLOCKS_LEN, len - CLOCKS_LEN);
	text[len - CLOCKS_LEN] = '\0';
	/* Refused without a reason, or an offset to the wrong side. */
	if (fgt_time_read(text, &now, &time, &why) < 0 && !why.text[0])
		abort();
	if (fgt_time_read(text, &now, &time, NULL) == 0 &&
	    ((text[0] == '-' && time.ns > now.mono_ns) ||
	     (text[0] == '+' && time.ns < now.mono_ns)))
		abort();
	if (fgt_duration_parse(text, &ns, &why) == 0 && ns == 0)
		abort();
	return 0;
}
