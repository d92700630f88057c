/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that were given up, since a call about a process has not returned:
 * how many each user has, and when the user's processes may be attached again.
 * Pure; the caller has the sampler's mutex.
 */
#ifndef FGT_AGENT_CAPTURE_LOST_H
#define FGT_AGENT_CAPTURE_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

#define FGT_LOST_MAX	  32u /* threads, of all users */
#define FGT_LOST_OF_USERS 24u /* of ordinary users: one may have many ids */
#define FGT_LOST_PER_USER 8u
#define FGT_LOST_USERS	  64u

/* A process whose call has not returned. */
struct fgt_lost {
	int32_t pid;
	uint64_t start_time;
	uint32_t uid;
	uint64_t since_ns;
};

struct fgt_losses {
	struct fgt_lost lost[FGT_LOST_MAX];
	uint32_t count;
	uint64_t total; /* since the start */
	struct fgt_loss_user {
		uint32_t uid;
		uint32_t losses; /* one less for each hour without */
		uint64_t last_ns;
	} users[FGT_LOST_USERS];
	uint32_t user_count;
};

/* False: there are too many already. */
bool fgt_losses_has_room(const struct fgt_losses *losses);
void fgt_losses_add(struct fgt_losses *losses, const struct fgt_lost *lost);
/* Its call has returned. */
void fgt_losses_remove(struct fgt_losses *losses, const struct fgt_lost *lost);

/* Has an ordinary user, or have all, so many that none of its processes is
 * sampled? */
bool fgt_losses_is_excluded(const struct fgt_losses *losses, uint32_t uid,
			    uint64_t now_ns);

/*
 * May a process be attached? -EAGAIN with why: its own call has not returned;
 * or there are too many already, so that this one could not be given up; or the
 * user is excluded; or the user's last loss is too fresh: 1 s after the
 * first one, twice as long after each further one, up to an hour.
 */
int fgt_losses_check(const struct fgt_losses *losses, int32_t pid,
		     uint64_t start_time, uint32_t uid, uint64_t now_ns,
		     struct fgt_why *why);

#endif
