/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service manager that started the daemon, as sd_notify(3)
 * describes them. Without a manager nothing is sent.
 *
 * MT-Safe after _open | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_LOOP_NOTIFY_H
#define FGT_AGENT_DAEMON_LOOP_NOTIFY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct fgt_notify {
	int fd; /* -1: there is no manager */
	struct sockaddr_un address;
	socklen_t address_len;
	/* WATCHDOG=1 must come at least so often; 0: it is not waited for. */
	uint64_t watchdog_ns;
};

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment,
 * which children do not get. Before there are other threads. */
void fgt_notify_open(struct fgt_notify *ret_notify);
void fgt_notify_close(struct fgt_notify *notify);

/* KEY=VALUE lines. Never waits: a message without room is left out. */
void fgt_notify_send(const struct fgt_notify *notify, const char *text);
/* READY=1 must follow. now_ns: CLOCK_MONOTONIC. */
void fgt_notify_reloading(const struct fgt_notify *notify, uint64_t now_ns);

#endif
