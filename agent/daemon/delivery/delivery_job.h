/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One delivery on its way: what deliveries.c, which takes orders and cuts, and
 * delivery_send.c, which leads processes, share. Only these include it.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_JOB_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_JOB_H

#include <sys/queue.h>

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/delivery/delivery_limits.h"
#include "agent/daemon/delivery/destinations.h"

enum fgt_delivery_state {
	FGT_JOB_WAITS, /* for its time */
	FGT_JOB_IS_CUT, /* on the thread */
	FGT_JOB_READY, /* for a process */
	FGT_JOB_SENDS,
};

struct fgt_delivery_job {
	struct fgt_deliveries *deliveries;
	TAILQ_ENTRY(fgt_delivery_job) link;
	enum fgt_delivery_state state;
	struct fgt_timer timer; /* its time; while it is sent: its end */
	struct fgt_job job;
	struct fgt_watch watch; /* of the child's socket */
	struct fgt_delivery_child child;
	struct fgt_delivery_head head;
	struct fgt_delivery_cut cut; /* target: a reference, until it is cut */
	struct fgt_delivery_fds fds;
	uint64_t bytes; /* of its descriptors */
	struct fgt_delivery_address address; /* whose limits it shares */
	/* Written on the thread, read when it is done. */
	int cut_result;
	uint64_t cut_bytes;
	uint8_t *body;
	size_t body_len;
	char name[FGT_TRANSACTION_NAME + 1];
	/* "": it is the program's. Looked up when it is needed, since a reload
	 * may have removed it. */
	char configured[FGT_DESTINATION_NAME_MAX];
	struct fgt_delivery_about about;
	bool is_kept; /* encoded for the keeper, not sent */
	bool has_died; /* its process, once: it is tried once more */
	void (*settled)(void *context,
			const struct fgt_delivery_result *result); /* or NULL */
	void *settled_context;
};

struct fgt_deliveries {
	struct fgt_loop *loop;
	struct fgt_jobs *jobs; /* their own thread: cuts */
	struct fgt_symbolizer *symbolizer;
	TAILQ_HEAD(, fgt_delivery_job) all; /* oldest first */
	struct fgt_delivery_limits limits;
	struct fgt_delivery_recent accepted;
	struct fgt_delivery_endings endings;
	struct fgt_destinations destinations;
	const struct fgt_delivery_keeper *keeper; /* NULL */
	struct fgt_deliveries_counters counters;
	uint64_t bytes;
	bool is_sentry_v1; /* sentry.profile */
	bool is_leaving; /* what is there is sent, once */
	bool is_ending; /* nothing is started any more */
};

static inline bool fgt_delivery_is_kept(const struct fgt_deliveries *deliveries)
{
	const struct fgt_delivery_keeper *keeper = deliveries->keeper;

	return keeper && keeper->is_ready(keeper->context);
}

/* Frees what the job owns, and the job. */
void fgt_delivery_job_free(struct fgt_delivery_job *job);

/* Counts what waits or is sent: all, and the user's and destination's of that
 * address. Deliveries to destinations of the configuration and to those of
 * programs do not count in each other's shares. */
struct fgt_delivery_tally
fgt_delivery_job_tally(const struct fgt_deliveries *deliveries,
		       const struct fgt_delivery_address *address);

/* Nothing becomes of it: logs, counts and frees it. */
void fgt_delivery_job_give_up(struct fgt_delivery_job *job,
			      enum fgt_drop_reason reason, const char *where,
			      const char *why);

/*
 * Sentry gets to know of what is lost. The profile of a transaction that did
 * not arrive is lost with it, unless the spool has an entry for each: a chunk.
 */
void fgt_delivery_job_discard(struct fgt_delivery_job *job,
			      enum fgt_discard_reason reason,
			      uint32_t category);

/* What a client reports itself of a result; Sentry counts 429 without it. A
 * redirection, and a page of something that is not Sentry, are errors, too. */
void fgt_delivery_job_count_discards(struct fgt_delivery_job *job,
				     const struct fgt_delivery_result *result);

/* The report that it was to bring: they are in the next one. */
void fgt_delivery_job_put_back_discards(struct fgt_delivery_job *job);

/* Its process has died, for the first time: it is tried once more. */
bool fgt_delivery_job_has_died_first(const struct fgt_delivery_job *job,
				     const struct fgt_delivery_result *result);

/* Its timer expires then. */
void fgt_delivery_job_wait(struct fgt_delivery_job *job, uint64_t due_ns);

/* The child of a job took too long. */
void fgt_delivery_job_overrun(struct fgt_delivery_job *job);

/* The socket of its child is readable; context: the job. */
void fgt_delivery_job_ready(void *context, uint32_t events);

/* Starts those that are ready and whose turn it is. context: struct
 * fgt_deliveries. */
void fgt_deliveries_start_ready(void *context);

#endif
