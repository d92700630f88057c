/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users that have row servers, and what the sampler may wait for each.
 */
#ifndef FGT_AGENT_UNWIND_ROWS_ROW_USERS_H
#define FGT_AGENT_UNWIND_ROWS_ROW_USERS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "agent/unwind/rows/row_server.h"

#define FGT_ROW_USERS_MAX 16u

struct fgt_row_user {
	/* Under the lock of all. */
	uint64_t user; /* fgt_maps_user() */
	bool is_used;
	unsigned int callers; /* it is given to another user only at 0 */
	uint64_t used_ns;
	uint64_t sent_max; /* bytes of rules that its server may keep */
	uint64_t files; /* that were opened and not forgotten */
	/* What its server reported last; without one, nothing but the counts
	 * of what it refused and gave back. */
	struct fgt_rows_counts counts;
	/* Protects the rest; held while an answer is waited for. Nests inside
	 * no lock, and no other lock inside it. */
	pthread_mutex_t lock;
	struct fgt_row_server server;
	/* Of the sampler's waits: in this turn; what is left of its part. */
	uint64_t turn_ns, waited_ns;
	uint64_t credit_ns, credited_ns;
};

struct fgt_row_servers {
	/* Protects the list; nests inside that of the image cache, and nothing
	 * nests inside it but trylock of a user's. */
	pthread_mutex_t lock;
	struct fgt_row_user users[FGT_ROW_USERS_MAX];
	uint64_t rules_max;
	/*
	 * Starts servers, since the sampler must not wait for that: wakes where
	 * one is wanted, and to end.
	 */
	pthread_t starter;
	sem_t wanted;
	atomic_bool is_ending;
	/* The sampler's thread only: */
	uint64_t turn_ns, waited_ns; /* for all, in this turn */
	uint8_t rule[FGT_ROWS_INSTRUCTIONS_MAX]; /* of the last get_rule() */
};

/*
 * Asks the server of the file's user. wait_ms: how long to wait for it, 0: as
 * briefly as the sampler may, in its thread. On 0 the user's lock is held,
 * which protects *ret_bytes, until fgt_row_users_end(). Errors of
 * fgt_row_server_ask().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_row_users_ask(struct fgt_row_servers *servers,
		      struct fgt_image_served *file, uint32_t verb,
		      uint64_t address, unsigned int wait_ms,
		      struct fgt_row_user **ret_user, const uint8_t **ret_bytes,
		      size_t *ret_len);
/* What each server may keep of unwind rules: they share what all may. The
 * list's lock held. */
uint64_t fgt_row_users_share(struct fgt_row_servers *servers);

/* Starts the servers that are wanted. For the starter. */
void fgt_row_users_start(struct fgt_row_servers *servers);

/* has_opened: the user has one more file. */
void fgt_row_users_end(struct fgt_row_servers *servers,
		       struct fgt_row_user *user, bool has_opened);

#endif
