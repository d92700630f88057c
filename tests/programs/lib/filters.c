/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a seccomp filter: fault S19. System calls that ordinary
 * programs do not use are forbidden.
 *
 * filters before|after|all errno|kill    before: the recorder starts under the
 *     filter (one that permits timers, as those of services do, because the
 *     recorder cannot know which call kills it); after: the first thread
 *     installs it when the recorder runs; all: every thread does, also those
 *     of the recorder
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zoo.h"

static const unsigned int unusual[] = {
	SYS_timer_create, /* the first: not before the start */
	SYS_tgkill,
	SYS_tkill,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_perf_event_open,
	SYS_ptrace,
	SYS_bpf,
	SYS_pidfd_open,
	SYS_pidfd_getfd,
	SYS_kcmp,
	SYS_sched_setscheduler,
	SYS_sched_setattr,
	SYS_io_uring_setup,
	SYS_userfaultfd,
	SYS_process_madvise,
};
#define UNUSUAL (sizeof(unusual) / sizeof(unusual[0]))

static bool confine(bool is_before, bool is_all, bool is_deadly)
{
	struct sock_filter code[UNUSUAL + 3];
	const struct sock_fprog filter = { .len = UNUSUAL + 3, .filter = code };
	const struct sock_filter load = BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	const struct sock_filter allow =
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_filter refuse = BPF_STMT(
		BPF_RET | BPF_K, is_deadly ? SECCOMP_RET_KILL_PROCESS
					   : SECCOMP_RET_ERRNO | EPERM);

	code[0] = load;
	for (unsigned int i = 0; i < UNUSUAL; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, unusual[i],
			(unsigned char)(UNUSUAL - i), 0);
	if (is_before)
		code[1] = load;
	code[1 + UNUSUAL] = allow;
	code[2 + UNUSUAL] = refuse;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		       is_all ? SECCOMP_FILTER_FLAG_TSYNC : 0, &filter) == 0;
}

int main(int argc, char **argv)
{
	const char *when = argc == 3 ? argv[1] : "";
	bool is_before = strcmp(when, "before") == 0;
	bool is_deadly = argc == 3 && strcmp(argv[2], "kill") == 0;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (is_before && !confine(true, false, is_deadly))
		return 3;
	zoo_try_begin();
	zoo_start_burners(2);
	zoo_burn_ms(500);
	if (!is_before && !confine(false, strcmp(when, "all") == 0, is_deadly))
		return 3;
	/* Threads that start under the filter are sampled, too. */
	zoo_start_burners(1);
	for (int i = 0; i < 50; i++) {
		zoo_burn_ms(10);
		zoo_sleep_ms(10);
	}
	printf("filters %s: survived\n", when);
	zoo_end();
	return 0;
}
