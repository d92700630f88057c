/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes of a websocket's client: no crash, frames within the input.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/http/websocket/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_ws_input input = { .len = 0 };
	struct fgt_ws_frame frame;
	int r = 0;

	while (len > 0 && r <= 1) {
		size_t part = sizeof(input.bytes) - input.len;

		if (part > len)
			part = len;
		if (part == 0)
			abort();
		memcpy(input.bytes + input.len, bytes, part);
		input.len += part;
		bytes += part;
		len -= part;
		while ((r = fgt_ws_take(&input, &frame)) == 1)
			if (frame.bytes < input.bytes ||
			    frame.bytes + frame.len > input.bytes + input.len)
				abort();
	}
	return 0;
}
