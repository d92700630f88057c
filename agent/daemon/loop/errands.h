/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errands of the daemon's loop: what may take a second (attaching, detaching,
 * looking through the process table) runs on one thread, in order.
 */
#ifndef FGT_AGENT_DAEMON_LOOP_ERRANDS_H
#define FGT_AGENT_DAEMON_LOOP_ERRANDS_H

#include <stdbool.h>

#include "agent/daemon/loop/loop.h"
#include "ringbuf/base/owner.h"

struct fgt_errands;

/* Embedded by its owner, who leaves it alone until done or a withdrawal. */
struct fgt_errand {
	void (*run)(void *context); /* on the thread of errands */
	void (*done)(void *context); /* on the loop; may free the errand */
	void *context;
	struct fgt_errand *next;
};

/* Starts the thread. -ENOMEM, -EAGAIN, errno of eventfd and epoll_ctl. */
int fgt_errands_new(struct fgt_loop *loop, struct fgt_errands **ret_errands);
/* Waits for the one that runs; those that have not begun are done unrun. */
void fgt_errands_free(struct fgt_errands *errands);
FGT_DEFINE_AUTO(struct fgt_errands *, fgt_errands_free);

/* The loop's thread only. The owner bounds how many there are. */
void fgt_errands_submit(struct fgt_errands *errands, struct fgt_errand *errand);
/* True: it had not begun, and will neither run nor be done. */
bool fgt_errands_withdraw(struct fgt_errands *errands,
			  struct fgt_errand *errand);

#endif
