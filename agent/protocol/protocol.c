/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares protocol versions. Runs in any thread.
 */
#include "agent/protocol/protocol.h"

#include <errno.h>

int fgt_protocol_check_versions(int64_t agent, int64_t program,
				struct fgt_why *why)
{
	if (agent == program)
		return 0;
	return fgt_why_set(
		why, -EPROTONOSUPPORT,
		"the agent uses protocol %lld, this program %lld: %s",
		(long long)agent, (long long)program,
		agent < program ? "the agent is older; restart it with this "
				  "program's release"
				: "this program is older; update it (or its "
				  "libfgtrace) and restart it");
}
