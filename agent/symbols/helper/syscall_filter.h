/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that the symbol helper may make, and those that the process
 * that delivers may not. Runs in them.
 */
#ifndef FGT_AGENT_SYMBOLS_HELPER_SYSCALL_FILTER_H
#define FGT_AGENT_SYMBOLS_HELPER_SYSCALL_FILTER_H

/*
 * Allows this thread what reads open files, answers and gets memory. Anything
 * else gets EPERM; what only an intruder would try kills the process. Needs
 * PR_SET_NO_NEW_PRIVS. Negative errno of prctl(2): -EINVAL without seccomp.
 *
 * MT-Safe | AS-Safe
 */
int fgt_syscall_filter_set(void);

/*
 * For a process that opens and connects, with libraries of which nobody knows
 * all that they call: forbids (EPERM) to execute, to touch other processes, and
 * what only an intruder would try. Needs and fails as the other.
 *
 * MT-Safe | AS-Safe
 */
int fgt_syscall_filter_forbid(void);

#endif
