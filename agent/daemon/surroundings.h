/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's process, before it is a daemon: descriptors, rights, memory.
 */
#ifndef FGT_AGENT_DAEMON_SURROUNDINGS_H
#define FGT_AGENT_DAEMON_SURROUNDINGS_H

#include <stdbool.h>

#include "ringbuf/base/why.h"

/*
 * Once, at the start. Gives up what neither the daemon nor a child of it needs,
 * where a service unit has not. is_self_sampled: sampling.include_self.
 * -EBADF: a standard descriptor is closed and there is no /dev/null. -ENOMEM.
 *
 * MT-Unsafe (one thread only) | AS-Unsafe
 */
int fgt_surroundings_prepare(bool is_self_sampled, struct fgt_why *why);

/* The path is the built-in one: its directory may be made. MT-Safe | AS-Unsafe
 */
bool fgt_is_default_socket(const char *path);

#endif
