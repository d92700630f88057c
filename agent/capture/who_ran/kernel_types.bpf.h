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

struct hlist_node {
	struct hlist_node *next;
} __attribute__((preserve_access_index));

struct hlist_head {
	struct hlist_node *first;
} __attribute__((preserve_access_index));

#define PIDTYPE_TGID 1 /* include/linux/pid_types.h */

struct pid {
	struct hlist_head tasks[PIDTYPE_TGID + 1];
} __attribute__((preserve_access_index));

struct super_block {
	unsigned long s_magic;
} __attribute__((preserve_access_index));

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
} __attribute__((preserve_access_index));

struct proc_inode {
	struct pid *pid;
	struct inode vfs_inode;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
	void *private_data;
} __attribute__((preserve_access_index));

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} __attribute__((preserve_access_index));

struct files_struct {
	struct fdtable *fdt;
} __attribute__((preserve_access_index));

struct in6_addr {
	unsigned int words[4];
};

struct sock_common {
	unsigned int skc_daddr;
	unsigned short skc_dport; /* in the order of networks */
	unsigned short skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	unsigned short sk_protocol;
} __attribute__((preserve_access_index));

struct sockaddr_un {
	unsigned short sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[1];
} __attribute__((preserve_access_index));

struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
	struct sock *peer;
} __attribute__((preserve_access_index));

struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

struct task_struct {
	struct files_struct *files;
	struct hlist_node pid_links[PIDTYPE_TGID + 1];
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
