/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names the frames of one user's programs: a helper, a cache of names, a
 * lock. A file that is slow to read delays the slices of its user only, and one
 * that takes over its helper sees no other user's files. Runs in threads that
 * make slices.
 */
#ifndef FGT_AGENT_SYMBOLS_USER_NAMES_H
#define FGT_AGENT_SYMBOLS_USER_NAMES_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/symbols/checksums.h"
#include "agent/symbols/helper/helper.h"
#include "agent/symbols/names/name_cache.h"
#include "agent/symbols/perfmap.h"

/* More than slices that are named at one time: at most 4 of clients, and one
 * of a delivery. Past this number the user is forgotten whose programs were
 * named least recently. */
#define FGT_USERS_MAX 8

struct fgt_user_names {
	/* These three under the lock of the users. */
	uint32_t uid;
	unsigned int callers; /* it is forgotten only at 0 */
	uint64_t used; /* when: larger is later */
	/* Protects all below; held for one image at a time. The lock of the
	 * image cache nests inside. */
	pthread_mutex_t lock;
	struct fgt_name_cache *cache;
	struct fgt_helper helper;
	struct fgt_checksums checksums;
	struct fgt_memory_sink reply;
	struct fgt_perfmap *perfmap;
	int32_t perfmap_pid;
};

struct fgt_users {
	pthread_mutex_t lock; /* no other lock nests inside */
	struct fgt_user_names *users[FGT_USERS_MAX];
	uint64_t uses;
	atomic_uint count; /* the caches share their bytes */
	struct fgt_helper helper; /* what each helper is before its start */
};

void fgt_users_init(struct fgt_users *users);
/* No user may be in use. */
void fgt_users_done(struct fgt_users *users);

/*
 * The names of a user, made if it is new. -ENOMEM; -EBUSY: FGT_USERS_MAX other
 * users are in use.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_users_get(struct fgt_users *users, uint32_t uid,
		  struct fgt_user_names **ret_user);
void fgt_users_put(struct fgt_users *users, struct fgt_user_names *user);

#endif
