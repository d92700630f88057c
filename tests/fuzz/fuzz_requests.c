/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile requests, as a front reads them: a byte that is odd where the
 * connection is a registered one, then the frame. Whatever comes, the daemon
 * accepts what an honest front makes of it, and data lie inside the frame.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/front/front.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static struct fgt_request request;
	struct fgt_request_frame frame;

	if (len < 1)
		return 0;
	frame = (struct fgt_request_frame){ .bytes = bytes + 1,
					    .len = len - 1,
					    .is_kept = bytes[0] & 1 };
	fgt_request_read(&frame, &request);
	if (!fgt_request_is_valid(&request, fgt_request_size(request.verb),
				  &frame))
		abort();
	return 0;
}
