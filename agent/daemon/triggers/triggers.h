/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers: rules of the configuration that cut a slice and deliver it without
 * a request. What they see is the agent owner's: they cut what the agent's user
 * may see (root: all), and the slices are delivered as that user, in the
 * agent's network and below its root.
 *
 * Nothing of it runs in the sampler. Once a second a job looks at the targets
 * that triggers apply to: at the CPU clock of the process, and at the newest
 * part of its ring only for conditions that need it. Without triggers there is
 * no job.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_TRIGGERS_TRIGGERS_H
#define FGT_AGENT_DAEMON_TRIGGERS_TRIGGERS_H

#include "agent/config/config.h"
#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/targets.h"

struct fgt_triggers;

/* What it gets is borrowed. -ENOMEM. */
int fgt_triggers_new(struct fgt_loop *loop, struct fgt_jobs *jobs,
		     struct fgt_targets *targets,
		     struct fgt_deliveries *deliveries,
		     struct fgt_triggers **ret_triggers);
/* After the thread of jobs has ended; before the clients and deliveries. */
void fgt_triggers_free(struct fgt_triggers *triggers);

/*
 * Takes over the triggers of a configuration, which stays until the next call.
 * Counts, limits and events of those whose name stays are kept. At first, or as
 * the end of a job that was submitted after hold(): no look is under way then.
 * -ENOMEM: there are no triggers; errno of inotify_init1(2) and epoll_ctl(2):
 * no files are watched.
 */
int fgt_triggers_set_rules(struct fgt_triggers *triggers,
			   const struct fgt_config *config);

/* Another configuration is being loaded: no look begins until set_rules(), and
 * events wait. */
void fgt_triggers_hold(struct fgt_triggers *triggers);

/* Once a second. */
void fgt_triggers_look(struct fgt_triggers *triggers);

/* The agent got that signal. False: no trigger waits for it. */
bool fgt_triggers_signal(struct fgt_triggers *triggers, int number);

/* A program has handed over a transaction of that time. */
void fgt_triggers_transaction(void *triggers, struct fgt_target *target,
			      const char *name, uint64_t begin_ns,
			      uint64_t end_ns);

/* From now on no trigger fires. */
void fgt_triggers_leave(struct fgt_triggers *triggers);

/* The verb triggers; context: struct fgt_triggers. Answers the client in the
 * end. */
void fgt_triggers_handle(void *context, struct fgt_control_client *client,
			 const struct fgt_request *request);

#endif
