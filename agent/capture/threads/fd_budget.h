/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many descriptors may be kept open to save opening them again. One
 * budget for all targets of a sampler; when it is used up, files are opened
 * for one read and closed again: slower, never an error.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_FD_BUDGET_H
#define FGT_AGENT_CAPTURE_THREADS_FD_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_FD_MODEST_MAX 256u

struct fgt_fd_budget {
	size_t limit, used;
	/* In a process that records itself: which are kept, -1 elsewhere. */
	bool is_modest;
	int kept[FGT_FD_MODEST_MAX];
	/* It has closed one of them, or the directory that they are opened
	 * in: daemons close all that they do not know. See sampled_fds.c. */
	bool has_lost;
	/* It had no number left when one was to be opened: what is kept may be
	 * just what it lacks. See sampled_fds.c. */
	bool is_short;
	bool is_system_short; /* … and it was the system that had none */
	bool is_tight; /* fewer may be kept than with numbers to spare */
};

/* Raises RLIMIT_NOFILE to the hard limit and leaves a reserve for the rest. */
void fgt_fd_budget_init(struct fgt_fd_budget *budget);

/* In a process that records itself: changes no limit, keeps an eighth of it,
 * and no more than FGT_FD_MODEST_MAX and a quarter of what is free. */
void fgt_fd_budget_init_modest(struct fgt_fd_budget *budget);

/* Such a process needs them itself: no more are kept from now on, those that
 * are remain to be closed. MT-Unsafe | AS-Safe */
void fgt_fd_budget_forgo(struct fgt_fd_budget *budget);
/* Sets the limits by the rule of fgt_fd_budget_init_modest(), from what is free
 * now and what is kept. MT-Unsafe | AS-Safe */
void fgt_fd_budget_claim(struct fgt_fd_budget *budget);

/* In the child of a fork of such a process: closes what was kept. AS-Safe */
void fgt_fd_budget_forked(const struct fgt_fd_budget *budget);

/* May one more be kept? Then it counts until fgt_fd_budget_close(). */
bool fgt_fd_budget_take(struct fgt_fd_budget *budget);
/* Closes a descriptor that was kept and leaves -1. */
void fgt_fd_budget_close(struct fgt_fd_budget *budget, int *fd);

/*
 * Reads a thread's file from its start, as text: through *fd if one is kept,
 * else opens it below task_fd (a process's "task") and keeps it if the budget
 * allows. Bytes read, at most size - 1, or negative errno. AS-Unsafe
 */
int fgt_fd_budget_read(struct fgt_fd_budget *budget, int *fd, int task_fd,
		       int32_t tid, const char *name, char *buffer,
		       size_t size);
/* Something that was opened elsewhere has failed so: a negative errno, or not.
 * MT-Unsafe | AS-Safe */
void fgt_fd_budget_note(struct fgt_fd_budget *budget, int error);
/* What was read makes no sense: has the program closed it? */
void fgt_fd_budget_doubt(struct fgt_fd_budget *budget, int *fd);

#endif
