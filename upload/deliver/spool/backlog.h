/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entry of a spool is sent next: the oldest of a destination, but those
 * that failed last; so many of it at once, after pauses that grow while it does
 * not answer. Knows no disk and
 * no clock.
 *
 * MT-Unsafe for one backlog | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_BACKLOG_H
#define FGT_UPLOAD_DELIVER_SPOOL_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ringbuf/base/why.h"
#include "upload/deliver/ratelimit.h"
#include "upload/deliver/spool/spool.h"

#define FGT_BACKLOG_NAME     64 /* of a destination, with its NUL */
#define FGT_BACKLOG_SENT_MAX 2 /* of one destination at once */
#define FGT_BACKLOG_ALL_MAX  4 /* of all, of the 8 processes that deliver */
#define FGT_BACKLOG_FIRST_MAX                                                  \
	16 /* more, each alone on its way to a
				  * destination without failures */
#define FGT_BACKLOG_MIN_NS UINT64_C(5000000000) /* the first pause, doubled */
#define FGT_BACKLOG_MAX_NS UINT64_C(600000000000)
#define FGT_BACKLOG_NEVER  UINT64_MAX

struct fgt_backlog_entry {
	struct fgt_spool_id id;
	uint64_t bytes, created_ns; /* wall clock */
	uint32_t uid, gid; /* sent as this user */
	enum fgt_sentry_category category; /* the owner's */
	bool is_sent; /* now */
	unsigned int deaths; /* of processes that sent it; the owner's */
	struct fgt_backlog_place *place;
	TAILQ_ENTRY(fgt_backlog_entry) link;
};

/* A destination, by its name. */
struct fgt_backlog_place {
	char name[FGT_BACKLOG_NAME];
	TAILQ_HEAD(fgt_backlog_entries, fgt_backlog_entry)
	entries; /* in the order in which they are sent */
	unsigned int count, sent; /* sent: now */
	uint64_t bytes;
	bool is_known; /* configured; else its entries wait */
	bool is_refused; /* it refuses the agent (401, 403) until a change */
	unsigned int failures; /* since it last answered */
	uint64_t due_ns; /* not before; CLOCK_MONOTONIC */
	struct fgt_why why; /* of the last failure */
	LIST_ENTRY(fgt_backlog_place) link;
};

struct fgt_backlog {
	LIST_HEAD(, fgt_backlog_place) places;
};

void fgt_backlog_init(struct fgt_backlog *backlog);
void fgt_backlog_done(struct fgt_backlog *backlog);

/* An entry of the spool. -ENOMEM. */
int fgt_backlog_add(struct fgt_backlog *backlog, const char *name,
		    const struct fgt_backlog_entry *entry);
/* It has gone from the spool; also one that is being sent. */
void fgt_backlog_remove(struct fgt_backlog *backlog,
			const struct fgt_spool_id *id);
/* NULL: it has gone. */
struct fgt_backlog_entry *fgt_backlog_find(struct fgt_backlog *backlog,
					   const struct fgt_spool_id *id);

/* All destinations are unknown from here on, until _know(). The pauses end:
 * what is configured has changed. _know(): -ENOMEM. */
void fgt_backlog_know_none(struct fgt_backlog *backlog);
int fgt_backlog_know(struct fgt_backlog *backlog, const char *name);
/* Ends all pauses. */
void fgt_backlog_flush(struct fgt_backlog *backlog);

/*
 * What may be sent at that time, NULL: nothing; ret_due_ns: when to ask again
 * then, FGT_BACKLOG_NEVER. One that has failures gets one at a time, and all of
 * these a half of what is sent at once: each may last half a minute.
 */
struct fgt_backlog_entry *fgt_backlog_next(struct fgt_backlog *backlog,
					   uint64_t now_ns,
					   uint64_t *ret_due_ns);
void fgt_backlog_begin(struct fgt_backlog_entry *entry);

enum fgt_backlog_end {
	FGT_BACKLOG_ANSWERED, /* finally: the caller removes the entry */
	FGT_BACKLOG_AGAIN, /* no answer, or one that asks for a pause */
	FGT_BACKLOG_REFUSED, /* the destination lets the agent not in */
	FGT_BACKLOG_BROKEN_OFF, /* it was not the destination */
};

/*
 * It is no longer sent. random: 64 random bits, for the pause: of 1 s to the
 * longest one by the failures, or of retry_after_s if that is longer.
 */
void fgt_backlog_end(struct fgt_backlog_entry *entry, enum fgt_backlog_end end,
		     uint64_t now_ns, unsigned int retry_after_s,
		     uint64_t random, const char *why);

#endif
