/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts threads that were given up. Runs with the sampler's mutex.
 */
#include "agent/capture/lost.h"

#include <errno.h>
#include <stddef.h>

#define SECOND_NS   UINT64_C(1000000000)
#define HOUR_NS	    (3600 * SECOND_NS)
#define DOUBLED_MAX 11u /* 2,048 s */

bool fgt_losses_has_room(const struct fgt_losses *losses)
{
	return losses->count < FGT_LOST_MAX;
}

static const struct fgt_loss_user *find_user(const struct fgt_losses *losses,
					     uint32_t uid)
{
	for (uint32_t i = 0; i < losses->user_count; i++)
		if (losses->users[i].uid == uid)
			return &losses->users[i];
	return NULL;
}

/* The one whose last loss is the oldest makes room. */
static struct fgt_loss_user *add_user(struct fgt_losses *losses, uint32_t uid)
{
	struct fgt_loss_user *place = &losses->users[0];

	if (losses->user_count < FGT_LOST_USERS)
		place = &losses->users[losses->user_count++];
	else
		for (uint32_t i = 1; i < FGT_LOST_USERS; i++)
			if (losses->users[i].last_ns < place->last_ns)
				place = &losses->users[i];
	*place = (struct fgt_loss_user){ .uid = uid };
	return place;
}

/* One less for each hour since the last. */
static uint32_t losses_of(const struct fgt_loss_user *user, uint64_t now_ns)
{
	uint64_t hours = (now_ns - user->last_ns) / HOUR_NS;

	return hours < user->losses ? user->losses - (uint32_t)hours : 0;
}

void fgt_losses_add(struct fgt_losses *losses, const struct fgt_lost *lost)
{
	struct fgt_loss_user *user =
		(struct fgt_loss_user *)find_user(losses, lost->uid);

	if (!user)
		user = add_user(losses, lost->uid);
	user->losses = losses_of(user, lost->since_ns) + 1;
	user->last_ns = lost->since_ns;
	losses->lost[losses->count++] = *lost;
	losses->total++;
}

static bool is_same(const struct fgt_lost *lost, int32_t pid,
		    uint64_t start_time)
{
	return lost->pid == pid && lost->start_time == start_time;
}

void fgt_losses_remove(struct fgt_losses *losses, const struct fgt_lost *lost)
{
	for (uint32_t i = 0; i < losses->count; i++) {
		if (!is_same(&losses->lost[i], lost->pid, lost->start_time))
			continue;
		losses->lost[i] = losses->lost[--losses->count];
		return;
	}
}

bool fgt_losses_is_excluded(const struct fgt_losses *losses, uint32_t uid,
			    uint64_t now_ns)
{
	const struct fgt_loss_user *user = find_user(losses, uid);

	return uid != 0 &&
	       (losses->count >= FGT_LOST_OF_USERS ||
		(user && losses_of(user, now_ns) >= FGT_LOST_PER_USER));
}

/* 0: none. */
static uint64_t pause_ns(const struct fgt_losses *losses, uint32_t uid,
			 uint64_t now_ns)
{
	const struct fgt_loss_user *user = find_user(losses, uid);
	uint32_t doubled = user ? losses_of(user, now_ns) : 0;
	uint64_t until_ns;

	if (!doubled)
		return 0;
	if (--doubled > DOUBLED_MAX)
		doubled = DOUBLED_MAX;
	until_ns = user->last_ns + (SECOND_NS << doubled);
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

int fgt_losses_check(const struct fgt_losses *losses, int32_t pid,
		     uint64_t start_time, uint32_t uid, uint64_t now_ns,
		     struct fgt_why *why)
{
	uint64_t left_ns = pause_ns(losses, uid, now_ns);

	for (uint32_t i = 0; i < losses->count; i++)
		if (is_same(&losses->lost[i], pid, start_time))
			return fgt_why_set(
				why, -EAGAIN,
				"process %d does not let itself be "
				"read: a call has not returned for "
				"%.0f s: end what its memory or "
				"file system waits for",
				pid,
				(double)(now_ns - losses->lost[i].since_ns) /
					SECOND_NS);
	if (!fgt_losses_has_room(losses) ||
	    (uid != 0 && losses->count >= FGT_LOST_OF_USERS))
		return fgt_why_set(why, -EAGAIN,
				   "%u processes do not let themselves be "
				   "read: end what their memory or file "
				   "systems wait for",
				   losses->count);
	if (fgt_losses_is_excluded(losses, uid, now_ns))
		return fgt_why_set(why, -EAGAIN,
				   "%u processes of user %u did not let "
				   "themselves be read: try again in an hour",
				   FGT_LOST_PER_USER, uid);
	if (left_ns)
		return fgt_why_set(why, -EAGAIN,
				   "a process of user %u did not let itself be "
				   "read: try again in %.0f s",
				   uid, (double)left_ns / SECOND_NS + 1);
	return 0;
}
