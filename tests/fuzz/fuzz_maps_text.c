/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the parser of /proc/PID/maps lines.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/unwind/maps/maps_open.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_maps_line line;

	if (fgt_maps_line_parse((const char *)bytes, len, &line) == 0 &&
	    (line.start >= line.end ||
	     strnlen(line.path, sizeof(line.path)) == sizeof(line.path)))
		abort();
	return 0;
}
