/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of a recorder inside the program that it records, after that has
 * closed them: daemons close all that they do not know, once they have begun.
 */
#ifndef FGT_AGENT_CAPTURE_SAMPLED_FDS_H
#define FGT_AGENT_CAPTURE_SAMPLED_FDS_H

#include "agent/capture/sampled.h"

/*
 * Once a second: are the directories of the process still those that were
 * opened? Where it has no number left, what is kept is given back to it until
 * that was ten seconds ago, threads that could not be opened are looked for
 * again, and it is logged.
 */
void fgt_sampled_check_fds(struct fgt_sampled *sampled,
			   const struct fgt_tick *tick);
/* Opens them again and forgets what was open below; all threads are looked at
 * in the next tick. Where that fails it is logged, and they are as they were. */
void fgt_sampled_reopen_fds(struct fgt_sampled *sampled,
			    const struct fgt_tick *tick);

#endif
