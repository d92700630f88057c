/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the kernel's side writes down of a thread at its context switches, and
 * the sampler's side reads without a system call. Both include this.
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_SWITCH_SLOT_H
#define FGT_AGENT_CAPTURE_WHO_RAN_SWITCH_SLOT_H

#define FGT_SWITCH_SLOTS_MAX 32768u
#define FGT_SWITCH_WORDS     (FGT_SWITCH_SLOTS_MAX / 64u)
#define FGT_SWITCH_GUESSES   65536u /* a power of 2 */
#define FGT_SWITCH_TGIDS_MAX 4096u
/* The kernel's state of a task that has ended (include/linux/sched.h). */
#define FGT_SWITCH_TASK_DEAD 0x80u

/* Number of a thread's last blocks that its slot keeps; a power of 2. */
#define FGT_SWITCH_BLOCKS 8u
/* Its last wake-ups that its slot keeps, one of which may be changing: all that
 * fit between two ticks of 101 Hz, and a late one. A power of 2. */
#define FGT_SWITCH_WAKES    16u
#define FGT_SWITCH_WAKE_MIN 1000000ull /* ns; shorter waits have none */
/* Stacks of wakers that are kept at a time, a power of 2: those of two ticks,
 * FGT_SWITCH_STACKS_A_TICK at most of each. */
#define FGT_SWITCH_STACKS	 128u
#define FGT_SWITCH_STACKS_A_TICK (FGT_SWITCH_STACKS / 2)
#define FGT_SWITCH_STACK_BYTES	 4096u
#define FGT_SWITCH_STACK_NONE	 0u /* not of the same process, not readable */
#define FGT_SWITCH_STACK_LOST	 (~0u) /* more than are kept */
/* log2 of the ns in a unit of a block's times. */
#define FGT_SWITCH_UNIT 10

/* Arguments of a system call that are kept: the first ones. */
#define FGT_SWITCH_ARGS 4

/* A thread leaves its CPU. */
struct fgt_switch_off {
	unsigned long long ns; /* CLOCK_MONOTONIC; 0: never seen */
	unsigned long long pc, sp, fp; /* user registers */
	short call; /* number of the system call that it is in, -1: none */
	unsigned short task_state; /* of the kernel's; 0: put off its CPU */
	/* It was woken so long after that, and wants a CPU since; 0: it was
	 * not. Written by the CPU that wakes it. */
	unsigned int woken_us;
	unsigned long long args[FGT_SWITCH_ARGS]; /* of the call */
};

/* It blocked: CLOCK_MONOTONIC >> FGT_SWITCH_UNIT, modulo 2^32. */
struct fgt_switch_block {
	unsigned int off, on; /* on: when it got a CPU again; 0: not yet */
};

/* What ended a wait of FGT_SWITCH_WAKE_MIN or more. Written by the CPU that
 * wakes it, but delay_us by that which it gets. */
struct fgt_switch_wake {
	unsigned long long ns; /* CLOCK_MONOTONIC */
	unsigned int pid, tid; /* 0: an interrupt, or may not be shown */
	unsigned int context; /* enum fgt_wake_context */
	unsigned int delay_us; /* until it got a CPU; UINT32_MAX: not yet */
	unsigned int stack; /* number of the waker's, or a reason for none */
	char name[16];
};

/* What a waker was doing: user registers, and the first bytes of its stack.
 * Number n is at n modulo FGT_SWITCH_STACKS. */
struct fgt_switch_stack {
	unsigned int number; /* 0: is being written */
	unsigned int len; /* of the bytes that could be copied */
	unsigned long long pc, sp, fp;
	unsigned char bytes[FGT_SWITCH_STACK_BYTES];
};

/*
 * Written by the CPU that switches the thread, which is one at a time; fields
 * that name the thread by the sampler, before the slot can be found by tid.
 * Sixteen cache lines. A wake-up looks at the first one only; the last twelve
 * change where it waited for long only, and are read only then.
 */
struct fgt_switch_slot {
	/* Grows by 2 at each switch; odd while the slot is being written. */
	unsigned long long version;
	unsigned int tid, tgid;
	unsigned char is_on;
	unsigned char was_on; /* at the instant, if off is later than that */
	unsigned short blocks; /* times that it blocked, modulo 65536 */
	unsigned int waker; /* came then, while it was on its CPU; 0: none */
	struct fgt_switch_off off; /* the last time */
	/* The last time before the instant that the sampler asks for. */
	struct fgt_switch_off before;
	unsigned long long on_ns; /* when it got a CPU last */
	unsigned int waited; /* for a CPU, in all, in units, modulo 2^32 */
	/* Block number n is at n modulo FGT_SWITCH_BLOCKS. */
	struct fgt_switch_block block[FGT_SWITCH_BLOCKS];
	unsigned long long wakes; /* number of them */
	/* Wake-up number n is at n modulo FGT_SWITCH_WAKES. */
	struct fgt_switch_wake wake[FGT_SWITCH_WAKES];
} __attribute__((aligned(64)));

/* Threads of a process that ended without a slot. */
struct fgt_switch_brief {
	unsigned long long threads, cpu_ns;
};

/* A socket of a process, as the kernel has it. */
#define FGT_SWITCH_SOCKET_NAME 108u /* of struct sockaddr_un */
struct fgt_switch_socket {
	/* Asked for: the process by a descriptor of its directory in /proc. */
	int proc_fd, descriptor;
	unsigned long long inode;
	/* Found; with AF_UNIX its own name, or its peer's. */
	char name[FGT_SWITCH_SOCKET_NAME];
	unsigned int remote[4]; /* the first one with AF_INET */
	unsigned short family; /* 0: it is no such socket */
	unsigned short protocol, state; /* IPPROTO_*, of TCP */
	unsigned short local_port, remote_port;
	unsigned short name_len;
	unsigned int has_peer;
};

/* A thread that slept when its switches began to be watched. */
struct fgt_switch_sleeper {
	struct fgt_switch_off off; /* ns is not known: 0 */
	unsigned long long tid;
};

#endif
