/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restarting of interrupted system calls, by processor. Runs in the sampler's
 * thread; must never let a call be repeated that may have done its work
 * (close() returns EINTR with the descriptor gone).
 */
#include "agent/capture/running/restart.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

/* Of the kernel's own, never seen by a program (linux/errno.h there). */
#define ERESTARTNOHAND 514

/* They wait first, and EINTR says that nothing has come. */
static const long waiting_calls[] = {
	SYS_epoll_wait,	  SYS_epoll_pwait,     SYS_epoll_pwait2,
	SYS_recvfrom,	  SYS_recvmsg,	       SYS_recvmmsg,
	SYS_sendto,	  SYS_sendmsg,	       SYS_sendmmsg,
	SYS_accept,	  SYS_accept4,	       SYS_read,
	SYS_readv,	  SYS_write,	       SYS_writev,
	SYS_semop,	  SYS_semtimedop,      SYS_msgrcv,
	SYS_msgsnd,	  SYS_rt_sigtimedwait, SYS_io_getevents,
	SYS_poll,	  SYS_ppoll,	       SYS_select,
	SYS_pselect6,	  SYS_futex,	       SYS_mq_timedreceive,
	SYS_mq_timedsend,
};

bool fgt_restart_prepare(struct user_regs_struct *user)
{
	if ((long long)user->rax != -EINTR)
		return false;
	for (size_t i = 0; i < sizeof(waiting_calls) / sizeof(waiting_calls[0]);
	     i++) {
		if ((long long)user->orig_rax != waiting_calls[i])
			continue;
		user->rax = (unsigned long long)-ERESTARTNOHAND;
		return true;
	}
	return false;
}

#else

/* aarch64 decides on a restart before the stop, and the first argument is
 * gone by then: nothing can be mended. */
bool fgt_restart_prepare(struct user_regs_struct *user)
{
	(void)user;
	return false;
}

#endif
