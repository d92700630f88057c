/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seccomp filters in classic BPF. Run in the symbol helper, which must not open,
 * connect or execute, and in the process that delivers, which must not execute;
 * neither may touch another process.
 */
#include "agent/symbols/helper/syscall_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "name the architecture as in linux/audit.h"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "ARGUMENT_HIGH is the second half");

#define INSTRUCTIONS_MAX 160
#define FIELD(member)	 ((unsigned int)offsetof(struct seccomp_data, member))
#define ARGUMENT_LOW(n)	 (FIELD(args) + (n)*8)
#define ARGUMENT_HIGH(n) (ARGUMENT_LOW(n) + 4)

static const unsigned int allowed[] = {
	/* files that are open, the socket */
	SYS_pread64,
	SYS_read,
	SYS_write,
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_close,
	SYS_lseek,
	SYS_fstat,
	SYS_newfstatat, /* with an empty path: fstat() of glibc */
	SYS_ppoll,
#ifdef SYS_poll
	SYS_poll,
#endif
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
	SYS_setitimer,
	SYS_rt_sigaction,
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

/*
 * openat is not among them: libdw looks for the files that split DWARF names,
 * and does without them.
 */
static const unsigned int deadly[] = {
	SYS_execve,
	SYS_execveat,
	SYS_socket,
	SYS_connect,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kill,
};

struct program {
	struct sock_filter code[INSTRUCTIONS_MAX];
	unsigned short len;
};

static void add(struct program *program, unsigned int code, unsigned int value,
		unsigned int if_true, unsigned int if_false)
{
	program->code[program->len++] = (struct sock_filter){
		.code = (unsigned short)code,
		.jt = (unsigned char)if_true,
		.jf = (unsigned char)if_false,
		.k = value,
	};
}

static void add_load(struct program *program, unsigned int offset)
{
	add(program, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

/* Jumps over some instructions unless what was loaded is this value. */
static void add_unless(struct program *program, unsigned int value,
		       unsigned int skipped)
{
	add(program, BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

static void add_result(struct program *program, unsigned int result)
{
	add(program, BPF_RET | BPF_K, result, 0, 0);
}

static void add_numbers(struct program *program, const unsigned int *numbers,
			size_t count, unsigned int result)
{
	for (size_t i = 0; i < count; i++) {
		add_unless(program, numbers[i], 1);
		add_result(program, result);
	}
}

/* Limits may be asked for, not set: argument 2 is a null pointer. */
static void add_get_limit(struct program *program)
{
	add_unless(program, SYS_prlimit64, 5);
	add_load(program, ARGUMENT_LOW(2));
	add_unless(program, 0, 3);
	add_load(program, ARGUMENT_HIGH(2));
	add_unless(program, 0, 1);
	add_result(program, SECCOMP_RET_ALLOW);
}

/* A signal to ourselves only, as abort() sends it: argument 0 is our pid. */
static void add_abort(struct program *program, unsigned int pid)
{
	add_unless(program, SYS_tgkill, 3);
	add_load(program, ARGUMENT_LOW(0));
	add_unless(program, pid, 1);
	add_result(program, SECCOMP_RET_ALLOW);
}

/* What neither an upload nor the reading of a slice needs. */
static const unsigned int forbidden[] = {
	/* other programs */
	SYS_execve,
	SYS_execveat,
	/* other processes */
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_pidfd_getfd,
	SYS_kill,
	SYS_tkill,
	SYS_rt_sigqueueinfo,
	SYS_pidfd_send_signal,
	SYS_perf_event_open,
	/* another view of the system */
	SYS_unshare,
	SYS_setns,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_open_by_handle_at,
	/* where kernels have had most of their holes */
	SYS_bpf,
	SYS_io_uring_setup,
	SYS_userfaultfd,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_init_module,
	SYS_finit_module,
	SYS_kexec_load,
};

static int install(struct program *program)
{
	struct sock_fprog filter = { .len = program->len,
				     .filter = program->code };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0)
		       ? -errno
		       : 0;
}

static void add_beginning(struct program *program)
{
	add_load(program, FIELD(arch));
	add(program, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	add_result(program, SECCOMP_RET_KILL_PROCESS);
	add_load(program, FIELD(nr));
}

int fgt_syscall_filter_forbid(void)
{
	struct program program = { .len = 0 };

	_Static_assert(2 * sizeof(forbidden) / sizeof(*forbidden) + 16 <
			       INSTRUCTIONS_MAX,
		       "all instructions have room");
	add_beginning(&program);
	/* The numbers of x32, a second name for each call. */
	add(&program, BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
	add_result(&program, SECCOMP_RET_ERRNO | EPERM);
	add_numbers(&program, forbidden, sizeof(forbidden) / sizeof(*forbidden),
		    SECCOMP_RET_ERRNO | EPERM);
	add_result(&program, SECCOMP_RET_ALLOW);
	return install(&program);
}

int fgt_syscall_filter_set(void)
{
	struct program program = { .len = 0 };
	const size_t allowed_count = sizeof(allowed) / sizeof(*allowed);
	const size_t deadly_count = sizeof(deadly) / sizeof(*deadly);

	_Static_assert(
		2 * (sizeof(allowed) + sizeof(deadly)) / sizeof(*allowed) + 16 <
			INSTRUCTIONS_MAX,
		"all instructions have room");
	add_beginning(&program);
	add_numbers(&program, allowed, allowed_count, SECCOMP_RET_ALLOW);
	add_numbers(&program, deadly, deadly_count, SECCOMP_RET_KILL_PROCESS);
	add_abort(&program, (unsigned int)getpid());
	add_load(&program, FIELD(nr));
	add_get_limit(&program);
	add_result(&program, SECCOMP_RET_ERRNO | EPERM);
	return install(&program);
}
