/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of an agent that lies, as the library reads them: never a crash, and
 * what it takes out of them is within its bounds.
 */
#include "agent/protocol/answer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_answer answer;

	if (fgt_answer_parse(bytes, len, &answer) < 0)
		return 0;
	if (strnlen(answer.why, sizeof(answer.why)) == sizeof(answer.why) ||
	    strnlen(answer.limitation, sizeof(answer.limitation)) ==
		    sizeof(answer.limitation) ||
	    answer.error > 0 || !(answer.hz >= 0 && answer.hz <= 1e6))
		abort();
	if (answer.data && (answer.data < bytes ||
			    answer.data + answer.data_len > bytes + len))
		abort();
	return 0;
}
