/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of waits by the names of system calls. Pure.
 */
#include <string.h>

#include "upload/why/doing.h"

/* System calls by what they wait for; all others stand for themselves. */
static const struct {
	const char *name;
	enum fgt_wait_kind kind;
} calls[] = {
	{ "futex", FGT_WAIT_NOTIFICATION },
	{ "futex_waitv", FGT_WAIT_NOTIFICATION },
	{ "poll", FGT_WAIT_EVENTS },
	{ "ppoll", FGT_WAIT_EVENTS },
	{ "select", FGT_WAIT_EVENTS },
	{ "pselect6", FGT_WAIT_EVENTS },
	{ "epoll_wait", FGT_WAIT_EVENTS },
	{ "epoll_pwait", FGT_WAIT_EVENTS },
	{ "epoll_pwait2", FGT_WAIT_EVENTS },
	{ "io_uring_enter", FGT_WAIT_EVENTS },
	{ "io_getevents", FGT_WAIT_EVENTS },
	{ "nanosleep", FGT_WAIT_SLEEP },
	{ "clock_nanosleep", FGT_WAIT_SLEEP },
	{ "wait4", FGT_WAIT_CHILD },
	{ "waitid", FGT_WAIT_CHILD },
	{ "pause", FGT_WAIT_SIGNAL },
	{ "rt_sigsuspend", FGT_WAIT_SIGNAL },
	{ "rt_sigtimedwait", FGT_WAIT_SIGNAL },
	{ "accept", FGT_WAIT_DESCRIPTOR },
	{ "accept4", FGT_WAIT_DESCRIPTOR },
	{ "connect", FGT_WAIT_DESCRIPTOR },
	{ "fdatasync", FGT_WAIT_DESCRIPTOR },
	{ "fsync", FGT_WAIT_DESCRIPTOR },
	{ "flock", FGT_WAIT_DESCRIPTOR },
	{ "read", FGT_WAIT_DESCRIPTOR },
	{ "recvfrom", FGT_WAIT_DESCRIPTOR },
	{ "recvmsg", FGT_WAIT_DESCRIPTOR },
	{ "sendmsg", FGT_WAIT_DESCRIPTOR },
	{ "sendto", FGT_WAIT_DESCRIPTOR },
	{ "write", FGT_WAIT_DESCRIPTOR },
	{ "semop", FGT_WAIT_IPC },
	{ "semtimedop", FGT_WAIT_IPC },
	{ "msgrcv", FGT_WAIT_IPC },
	{ "msgsnd", FGT_WAIT_IPC },
};

enum fgt_wait_kind fgt_doing_kind_of_state(const struct fgt_ring_slice *slice,
					   uint32_t state)
{
	const char *name = fgt_slice_state_name(slice, state);

	if (state == FGT_STATE_PAGE_FAULT)
		return FGT_WAIT_FAULT;
	if (state == FGT_STATE_STOPPED)
		return FGT_WAIT_STOPPED;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (strcmp(name, calls[i].name) == 0)
			return calls[i].kind;
	return FGT_WAIT_KERNEL;
}

bool fgt_doing_is_passive(const struct fgt_ring_slice *slice,
			  const struct fgt_doing *doing)
{
	const char *state = fgt_slice_state_name(slice, doing->state);

	if (!fgt_state_is_blocked(doing->state))
		return false;
	return doing->kind == FGT_WAIT_NOTIFICATION ||
	       doing->kind == FGT_WAIT_EVENTS ||
	       doing->kind == FGT_WAIT_SIGNAL ||
	       strncmp(state, "accept", strlen("accept")) == 0;
}
