/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of libfgtrace-embed.so to libfgtrace, which loads it with
 * RTLD_LOCAL, so that its symbols (libunwind) never replace those of the
 * program. It passes plain types only.
 */
#ifndef FGT_AGENT_EMBED_EMBED_H
#define FGT_AGENT_EMBED_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "upload/deliver/ratelimit.h"
#include "upload/deliver/sentry_report.h"
#include "upload/format/parts/transaction.h"

#define FGT_EMBED_VERSION 11
#define FGT_EMBED_SYMBOL  "fgt_embed"

#define FGT_EMBED_OWN_TIDS 3

struct fgt_embed_options {
	unsigned int hz, ring_seconds;
	size_t ring_bytes;
	int spans_fd; /* of the span log, -1: none; borrowed */
	/* Threads of the library, which are never sampled; 0: none. */
	int32_t own_tids[FGT_EMBED_OWN_TIDS];
	void (*log)(void *context, const char *line);
	void *context;
};

struct fgt_upload_limits;

/* What is known of a server, from one call to the next; { 0 }: nothing. */
struct fgt_embed_server {
	struct fgt_pauses pauses;
	struct fgt_sentry_discards discards; /* not reported yet */
	uint32_t unsent; /* category of what was sent last; and what follows */
};

/* A directory that outlives the program, and a destination. */
struct fgt_embed_spool {
	const char *path; /* absolute */
	const char *destination;
	struct fgt_embed_server *server; /* to send */
	const struct fgt_upload_limits *limits;
};

/* A .fgt file, and what it covers. */
struct fgt_slice_file {
	uint8_t *bytes; /* owned, of malloc() */
	size_t len_bytes;
	uint64_t from_ns, to_ns, ticks;
	unsigned int threads;
};

struct fgt_embed_ops {
	unsigned int version;

	/* Starts one thread that samples this process, and returns after the
	 * first tick. -EPERM, -ENOMEM, -EAGAIN, with why. */
	int (*start)(const struct fgt_embed_options *options,
		     void **ret_recorder, struct fgt_why *why);
	/* Waits for its thread and for running signal handlers. */
	void (*stop)(void *recorder);
	/* Does what fgt_get_slice() does, without waiting for to_ns; with
	 * names. is_transaction: an empty slice instead of -ENODATA. MT-Safe */
	int (*cut)(void *recorder, uint64_t from_ns, uint64_t to_ns,
		   bool is_transaction, struct fgt_slice_file *ret_file);
	/* The memfd of the ring, borrowed: a process with a copy of it can cut
	 * slices after this process has ended. */
	int (*ring_fd)(void *recorder);
	/* The memfd of the span log, borrowed: duplicated if it is another one,
	 * or if the program has closed the recorder's copy. Errno of dup(2).
	 * MT-Safe */
	int (*set_spans)(void *recorder, int spans_fd);
	double (*hz)(void *recorder);
	void (*get_limitation)(void *recorder, char *ret_text, size_t len);
	/* In the child of a fork: closes descriptors only. No other call with
	 * this recorder follows. */
	void (*forked)(void *recorder);

	/* From here on without a recorder. format: enum fgt_format of
	 * fgtrace.h. facts may be NULL, or of no transaction
	 * (fgt_facts_of_transaction()). bytes are checked. MT-Safe */
	int (*write)(const uint8_t *bytes, size_t len_bytes, int format,
		     const struct fgt_transaction_facts *facts, int fd);
	/* Does what fgt_dispatch_text() does; blocks. Errors with why.
	 * ret_wait_s (may be NULL): seconds until the destination accepts the
	 * next request, 0. The first upload loads libcurl. */
	int (*deliver)(const uint8_t *bytes, size_t len_bytes,
		       const char *destination,
		       const struct fgt_upload_limits *limits,
		       const struct fgt_transaction_facts *facts,
		       struct fgt_why *why, unsigned int *ret_wait_s);
	/* Of that destination: what was delivered last, or has not been tried,
	 * is lost; goes into the next report. FGT_DISCARD_QUEUE: so many found
	 * the queue full; others: count is 1. In the thread of deliver. */
	void (*lost)(const char *destination, enum fgt_discard_reason reason,
		     uint32_t count);
	/* fgt_embed_spool_put() of bytes that are checked, and
	 * fgt_embed_spool_send(); see embed_spool.h. Both block. With 0, a why
	 * is a line for the log. */
	int (*spool_put)(const struct fgt_embed_spool *spool,
			 const uint8_t *bytes, size_t len_bytes,
			 const struct fgt_transaction_facts *facts,
			 struct fgt_why *why);
	int (*spool_send)(const struct fgt_embed_spool *spool,
			  struct fgt_why *why, unsigned int *ret_wait_s);
};

/* The only exported symbol. */
const struct fgt_embed_ops *fgt_embed(void);

#endif
