/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment's say in the configuration.
 */
#ifndef FGT_AGENT_DAEMON_CONFIG_ENV_H
#define FGT_AGENT_DAEMON_CONFIG_ENV_H

#include "agent/daemon/config.h"
#include "ringbuf/why.h"

/*
 * FGTRACE_SAMPLING_HZ sets sampling.hz, and so on for each key that holds one
 * value; empty variables count as unset. -EINVAL, -ENOMEM.
 *
 * MT-Unsafe (environment) | AS-Unsafe
 */
int fgt_config_load_environment(struct fgt_config *config, struct fgt_why *why);

#endif
