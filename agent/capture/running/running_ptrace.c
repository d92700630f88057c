/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTRACE_SEIZE, PTRACE_INTERRUPT, registers, PTRACE_DETACH. Runs in the
 * sampler's thread: when that ends, the kernel lets go of what it still holds
 * (no PTRACE_O_EXITKILL). Every stop that is not the sampler's is passed on
 * with its signal, or the target would stand still for ever.
 */
#include "agent/capture/running/running.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/capture/threads/process.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/slice/frame.h"

#define YAMA_FILE "/proc/sys/kernel/yama/ptrace_scope"
#define POLL_NS	  20000
#define POLLS_MAX 50 /* a millisecond */

/*
 * The kernel restarts these calls whatever happens. Left out: epoll_*, recv*,
 * sem*, *sigtimedwait and io_getevents, which return EINTR after any stop;
 * read, write, accept and the like, which do so on a socket with a time-out;
 * and calls whose answer depends on the file system.
 */
static const uint32_t safe_calls[] = {
	SYS_futex,  SYS_nanosleep,	 SYS_clock_nanosleep, SYS_wait4,
	SYS_waitid, SYS_restart_syscall, SYS_sched_yield,
#ifdef SYS_poll
	SYS_poll,
#endif
};

bool fgt_ptrace_is_safe_call(uint32_t state)
{
	if (state < FGT_STATE_SYSCALL_FIRST)
		return true;
	for (size_t i = 0; i < sizeof(safe_calls) / sizeof(safe_calls[0]); i++)
		if (state - FGT_STATE_SYSCALL_FIRST == safe_calls[i])
			return true;
	return false;
}

int fgt_ptrace_check(struct fgt_why *why)
{
	int64_t yama = fgt_procfs_read_number(AT_FDCWD, YAMA_FILE, 0);

	if (yama > 0 && !fgt_access_has_capability(CAP_SYS_PTRACE))
		return fgt_why_set(why, -EPERM,
				   "ptrace needs CAP_SYS_PTRACE or sysctl "
				   "kernel.yama.ptrace_scope = 0 (it is %d)",
				   (int)yama);
	/* No process has this number: permitted means "no such process". */
	if (ptrace(PTRACE_SEIZE, INT32_MAX, NULL, NULL) < 0 && errno != ESRCH)
		return fgt_why_set(why, -EPERM,
				   "ptrace is forbidden: a seccomp filter "
				   "(container profile) must allow it");
	return 0;
}

struct ptrace_state {
	int32_t tid; /* seized and not yet released, 0: none */
	bool is_read; /* its registers were read already */
};

enum stop {
	STOP_NONE,
	STOP_ASKED,
	STOP_OTHER,
	STOP_GONE
};

/*
 * A thread that ends while it is held must be waited for by its tracer, or its
 * parent never hears of it; unless this process is that parent (record -- CMD):
 * then another thread of this process waits for it.
 */
static bool has_ended(int32_t tid)
{
	siginfo_t info = { .si_pid = 0 };
	struct fgt_stat stat;

	if (waitid(P_PID, (id_t)tid, &info,
		   WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
	    info.si_pid != tid)
		return false;
	/* Stops of a tracee are reported whether asked for or not. */
	if (info.si_code != CLD_EXITED && info.si_code != CLD_KILLED &&
	    info.si_code != CLD_DUMPED)
		return false;
	if (fgt_stat_read(AT_FDCWD, "/proc/", tid, &stat) < 0 ||
	    stat.parent_pid != getpid())
		waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL);
	return true;
}

/* Asks the thread itself: a wait status may be eaten by another waiter. */
static enum stop look_at_stop(int32_t tid, int *ret_signal)
{
	siginfo_t info = { .si_pid = 0 };

	if (has_ended(tid))
		return STOP_GONE;
	if (ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) == 0) {
		bool is_asked = info.si_code >> 8 == PTRACE_EVENT_STOP;

		*ret_signal = info.si_signo;
		waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL);
		return is_asked ? STOP_ASKED : STOP_OTHER;
	}
	/* A group stop has no siginfo: the thread stands anyway. */
	if (errno == EINVAL)
		return STOP_ASKED;
	return kill(tid, 0) < 0 && errno == ESRCH ? STOP_GONE : STOP_NONE;
}

#if defined(__x86_64__)

