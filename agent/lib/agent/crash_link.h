/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this process records itself: an agent that happens to be there is given
 * a copy of the ring's descriptor, so that the last seconds before a crash are
 * not lost with the process.
 */
#ifndef FGT_AGENT_LIB_AGENT_CRASH_LINK_H
#define FGT_AGENT_LIB_AGENT_CRASH_LINK_H

#include "agent/lib/backend.h"

/* Connects to nobody yet. One at a time. */
void fgt_crash_link_start(const struct fgt_backend_options *options,
			  int ring_fd);
/* Worker: looks for the agent. Without a start: nothing. */
void fgt_crash_link_refresh(void);
/* Nothing was wrong: the agent need not look into our end. */
void fgt_crash_link_stop(void);
/* In the child of a fork. Async-signal-safe. */
void fgt_crash_link_forked(void);

#endif
