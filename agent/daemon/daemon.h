/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: one sampler, one control socket, the configured targets.
 *
 * Runs in the main thread, which becomes the loop's. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DAEMON_H
#define FGT_AGENT_DAEMON_DAEMON_H

#include "agent/config/config.h"
#include "ringbuf/base/why.h"

/*
 * Runs in the foreground until SIGTERM or SIGINT (leaves within 5 s; a second
 * one at once). SIGHUP reloads. Takes ownership of config. socket_flag: the
 * socket of the command line, NULL if not given. 0, or negative errno with why:
 * -EADDRINUSE another daemon holds the socket's lock.
 */
int fgt_daemon_run(struct fgt_config *config, const char *socket_flag,
		   struct fgt_why *why);

#endif