/* An errno inside the kernel that no program sees (its linux/errno.h). */
#define ERESTARTNOHAND 514

/*
 * A call may be restarted only if its EINTR means that it has done nothing:
 * close() returns EINTR with the descriptor gone. These wait first, and EINTR
 * means that nothing has come.
 */
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

bool fgt_ptrace_prepare_restart(struct user_regs_struct *user)
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
bool fgt_ptrace_prepare_restart(struct user_regs_struct *user)
{
	(void)user;
	return false;
}

#endif

/*
 * Restarts a call that the stop has broken: it has done nothing yet. What
 * the kernel restarts by itself is left to it.
 */
static void mend_call(int32_t tid, struct user_regs_struct *user)
{
	struct iovec vector = { .iov_base = user, .iov_len = sizeof(*user) };

	if (fgt_ptrace_prepare_restart(user))
		ptrace(PTRACE_SETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS,
		       &vector);
}

static int get_regs(int32_t tid, struct fgt_regs *regs)
{
	struct user_regs_struct user;
	struct iovec vector = { .iov_base = &user, .iov_len = sizeof(user) };

	if (ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS,
		   &vector) < 0)
		return -errno;
	/* Shorter: a 32-bit program. */
	if (vector.iov_len != sizeof(user))
		return -ENOTSUP;
	memset(regs, 0, sizeof(*regs));
	fgt_arch_host.regs_from_ptrace(&user, regs);
	mend_call(tid, &user);
	return 0;
}

static void release(struct ptrace_state *ptrace_state)
{
	if (ptrace(PTRACE_DETACH, ptrace_state->tid, NULL, NULL) == 0 ||
	    errno == ESRCH)
		ptrace_state->tid = 0;
}

/* One look; true when the thread is no longer held. */
static bool advance(struct ptrace_state *state,
		    void (*read)(void *context, const struct fgt_regs *regs),
		    void *context)
{
	struct fgt_regs regs;
	int signal_number = 0;

	switch (look_at_stop(state->tid, &signal_number)) {
	case STOP_NONE:
		return false;
	case STOP_GONE:
		state->tid = 0;
		return true;
	case STOP_OTHER:
		ptrace(PTRACE_CONT, state->tid, NULL,
		       (void *)(intptr_t)signal_number);
		return false;
	case STOP_ASKED:
		break;
	}
	/* get_regs() is needed even if the thread stopped too late for its
	 * registers to be of use: it mends an interrupted call. */
	if (get_regs(state->tid, &regs) == 0 && read) {
		state->is_read = true;
		read(context, &regs);
	}
	release(state);
	return state->tid == 0;
}

static int ptrace_request(void *ptrace_state, int32_t tid,
			  void (*read)(void *context,
				       const struct fgt_regs *regs),
			  void *context)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	struct ptrace_state *state = ptrace_state;

	if (state->tid)
		return -EBUSY;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return -errno;
	state->tid = tid;
	state->is_read = false;
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 && errno == ESRCH) {
		advance(state, NULL, NULL);
		return -ESRCH;
	}
	for (int i = 0; i < POLLS_MAX; i++) {
		if (advance(state, read, context))
			return state->is_read ? 0 : -ESRCH;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

static void ptrace_poll(void *ptrace_state)
{
	struct ptrace_state *state = ptrace_state;

	if (state->tid)
		advance(state, NULL, NULL);
}

/* ---- As a source of running stacks -------------------------------------- */

/* Whether it is permitted, fgt_ptrace_check() finds out before. */
static int ptrace_open(struct fgt_fd_budget *budget, uint64_t period_ns,
		       void **ret_state, struct fgt_why *why)
{
	struct ptrace_state *state = calloc(1, sizeof(*state));

	(void)budget;
	(void)period_ns;
	if (!state)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	*ret_state = state;
	return 0;
}

static bool ptrace_is_holding(const void *state)
{
	return ((const struct ptrace_state *)state)->tid;
}

const struct fgt_running fgt_running_ptrace = {
	.name = "ptrace",
	.timing = FGT_RUNNING_ON_REQUEST,
	.open = ptrace_open,
	.close = free,
	.request = ptrace_request,
	.poll = ptrace_poll,
	.is_holding = ptrace_is_holding,
};

/* Where no source is permitted, nor this one. */
const struct fgt_running fgt_running_none = { .name = "cpu-time" };
