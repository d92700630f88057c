/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads of this process may be sent a signal.
 */
#ifndef FGT_AGENT_CAPTURE_SIGNAL_PERMISSION_H
#define FGT_AGENT_CAPTURE_SIGNAL_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>

/*
 * May a signal be sent to a thread (/proc/…/status)? 0; -EACCES: it blocks the
 * signal, or more system calls are filtered than for us; -EAGAIN: it sleeps,
 * and what it blocks then may not be what it blocks: sigwait(3) and ppoll(2)
 * let signals through that would end them.
 */
int fgt_signal_permission_parse(const char *status, int number,
				unsigned long own_filters);

/* Does a thread sleep in a call that never touches what it blocks
 * (/proc/…/syscall)? What its status says then is true. */
bool fgt_signal_permission_is_plain(const char *syscall_line);

/* Both of a living thread: -EAGAIN only if it sleeps in another call; -ESRCH.
 */
int fgt_signal_permission_ask(int32_t tid, int number,
			      unsigned long own_filters);

/* Filters of system calls that hold for the calling thread. */
unsigned long fgt_signal_permission_filters(void);

#endif
