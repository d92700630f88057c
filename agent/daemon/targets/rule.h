/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a process match an entry of targets in the configuration?
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_RULE_H
#define FGT_AGENT_DAEMON_TARGETS_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/config/config.h"
#include "ringbuf/slice/slice.h"

/*
 * name is the process's name (comm, which the kernel cuts at 15 bytes) or the
 * last part of its executable's path. exe may be "".
 */
bool fgt_rule_is_name(const char *name, const char *comm, const char *exe);

/* A pid only matches the process that had it when the rule was made: false
 * for rules of a pid. */
bool fgt_rule_is_match(const struct fgt_config_target *rule,
		       const struct fgt_process_info *info);

/* Is text, the whole of a /proc/PID/cgroup, in cgroup or below it? */
bool fgt_rule_is_cgroup(const char *cgroup, const char *text);

#endif
