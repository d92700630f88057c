/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row server, seen from the sampler's process: its start, a question and
 * its answer, its end. At most one question is under way; one whose answer was
 * late stays so, and is waited for first when it or another one is asked.
 *
 * MT-Unsafe for one server | AS-Unsafe
 */
#ifndef FGT_AGENT_UNWIND_ROWS_ROW_SERVER_H
#define FGT_AGENT_UNWIND_ROWS_ROW_SERVER_H

#include <stdbool.h>

#include "agent/unwind/maps/image_server.h"
#include "agent/unwind/rows/rows_wire.h"

/* A server that has not answered for so long is killed. */
#define FGT_ROW_SERVER_ANSWER_MAX_NS UINT64_C(1000000000)

#define FGT_ROW_SERVER_BLAMES 32u
#define FGT_ROW_SERVER_LOST   4u

struct fgt_row_server {
	const char *path; /* what to execute, NULL: /proc/self/exe */
	int fd; /* -1: not running */
	int pid_fd;
	int32_t pid; /* of that; 0: unknown */
	uint32_t uid; /* whose files it reads: for the log */
	uint64_t begun_ns; /* names this process of it: files' opened_by */
	uint64_t start_ns; /* not started again before */
	unsigned int losses; /* in a row */
	bool is_wanted; /* it was asked while it did not run */
	/* Killed, and not ended yet: a file system may hold them for ever. */
	int lost[FGT_ROW_SERVER_LOST];
	unsigned int lost_count;
	bool is_asked; /* the question under way: */
	struct fgt_rows_request request;
	uint64_t asked_ns;
	uint32_t number;
	/* Of this process of it and its former ones: what it reported. */
	struct fgt_rows_counts counts, former;
	/* Files that servers died of: not asked about before until_ns. */
	struct fgt_row_blame {
		uint64_t image; /* 0: empty */
		uint64_t until_ns;
		unsigned int failures, pauses;
	} blames[FGT_ROW_SERVER_BLAMES];
	unsigned int blame_turn;
	uint8_t *reply; /* [FGT_ROWS_REPLY_MAX] */
};

/* -ENOMEM */
int fgt_row_server_init(struct fgt_row_server *server, const char *path);
/* Ends it; waits for it only if it can be killed. */
void fgt_row_server_done(struct fgt_row_server *server);

/*
 * Asks one that runs; else is_wanted is set. question: verb, address and
 * rules_max; number and image are filled in here. until_ns (CLOCK_MONOTONIC):
 * the end of the wait. On success *ret_bytes[*ret_len] is what followed the
 * reply's head, valid until the next call. -EAGAIN: there is no answer yet, or
 * none can be had; otherwise the reply's error.
 */
int fgt_row_server_ask(struct fgt_row_server *server,
		       struct fgt_image_served *file,
		       const struct fgt_rows_request *question,
		       uint64_t until_ns, const uint8_t **ret_bytes,
		       size_t *ret_len);

/* Starts one that is wanted, if it may be started again already. Waits until
 * the new process has executed this program. */
void fgt_row_server_start_wanted(struct fgt_row_server *server);

/* Sends a request that has no reply, if there is room for it. */
void fgt_row_server_post(struct fgt_row_server *server,
			 const struct fgt_rows_request *request);

/* Once a second: kills one that does not answer, forgets those that ended. */
void fgt_row_server_tend(struct fgt_row_server *server, uint64_t now_ns);

/* Kills it, and forgets what it was asked. */
void fgt_row_server_stop(struct fgt_row_server *server);

#endif
