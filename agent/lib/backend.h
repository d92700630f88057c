/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who records for the library: the agent (agent_link.c) or a thread of this
 * process (embedded.c). One interface, so that nothing else need know.
 */
#ifndef FGT_AGENT_LIB_BACKEND_H
#define FGT_AGENT_LIB_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/embed/embed.h"
#include "agent/lib/fgtrace.h"
#include "agent/lib/settings.h"
#include "upload/format/parts/transaction.h"

/* A slice as the library holds it: the bytes of a .fgt file. */
struct fgt_slice {
	uint8_t *bytes; /* owned, of malloc() */
	size_t len_bytes;
	uint64_t from_ns, to_ns, ticks; /* covered */
	unsigned int threads;
	int32_t caller_tid;
	/* Of the options when it was cut, "": none; they may be gone when it is
	 * written. */
	char release[FGT_SETTINGS_RELEASE + 1];
	char environment[FGT_SETTINGS_ENVIRONMENT + 1];
};

/* What is to reach a destination: either a slice that is there already, or a
 * range that is still to be cut. */
struct fgt_delivery {
	const char *destination; /* not NULL */
	const struct fgt_slice *slice; /* NULL: cut [begin_ns, end_ns] */
	/* NULL, or without a name: only the slice. */
	const struct fgt_transaction_facts *facts;
	/* With -EAGAIN: when the destination wants to be asked again, at the
	 * earliest (CLOCK_MONOTONIC); left alone where it has not said so. */
	uint64_t *ret_not_before_ns;
};

struct fgt_backend {
	enum fgt_mode mode;

	/* As fgt_get_slice(); any thread. to_ns has passed, and so has the
	 * tick after it: the library has waited. */
	int (*cut)(void *state, uint64_t from_ns, uint64_t to_ns,
		   unsigned int timeout_ms, struct fgt_slice **ret_slice);
	/* The same of a transaction, which is told even if nothing was sampled
	 * then; worker. NULL: the agent cuts it when it delivers it. */
	int (*cut_transaction)(void *state, uint64_t from_ns, uint64_t to_ns,
			       struct fgt_slice **ret_slice);
	/*
	 * Delivers, or hands over to who will; the library's worker thread
	 * only. 0: delivered, or accepted by the agent; -EAGAIN try again in a
	 * while; others: it is lost. ret_why[256]: cause and remedy.
	 */
	int (*deliver)(void *state, const struct fgt_delivery *delivery,
		       char *ret_why);
	/* Once a second on the worker thread: reconnect, notice what changed. */
	void (*refresh)(void *state);
	bool (*is_recording)(void *state);
	double (*hz)(void *state);
	/* cause and remedy of what is not permitted, "" if nothing. */
	void (*get_limitation)(void *state, char *ret_text, size_t len);
	/* The memfd of the ring, borrowed, for the agent to keep in case of a
	 * crash. NULL: the ring is the agent's. */
	int (*ring_fd)(void *state);
	/* In the child of a fork: closes descriptors, nothing else; neither
	 * memory nor locks may be touched. No other call follows. NULL:
	 * nothing to do. */
	void (*forked)(void *state);
	/* No other call is under way, none comes after. */
	void (*close)(void *state);
};

/* Everything that opening either needs; texts as in fgt_options. */
struct fgt_backend_options {
	const struct fgt_options *options; /* checked, defaults filled in */
	/* memfd of the span log, sealed against shrinking, made again if the
	 * program has closed it; -1: none. Worker, or while there is none. */
	int (*get_spans_fd)(void);
	/* Of the library's threads: never sampled. 0: none. */
	int32_t own_tids[FGT_EMBED_OWN_TIDS];
	void (*log)(void *context, const char *line); /* never NULL; any of
						       * the library's threads */
	void *context;
};

/* -ENOENT, -ECONNREFUSED and others: no agent that records (an error only if
 * is_needed; else the state is set all the same and looks for one). -ENOMEM. */
int fgt_agent_link_open(const struct fgt_backend_options *options,
			bool is_needed, void **ret_state);
extern const struct fgt_backend fgt_agent_link;

/* -ENOENT: libfgtrace-embed.so is not installed; -EPERM; -ENOMEM. */
int fgt_embedded_open(const struct fgt_backend_options *options,
		      void **ret_state);
extern const struct fgt_backend fgt_embedded;

#endif
