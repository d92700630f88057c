/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes from a child of this program what it does not need: descriptors,
 * rights, memory, system calls. Runs once, in the child, before it sees a byte
 * of another user.
 */
#ifndef FGT_AGENT_CHILDREN_CONFINEMENT_H
#define FGT_AGENT_CHILDREN_CONFINEMENT_H

#include <stdbool.h>

struct fgt_confinement {
	unsigned long long memory_bytes; /* beyond what is mapped now */
	unsigned int files; /* descriptors */
	int (*set_filter)(void); /* one of those below */
};

/*
 * Keeps FGT_SELF_CHILD_FD; 0 to 2 become /dev/null. A limit that the kernel
 * refuses stays as it was. False if the kernel has no filter of system calls:
 * the caller must then prevent opening files itself.
 *
 * MT-Unsafe (one thread only) | AS-Unsafe
 */
bool fgt_confinement_enter(const struct fgt_confinement *confinement);

/* Lowers a soft limit; never raises it above the hard one. */
void fgt_confinement_limit(int resource, unsigned long long limit);

/* Address space beyond what this process has now. */
void fgt_confinement_limit_memory(unsigned long long more_bytes);

/* Where memory is short the kernel kills this process first. */
void fgt_confinement_offer(void);

/* ---- System calls: syscall_filter.c -------------------------------------- */

/*
 * Allows this thread to read open files, answer and get memory. Other calls
 * get EPERM; those that only an intruder makes kill the process. Sets
 * PR_SET_NO_NEW_PRIVS. Negative errno of seccomp_load(3).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_syscall_filter_set(void);

/*
 * For a process that gets bytes over a socket that is open, and answers: as
 * above, without reading files.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_syscall_filter_answer(void);

/*
 * For a process that serves on a socket that listens: as the first, and it may
 * accept connections and start threads.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_syscall_filter_serve(void);

/*
 * For the daemon, and so for all its children: what none of them does, with
 * all their rights, gets EPERM. Otherwise as above.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_syscall_filter_spare(void);

/*
 * For a process that opens and connects, with libraries whose calls are not
 * known: executing, touching other processes, and what only an intruder does
 * get EPERM. Otherwise as above.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_syscall_filter_forbid(void);

#endif
