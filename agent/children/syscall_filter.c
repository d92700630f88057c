/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seccomp filters. Run in the symbol helper, row servers, fronts and the HTTP
 * server, which must not open, connect or execute, and in the delivery process,
 * which must not execute; none of these may touch another process. One runs in
 * the daemon, for all of them.
 */
#include "agent/children/confinement.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* To read files that are open, and end after some time. */
static const int of_files[] = {
	SYS_pread64,   SYS_read,	 SYS_lseek,
	SYS_fstat,     SYS_newfstatat, /* with an empty path: fstat() of glibc */
	SYS_ppoll,
#ifdef SYS_poll
	SYS_poll,
#endif
	SYS_setitimer, SYS_rt_sigaction,
};

static const int allowed[] = {
	/* the socket; standard error, which is /dev/null */
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_close,
	SYS_write,
	/* memory */
	SYS_mmap,
	SYS_munmap,
	SYS_mremap,
	SYS_mprotect,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_getrandom,
	/* time and signals */
	SYS_clock_gettime,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_restart_syscall,
	SYS_sigaltstack, /* AddressSanitizer, before it ends */
	SYS_sched_yield, /* sanitizers, in their locks */
	/* the end, also by abort() */
	SYS_getpid,
	SYS_gettid,
	SYS_exit,
	SYS_exit_group,
};

/* To serve on a socket that listens, with a thread for each connection. */
static const int of_servers[] = {
	SYS_accept4,	     SYS_recvfrom,
	SYS_sendto,	     SYS_writev,
	SYS_shutdown,	     SYS_setsockopt,
	SYS_getsockopt,	     SYS_getsockname,
	SYS_getpeername,     SYS_fcntl,
	SYS_pipe2,	     SYS_eventfd2,
	SYS_set_robust_list, SYS_rseq,
	SYS_clock_nanosleep, SYS_sched_getaffinity,
};

/* openat is in neither list: libdw looks for split DWARF and does without. */
static const int deadly[] = {
	SYS_execve,
	SYS_execveat,
	SYS_socket,
	SYS_connect,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kill,
};

/* What neither an upload nor the reading of a slice needs. */
static const int forbidden[] = {
	/* other programs */
	SYS_execve,
	SYS_execveat,
	/* other processes */
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_pidfd_getfd,
	SYS_kill,
	SYS_tkill,
	SYS_rt_sigqueueinfo,
	SYS_pidfd_send_signal,
	SYS_perf_event_open,
	/* another network */
	SYS_setns,
	/* where kernels have had most of their security bugs */
	SYS_bpf,
	SYS_keyctl,
};

/* What the daemon and its children never do. */
static const int unused[] = {
	/* another view of the system */
	SYS_unshare,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_open_tree,
	SYS_move_mount,
	SYS_fsopen,
	SYS_fsmount,
	SYS_fspick,
	SYS_open_by_handle_at,
	/* other memory */
	SYS_process_vm_writev,
	SYS_userfaultfd,
	/* where kernels have had most of their security bugs */
	SYS_io_uring_setup,
	SYS_add_key,
	SYS_request_key,
	/* the machine */
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_quotactl,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_sethostname,
	SYS_setdomainname,
};

/* NULL without memory. Calls of another architecture kill the process. */
static scmp_filter_ctx new_filter(uint32_t default_action)
{
	scmp_filter_ctx filter = seccomp_init(default_action);

	if (filter)
		seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH,
				 SCMP_ACT_KILL_PROCESS);
	return filter;
}

static int add_calls(scmp_filter_ctx filter, uint32_t action, const int *calls,
		     size_t count)
{
	int error = 0;

	for (size_t i = 0; i < count && !error; i++)
		error = seccomp_rule_add(filter, action, calls[i], 0);
	return error;
}

/* The calls that are allowed with some arguments only. */
static int add_conditions(scmp_filter_ctx filter)
{
	/* A signal to this process, as abort() sends it. */
	const struct scmp_arg_cmp to_this_process = {
		.arg = 0,
		.op = SCMP_CMP_MASKED_EQ,
		.datum_a = UINT32_MAX,
		.datum_b = (uint32_t)getpid(),
	};
	/* Limits may be read, not set: the new limit is a null pointer. */
	const struct scmp_arg_cmp no_new_limit = { .arg = 2,
						   .op = SCMP_CMP_EQ };
	int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SYS_tgkill, 1,
				     to_this_process);

	return error ? error
		     : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SYS_prlimit64,
					1, no_new_limit);
}

/* Applies the filter to this thread unless there was an error; frees it. */
static int load(scmp_filter_ctx filter, int error)
{
	if (!error)
		error = seccomp_load(filter);
	seccomp_release(filter);
	return error;
}

int fgt_syscall_filter_forbid(void)
{
	scmp_filter_ctx filter = new_filter(SCMP_ACT_ALLOW);

	int error;

	if (!filter)
		return -ENOMEM;
	error = add_calls(filter, SCMP_ACT_ERRNO(EPERM), forbidden,
			  COUNT(forbidden));
	if (!error)
		error = add_calls(filter, SCMP_ACT_ERRNO(EPERM), unused,
				  COUNT(unused));
	return load(filter, error);
}

int fgt_syscall_filter_spare(void)
{
	/* A delivery leaves the daemon's keyring, and no process does more. */
	const struct scmp_arg_cmp other = {
		.arg = 0,
		.op = SCMP_CMP_NE,
		.datum_a = KEYCTL_JOIN_SESSION_KEYRING,
	};
	scmp_filter_ctx filter = new_filter(SCMP_ACT_ALLOW);
	int error;

	if (!filter)
		return -ENOMEM;
	error = add_calls(filter, SCMP_ACT_ERRNO(EPERM), unused, COUNT(unused));
	if (!error)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
					 SYS_keyctl, 1, other);
	return load(filter, error);
}

/*
 * Threads, not processes. Flags of clone3 are in memory, which a filter cannot
 * read: the C library takes clone where there is no clone3.
 */
static int add_threads(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp is_thread = { .arg = 0,
						.op = SCMP_CMP_MASKED_EQ,
						.datum_a = CLONE_THREAD,
						.datum_b = CLONE_THREAD };
	int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SYS_clone, 1,
				     is_thread);

	return error ? error
		     : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS),
					SYS_clone3, 0);
}

/* What is allowed beside the calls of all. */
enum filter_use {
	USE_ANSWERS,
	USE_FILES,
	USE_SERVER, /* has open sockets and threads, too */
};

static int set_filter(enum filter_use use)
{
	scmp_filter_ctx filter = new_filter(SCMP_ACT_ERRNO(EPERM));
	int error;

	if (!filter)
		return -ENOMEM;
	error = add_calls(filter, SCMP_ACT_ALLOW, allowed, COUNT(allowed));
	if (!error && use != USE_ANSWERS)
		error = add_calls(filter, SCMP_ACT_ALLOW, of_files,
				  COUNT(of_files));
	if (!error && use == USE_SERVER)
		error = add_calls(filter, SCMP_ACT_ALLOW, of_servers,
				  COUNT(of_servers));
	if (!error && use == USE_SERVER)
		error = add_threads(filter);
	if (!error)
		error = add_calls(filter, SCMP_ACT_KILL_PROCESS, deadly,
				  COUNT(deadly));
	if (!error)
		error = add_conditions(filter);
	return load(filter, error);
}

int fgt_syscall_filter_set(void)
{
	return set_filter(USE_FILES);
}

int fgt_syscall_filter_answer(void)
{
	return set_filter(USE_ANSWERS);
}

int fgt_syscall_filter_serve(void)
{
	return set_filter(USE_SERVER);
}
