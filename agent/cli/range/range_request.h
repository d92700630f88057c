/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range in a request to an agent, whose ring maps wall times.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_RANGE_RANGE_REQUEST_H
#define FGT_AGENT_CLI_RANGE_RANGE_REQUEST_H

#include "agent/cli/range/range.h"
#include "agent/protocol/builder.h"

/* Puts it into an open map, on the clocks that the user named. */
void fgt_range_put(const struct fgt_range *range, struct fgt_builder *request);

/* How far the range's end lies ahead: the agent waits as long. At most an hour,
 * since it refuses more. */
uint64_t fgt_range_wait_ns(const struct fgt_range *range);

#endif
