/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTRACE_SEIZE, PTRACE_INTERRUPT, registers, PTRACE_DETACH (FAULTS X2, X2a).
 * Runs in the sampler's thread: when that ends, the kernel lets go of what it
 * still holds (no PTRACE_O_EXITKILL). Every stop that is not our own is passed
 * on with its signal, or the target would stand still for ever.
 */
#include "agent/capture/running/running_ptrace.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/capture/look/state_name.h"
#include "agent/capture/running/restart.h"
#include "agent/capture/threads/access.h"
#include "agent/capture/threads/process.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/slice/frame.h"

#define YAMA_FILE "/proc/sys/kernel/yama/ptrace_scope"
#define POLL_NS	  20000
#define POLLS_MAX 50 /* a millisecond */

/*
 * Restarted by the kernel whatever happens (FAULTS §2). Not epoll_*, recv*,
 * sem*, *sigtimedwait, io_getevents, which return EINTR after any stop; nor
 * read, write, accept and their like, which do on a socket with a time-out;
 * nor what a file system answers as it likes.
 */
static const char *const safe_calls[] = {
	"futex", "nanosleep", "clock_nanosleep", "poll",
	"wait4", "waitid",    "restart_syscall", "sched_yield",
};

bool fgt_ptrace_is_safe_call(uint32_t state)
{
	const char *name = fgt_state_name(fgt_arch_host.name, state);

	if (state < FGT_STATE_SYSCALL_FIRST)
		return true;
	for (size_t i = 0; i < sizeof(safe_calls) / sizeof(safe_calls[0]); i++)
		if (strcmp(name, safe_calls[i]) == 0)
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

enum stop {
	STOP_NONE,
	STOP_OURS,
	STOP_OTHER,
	STOP_GONE
};

/*
 * A thread that ends while it is held must be waited for by its tracer, or
 * its parent never hears of it; unless we are that parent (record -- CMD):
 * then somebody else here waits for it.
 */
static bool has_ended(int32_t tid)
{
	siginfo_t info = { .si_pid = 0 };
	char path[32], text[1024];
	struct fgt_stat stat;
	int len;

	if (waitid(P_PID, (id_t)tid, &info,
		   WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
	    info.si_pid != tid)
		return false;
	/* Stops of a tracee are reported whether asked for or not. */
	if (info.si_code != CLD_EXITED && info.si_code != CLD_KILLED &&
	    info.si_code != CLD_DUMPED)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	len = fgt_procfs_read(AT_FDCWD, path, text, sizeof(text));
	if (len < 0 || fgt_stat_parse(text, (size_t)len, &stat) < 0 ||
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
		bool is_ours = info.si_code >> 8 == PTRACE_EVENT_STOP;

		*ret_signal = info.si_signo;
		waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL);
		return is_ours ? STOP_OURS : STOP_OTHER;
	}
	/* A group stop has no siginfo: the thread stands anyway. */
	if (errno == EINVAL)
		return STOP_OURS;
	return kill(tid, 0) < 0 && errno == ESRCH ? STOP_GONE : STOP_NONE;
}

/*
 * A call that our stop has broken begins anew: it has done nothing yet. What
 * the kernel restarts by itself is left to it.
 */
static void mend_call(int32_t tid, struct user_regs_struct *user)
{
	struct iovec vector = { .iov_base = user, .iov_len = sizeof(*user) };

	if (fgt_restart_prepare(user))
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

static void release(struct fgt_ptrace *ptrace_state)
{
	if (ptrace(PTRACE_DETACH, ptrace_state->tid, NULL, NULL) == 0 ||
	    errno == ESRCH)
		ptrace_state->tid = 0;
}

/* One look; true when the thread is no longer held. */
static bool advance(struct fgt_ptrace *state,
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
	case STOP_OURS:
		break;
	}
	/* Also when it was late to stop, and nobody wants the registers. */
	if (get_regs(state->tid, &regs) == 0 && read) {
		state->is_read = true;
		read(context, &regs);
	}
	release(state);
	return state->tid == 0;
}

int fgt_ptrace_sample(struct fgt_ptrace *state, int32_t tid,
		      void (*read)(void *context, const struct fgt_regs *regs),
		      void *context)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };

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

void fgt_ptrace_poll(struct fgt_ptrace *state)
{
	if (state->tid)
		advance(state, NULL, NULL);
}
