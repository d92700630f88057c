/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration from the environment.
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_ENV_H
#define FGT_AGENT_CONFIG_CONFIG_ENV_H

#include "agent/config/config.h"
#include "ringbuf/base/why.h"

/*
 * FGTRACE_SAMPLING_HZ sets sampling.hz, and so on for each key that holds one
 * value; empty variables count as unset. -EINVAL, -ENOMEM.
 *
 * MT-Unsafe (environment) | AS-Unsafe
 */
int fgt_config_load_environment(struct fgt_config *config, struct fgt_why *why);

#endif
