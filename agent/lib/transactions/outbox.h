/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be delivered: a bounded queue that any thread fills and the
 * library's worker empties.
 */
#ifndef FGT_AGENT_LIB_TRANSACTIONS_OUTBOX_H
#define FGT_AGENT_LIB_TRANSACTIONS_OUTBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/lib/backend.h"

#define FGT_OUTBOX_MAX	     64 /* items */
#define FGT_OUTBOX_PATIENT   32 /* with more in it, can_wait is ignored */
#define FGT_OUTBOX_BYTES_MAX ((size_t)64 << 20) /* of their slices */
/* Tries of one item: at once, then after 1, 2, 4 … 64 s. */
#define FGT_OUTBOX_TRIES 8
#define FGT_OUTBOX_NEVER UINT64_MAX
/* Destinations in a pause that they asked for (HTTP 429). */
#define FGT_OUTBOX_HELD_MAX 8
/* An item that would wait longer for its destination is given up. */
#define FGT_OUTBOX_HELD_NS UINT64_C(600000000000)

/* Embedded by its owner, which must not touch it while it is in the box. */
struct fgt_outbox_item {
	const char *destination; /* the owner's */
	struct fgt_slice *slice; /* owned; NULL: not cut yet */
	/* NULL: only the slice. Else the range to be cut is theirs. */
	const struct fgt_transaction_facts *facts;
	uint64_t due_ns; /* CLOCK_MONOTONIC: not before; set it before _put */
	/* Does not wake the worker, which looks once a second: a wake-up is a
	 * system call, and costs more than all the rest. */
	bool can_wait;
	/* Called when it has left the box: frees the owner. slice is NULL. */
	void (*free)(struct fgt_outbox_item *item);

	unsigned int tries; /* all below: the box's */
	size_t bytes;
	bool is_given_up; /* counted already, even if it is delivered */
	TAILQ_ENTRY(fgt_outbox_item) link;
};

struct fgt_outbox {
	/* Wakes the worker; called without the lock. */
	void (*wake)(void);
	void (*log)(void *context, const char *line); /* context: NULL */

	/* Since the process began; relaxed: nothing depends on their order. */
	_Atomic uint64_t delivered, undelivered;
	_Atomic uint64_t refused; /* for lack of room: never in the box */

	/* Used by the worker only. until_ns 0: free. */
	struct {
		uint64_t destination; /* a hash: it may hold a secret */
		uint64_t until_ns;
	} held[FGT_OUTBOX_HELD_MAX];

	/* Protects all below. Innermost; never held during a wait. */
	pthread_mutex_t lock;
	TAILQ_HEAD(, fgt_outbox_item) items; /* taken out by the worker only */
	size_t count, bytes; /* with the item that is being delivered */
	uint64_t next_ns; /* when the worker looks again */
	bool is_open;
};

/* Once in a process; closed. wake must not wait. */
void fgt_outbox_init(struct fgt_outbox *outbox, void (*wake)(void),
		     void (*log)(void *context, const char *line));
/* In the child of a fork: drops what is in it, which is the parent's. */
void fgt_outbox_forget(struct fgt_outbox *outbox);

void fgt_outbox_open(struct fgt_outbox *outbox);
/*
 * Closes it and counts what is left as undelivered, also an item that is being
 * delivered: its server may never answer. Returns how many there were.
 *
 * MT-Safe | AS-Unsafe
 */
size_t fgt_outbox_give_up(struct fgt_outbox *outbox);
/* The same, and empties it. No step may run or follow. */
void fgt_outbox_close(struct fgt_outbox *outbox);

/*
 * Never waits. -ENOBUFS: full; -ENOTCONN: closed. After an error the item is
 * still the caller's.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_outbox_put(struct fgt_outbox *outbox, struct fgt_outbox_item *item);

/* MT-Safe | AS-Unsafe */
bool fgt_outbox_is_empty(struct fgt_outbox *outbox);

/*
 * One step of work, which may block as long as deliver does: cuts what is
 * due, delivers one item. When the next step is due, FGT_OUTBOX_NEVER if
 * the box is empty. The worker's thread only.
 */
uint64_t fgt_outbox_step(struct fgt_outbox *outbox,
			 const struct fgt_backend *backend, uint64_t now_ns);

#endif
