/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Types of the kernel, for switches.bpf.c alone.
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_KERNEL_TYPES_BPF_H
#define FGT_AGENT_CAPTURE_WHO_RAN_KERNEL_TYPES_BPF_H

/* The fields of the kernel's types that are read; libbpf finds the offsets. */
struct sched_entity {
	unsigned long long sum_exec_runtime;
} __attribute__((preserve_access_index));

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t uid;
} __attribute__((preserve_access_index));

typedef struct raw_spinlock {
	unsigned int first_word;
} raw_spinlock_t;

struct task_struct {
	int pid, tgid;
	int on_cpu;
	unsigned int flags;
	unsigned int __state;
	struct sched_entity se;
	const struct cred *cred;
	void *stack;
	raw_spinlock_t pi_lock;
	unsigned long long start_time; /* CLOCK_MONOTONIC, ns */
} __attribute__((preserve_access_index));

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long bp, ip, sp, orig_ax, di, si, dx, r10;
} __attribute__((preserve_access_index));
#define REGS_ARG0(regs) ((regs)->di)
#define REGS_ARG1(regs) ((regs)->si)
#define REGS_ARG2(regs) ((regs)->dx)
#define REGS_ARG3(regs) ((regs)->r10)
#define REGS_PC(regs)	((regs)->ip)
#define REGS_FP(regs)	((regs)->bp)
#define REGS_CALL(regs) ((int)(regs)->orig_ax)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	unsigned long regs[31];
	unsigned long sp, pc;
	int syscallno;
} __attribute__((preserve_access_index));
#define REGS_ARG0(regs) ((regs)->regs[0])
#define REGS_ARG1(regs) ((regs)->regs[1])
#define REGS_ARG2(regs) ((regs)->regs[2])
#define REGS_ARG3(regs) ((regs)->regs[3])
#define REGS_PC(regs)	((regs)->pc)
#define REGS_FP(regs)	((regs)->regs[29])
#define REGS_CALL(regs) ((regs)->syscallno)
#endif

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

#endif
