/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder behind the library: the agent (agent_link.c) or a thread of this
 * process (embedded.c), behind one interface.
 *
 * fgt_start() and fgt_stop() open and close it, one call at a time. Each other
 * operation names its thread. AS-Unsafe
 */
#ifndef FGT_AGENT_LIB_BACKEND_H
#define FGT_AGENT_LIB_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/embed/embed.h"
#include "agent/lib/fgtrace.h"
#include "agent/lib/settings.h"
#include "ringbuf/base/why.h"
#include "upload/format/parts/transaction.h"

/* A slice as the library holds it. */
struct fgt_slice {
	struct fgt_slice_file file;
	int32_t caller_tid;
	/* Copied from the options when it was cut, "": none. The options may be
	 * freed before it is written. */
	char release[FGT_SETTINGS_RELEASE + 1];
	char environment[FGT_SETTINGS_ENVIRONMENT + 1];
};

/* One delivery to a destination: of a slice, or of a range that is not cut
 * yet. */
struct fgt_delivery {
	const char *destination; /* not NULL */
	/* NULL: the agent cuts the range of the facts. */
	const struct fgt_slice *slice;
	/* NULL, or without a name: only the slice. */
	const struct fgt_transaction_facts *facts;
	/* The earliest time of the next request to it (CLOCK_MONOTONIC), if the
	 * destination has named one; else not written. */
	uint64_t *ret_not_before_ns;
};

/* One in a process is open. */
struct fgt_backend {
	enum fgt_mode mode;

	/* Does what fgt_get_slice() does; any thread. to_ns and the tick after
	 * it have passed. */
	int (*cut)(uint64_t from_ns, uint64_t to_ns,
		   struct fgt_slice **ret_slice);
	/* The same for a transaction: an empty slice instead of -ENODATA.
	 * Worker. NULL: the agent cuts it when it delivers it. */
	int (*cut_transaction)(uint64_t from_ns, uint64_t to_ns,
			       struct fgt_slice **ret_slice);
	/*
	 * Delivers, or passes on to the agent; worker. 0: delivered, or
	 * accepted by the agent; -EAGAIN: try again later; other errors: it is
	 * lost. why: cause and what to do, left as it was with 0.
	 */
	int (*deliver)(const struct fgt_delivery *delivery,
		       struct fgt_why *why);
	/*
	 * Worker: what was delivered last, or was never tried, is lost, or
	 * (FGT_DISCARD_QUEUE) so many were never in the queue. NULL: the agent
	 * counts.
	 */
	void (*lost)(const char *destination, enum fgt_discard_reason reason,
		     uint32_t count);
	/* Once a second, worker: reconnects, notices changes. */
	void (*refresh)(void);
	/* Worker. False: fgt_flush() and fgt_stop() wait, as for a
	 * part. NULL: always. */
	bool (*is_idle)(void);
	bool (*is_recording)(void);
	double (*hz)(void);
	/* What is not permitted, its cause and what to do; "": nothing. */
	void (*get_limitation)(char *ret_text, size_t len);
	/* The memfd of the ring, borrowed: the agent keeps a copy in case of a
	 * crash. NULL: the ring belongs to the agent. */
	int (*ring_fd)(void);
	/* In the child of a fork: closes descriptors, takes no lock and frees
	 * nothing. It may be opened again. */
	void (*forked)(void);
	/* No other call is under way. */
	void (*close)(void);
};

/* -ENOENT, -ECONNREFUSED or another error: no agent records. 0 unless
 * is_needed: refresh looks for an agent. */
int fgt_agent_link_open(bool is_needed);
extern const struct fgt_backend fgt_agent_link;

/* Threads of the library. */
struct fgt_own_threads {
	int32_t worker_tid, activity_tid; /* never sampled; 0: there is none */
	/* The worker makes a further one a user of the library, which is one
	 * until it calls leave: see start.h. */
	void (*hold)(void);
	void (*leave)(void);
};

/* -ENOENT: libfgtrace-embed.so is not installed; -EPERM; -ENOMEM; -EAGAIN. */
int fgt_embedded_open(const struct fgt_own_threads *own);
extern const struct fgt_backend fgt_embedded;

#endif
