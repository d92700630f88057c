/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that a reload does not change.
 */
#ifndef FGT_AGENT_DAEMON_FIXED_SETTINGS_H
#define FGT_AGENT_DAEMON_FIXED_SETTINGS_H

#include "agent/config/config.h"

/* What was laid down when the rings and the socket were made stays as it is
 * until a restart; the configuration in force shows it, and the log. */
void fgt_settings_keep_fixed(const struct fgt_config *old,
			     struct fgt_config *new);

#endif
