/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process that is not the daemon's child has ended.
 *
 * AS-Unsafe unless a function has another note
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_DEATH_H
#define FGT_AGENT_DAEMON_TARGETS_DEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fgt_death_kind {
	FGT_DEATH_NOT_YET, /* it lives */
	FGT_DEATH_EXIT, /* exit(3), _exit(2), return from main */
	FGT_DEATH_SIGNAL,
	FGT_DEATH_UNKNOWN, /* it has ended; the kernel does not report how */
};

struct fgt_death {
	enum fgt_death_kind kind;
	int signal; /* of _SIGNAL */
};

/*
 * Looks at a process by its pidfd, opened while it lived; pid and start_time
 * are for kernels that want to be asked in another way.
 *
 * MT-Safe | AS-Safe
 */
void fgt_death_look(int pidfd, int32_t pid, uint64_t start_time,
		    struct fgt_death *ret_death);

/*
 * Did the process end by a signal with which users and service managers ask a
 * process to end, and which it left to its default action? SIGKILL is none of
 * them: that is also how the kernel ends a process when memory runs out.
 */
bool fgt_death_is_asked_for(const struct fgt_death *death);

/* "SIGSEGV", "SIGRTMIN+3" or "signal 99"; "unknown" unless _SIGNAL. */
void fgt_death_name(const struct fgt_death *death, char *ret_text, size_t len);

#endif
