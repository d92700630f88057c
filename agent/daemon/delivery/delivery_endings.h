/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivering processes that have been killed and have not ended yet. The
 * daemon does not wait for them: a file system of their user may hold them.
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_ENDINGS_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_ENDINGS_H

#include "agent/daemon/delivery/delivery_child.h"
#include "agent/daemon/loop/loop.h"

struct fgt_delivery_ending;

/* Embedded by its owner. */
struct fgt_delivery_endings {
	struct fgt_loop *loop;
	void (*gone)(void *context); /* one of them; on the loop */
	void *context;
	struct fgt_delivery_ending *first;
};

/* Takes the child over and ends it. */
void fgt_delivery_endings_add(struct fgt_delivery_endings *endings,
			      struct fgt_delivery_child *child, uint32_t uid);

/* Has that user any? Then no other is started, so that they stay few. */
bool fgt_delivery_endings_has(const struct fgt_delivery_endings *endings,
			      uint32_t uid);

/* Those that do not go within a second are left to init. */
void fgt_delivery_endings_done(struct fgt_delivery_endings *endings);

#endif
