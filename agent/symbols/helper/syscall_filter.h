/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that the symbol helper may make, and those that the
 * delivery process may not make. Runs in these processes.
 */
#ifndef FGT_AGENT_SYMBOLS_HELPER_SYSCALL_FILTER_H
#define FGT_AGENT_SYMBOLS_HELPER_SYSCALL_FILTER_H

/*
 * Allows this thread to read open files, answer and get memory. Other calls
 * get EPERM; those that only an intruder makes kill the process. Sets
 * PR_SET_NO_NEW_PRIVS. Negative errno of seccomp_load(3).
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_syscall_filter_set(void);

/*
 * For a process that opens and connects, with libraries whose calls are not
 * known: executing, touching other processes, and what only an intruder does
 * get EPERM. Otherwise as above.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_syscall_filter_forbid(void);

#endif
