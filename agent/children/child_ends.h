/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How children ended that were not to end: a signal from outside, a crash, a
 * limit. self_child.c notes their starts, their kills and their ends here.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CHILDREN_CHILD_ENDS_H
#define FGT_AGENT_CHILDREN_CHILD_ENDS_H

#include <signal.h>
#include <stdint.h>

struct fgt_self_child;

/* explain gets a line for each of them, in any thread; NULL: no lines. */
void fgt_child_ends_watch(void (*explain)(const char *text));

/* Now and then: looks for children whose ends nothing has noticed. */
void fgt_child_ends_look(void);

/* How many there were. */
uint64_t fgt_child_ends_count(void);

/* ---- For self_child.c ---------------------------------------------------- */

void fgt_child_ends_begin(const struct fgt_self_child *child, int pid,
			  int pid_fd);
/* Its socket was closed: what comes after that is not the cause. */
void fgt_child_ends_lose(int pid_fd);
/* Before this process kills it. */
void fgt_child_ends_expect(int pid_fd);
/* info of waitid(). */
void fgt_child_ends_note(int pid_fd, const siginfo_t *info);

#endif
