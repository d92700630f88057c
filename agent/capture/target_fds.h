/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of a recorder inside the program that it records, after that has
 * closed them: daemons close all that they do not know, once they have begun.
 */
#ifndef FGT_AGENT_CAPTURE_TARGET_FDS_H
#define FGT_AGENT_CAPTURE_TARGET_FDS_H

#include "agent/capture/target_sampling.h"

/* Are the directories of the process that were opened still those? */
bool fgt_target_has_fds(const struct fgt_target *target);

/* Opens them anew and forgets what was open below; all threads are looked at
 * in the next tick. Where that fails it is told, and they are as they were. */
void fgt_target_reopen_fds(struct fgt_target *target,
			   const struct fgt_tick *tick);

#endif
