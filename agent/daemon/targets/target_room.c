/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares the memory of rings and the places of the sampler among users, with a
 * part that only root gets. Runs on the thread of jobs; must not let one user's
 * programs cost another user, or root, its rings.
 */
#include <errno.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/targets/target_table.h"
#include "ringbuf/base/memory_limit.h"

#define MIB	  (UINT64_C(1) << 20)
#define RING_MIN  MIB /* fgt_ring_new() */
#define RING_GOOD (8 * MIB) /* smaller: rings of ended programs go first */
#define GOOD_PART 16 /* … or smaller than this part of the total */
/* Of what a user may still use a new ring gets this part at most: the first
 * ones are large, and there is room for many. As many as fit into the total. */
#define PARTS_MIN  4
#define PARTS_MAX  32
#define USER_PART  4 /* of the total: one ordinary user */
#define USERS_FREE 4 /* … and this part all of them leave to root */

/* What is in use now, of whom. */
struct use {
	uint64_t bytes, users_bytes, user_bytes;
	size_t users_live;
	size_t user_rings; /* that count against ring.per_user */
};

uint64_t fgt_target_room_total(const struct fgt_config *config, uint64_t limit)
{
	uint64_t total = (uint64_t)config->ring.total_mb * MIB;

	/* The other half is for all that is no ring. */
	return total && total < limit / 2 ? total : limit / 2;
}

/*
 * Whose share a ring takes: of the user who added it, else of the user whose
 * process was sampled only because its parent is. 0: root's, or that of the
 * user who runs the daemon.
 */
static uint32_t share_of(enum fgt_origin origin, uint32_t charged_uid,
			 uint32_t owner_uid)
{
	if (charged_uid != 0 || origin != FGT_ORIGIN_CHILD)
		return charged_uid;
	return owner_uid == geteuid() ? 0 : owner_uid;
}

static uint32_t entry_share(const struct fgt_target_entry *entry)
{
	struct fgt_program program = { .owner.uid = 0 };

	if (entry->target)
		fgt_target_get_program(entry->target, &program);
	return share_of(entry->origin, entry->charged_uid, program.owner.uid);
}

static struct use count_use(struct fgt_targets *targets, uint32_t uid,
			    uint32_t charged_uid)
{
	const struct fgt_target_table *table = &targets->table;
	struct use use = { 0 };

	for (size_t i = 0; i < table->count; i++) {
		const struct fgt_target_entry *entry = &table->entries[i];
		uint32_t share = entry_share(entry);

		if (!entry->target)
			continue;
		use.bytes += entry->ring_bytes;
		use.user_bytes += share == uid ? entry->ring_bytes : 0;
		use.users_bytes += share ? entry->ring_bytes : 0;
		use.users_live += share && entry->ended_ns == 0;
		use.user_rings += entry->charged_uid == charged_uid;
	}
	return use;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t less(uint64_t have, uint64_t used)
{
	return have > used ? have - used : 0;
}

/* Bytes that this user's rings may still get. */
static uint64_t count_free(uint64_t total, const struct use *use, uint32_t uid)
{
	uint64_t all = less(total, use->bytes), users, user;

	if (uid == 0)
		return all;
	users = less(total - total / USERS_FREE, use->users_bytes);
	user = less(total / USER_PART, use->user_bytes);
	return least(all, least(users, user));
}

/* ---- Rings of ended programs -------------------------------------------- */

/* The one that ended first, of this user or of any other but root.
 * table->count: none. */
static size_t find_ended(struct fgt_targets *targets, uint32_t uid,
			 bool is_any_user)
{
	const struct fgt_target_table *table = &targets->table;
	size_t found = table->count;

	for (size_t i = 0; i < table->count; i++) {
		const struct fgt_target_entry *entry = &table->entries[i];
		uint32_t share = entry_share(entry);

		if (entry->target && entry->ended_ns &&
		    (is_any_user ? share != 0 : share == uid) &&
		    (found == table->count ||
		     entry->ended_ns < table->entries[found].ended_ns))
			found = i;
	}
	return found;
}

/* The user's own go before those of other users, and root's for root only. */
static bool drop_ended(struct fgt_targets *targets, uint32_t uid,
		       bool is_own_only)
{
	size_t index = find_ended(targets, uid, false);

	if (index == targets->table.count && !is_own_only)
		index = find_ended(targets, uid, true);
	if (index == targets->table.count)
		return false;
	fgt_log(FGT_LOG_INFO, "target_dropped",
		"pid %d has ended; its ring makes room for a new one",
		targets->table.entries[index].pid);
	fgt_attaching_remove(targets, index);
	return true;
}

/* The ordinary user with most of them; how many all have. */
static size_t count_ended(struct fgt_targets *targets, uint32_t *ret_most)
{
	const struct fgt_target_table *table = &targets->table;
	size_t all = 0, most = 0;

	for (size_t i = 0; i < table->count; i++) {
		uint32_t uid = entry_share(&table->entries[i]);
		size_t of_user = 0;

		if (!table->entries[i].ended_ns || uid == 0)
			continue;
		all++;
		for (size_t j = 0; j <= i; j++)
			of_user += table->entries[j].ended_ns != 0 &&
				   entry_share(&table->entries[j]) == uid;
		if (of_user <= most)
			continue;
		most = of_user;
		*ret_most = uid;
	}
	return all;
}

void fgt_target_room_drop_ended(struct fgt_targets *targets, uint64_t now_ns)
{
	const struct fgt_target_table *table = &targets->table;
	size_t of_root = 0;
	uint32_t uid = 0;

	for (size_t i = table->count; i-- > 0;)
		if (table->entries[i].ended_ns &&
		    now_ns >= table->entries[i].ended_ns + targets->kept_ns)
			fgt_attaching_remove(targets, i);
	while (count_ended(targets, &uid) > FGT_TARGETS_ENDED_USERS &&
	       drop_ended(targets, uid, true))
		;
	for (size_t i = 0; i < table->count; i++)
		of_root += table->entries[i].ended_ns &&
			   entry_share(&table->entries[i]) == 0;
	while (of_root-- > FGT_TARGETS_ENDED_MAX)
		(void)drop_ended(targets, 0, true);
}

/* ---- A new ring --------------------------------------------------------- */

/* What a new ring needs. */
struct need {
	struct fgt_targets *targets;
	const struct fgt_attach_cause *cause;
	uint32_t uid; /* whose share */
	uint64_t total, wanted; /* bytes */
};

static bool is_full(const struct need *need, const struct use *use)
{
	return need->cause->charged_uid != 0 &&
	       use->user_rings >= (size_t)need->targets->config->ring.per_user;
}

static bool is_crowded(const struct need *need, const struct use *use)
{
	return need->uid != 0 && use->users_live >= FGT_TARGETS_OF_USERS;
}

static uint64_t count_parts(const struct need *need)
{
	uint64_t parts = need->total / need->wanted;

	return parts < PARTS_MIN ? PARTS_MIN : least(parts, PARTS_MAX);
}

/* Drops the ring of an ended program if that gives this one what it lacks. */
static bool make_room(const struct need *need, const struct use *use)
{
	uint64_t good =
		least(least(need->wanted, RING_GOOD), need->total / GOOD_PART);
	uint64_t free_bytes = count_free(need->total, use, need->uid);
	bool is_own_share = need->uid != 0 &&
			    less(need->total / USER_PART, use->user_bytes) ==
				    free_bytes;

	if (is_crowded(need, use))
		return false;
	if (is_full(need, use))
		return drop_ended(need->targets, need->uid, true);
	if (free_bytes / count_parts(need) >= good)
		return false;
	/* Another user's goes only where there is no room at all. */
	return drop_ended(need->targets, need->uid,
			  is_own_share ||
				  (need->uid != 0 && free_bytes >= RING_MIN));
}

static int check(const struct need *need, const struct use *use,
		 struct fgt_why *why)
{
	int per_user = need->targets->config->ring.per_user;

	if (is_full(need, use))
		return fgt_why_set(why, -ENOSPC,
				   "limit of %d targets per user reached "
				   "(ring.per_user): detach one, or let root "
				   "attach it",
				   per_user);
	if (is_crowded(need, use))
		return fgt_why_set(why, -ENOSPC,
				   "limit of %d targets of ordinary users "
				   "reached: detach one, or let root attach it",
				   FGT_TARGETS_OF_USERS);
	if (count_free(need->total, use, need->uid) < RING_MIN)
		return fgt_why_set(why, -ENOSPC,
				   "rings have all the memory that they may "
				   "have%s: detach targets, or raise "
				   "ring.total_mb",
				   need->uid ? " for this user" : "");
	return 0;
}

int fgt_target_room_take(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time,
			 const struct fgt_attach_cause *cause,
			 size_t *ret_ring_bytes, struct fgt_why *why)
{
	const struct fgt_config *config = targets->config;
	struct need need = {
		.targets = targets,
		.cause = cause,
		.total = fgt_target_room_total(config, targets->memory_limit),
		.wanted = (uint64_t)config->ring.memory_mb * MIB,
	};
	struct fgt_owner owner = { .uid = 0 };
	struct use use;
	uint64_t size;
	int r;

	if (cause->origin == FGT_ORIGIN_CHILD && cause->charged_uid == 0)
		(void)fgt_owner_read(pid, start_time, &owner);
	need.uid = share_of(cause->origin, cause->charged_uid, owner.uid);
	do
		use = count_use(targets, need.uid, cause->charged_uid);
	while (make_room(&need, &use));
	r = check(&need, &use, why);
	if (r < 0)
		return r;
	size = count_free(need.total, &use, need.uid) / count_parts(&need);
	*ret_ring_bytes = least(size < RING_MIN ? RING_MIN : size, need.wanted);
	return 0;
}

void fgt_targets_get_room(struct fgt_targets *targets,
			  const struct fgt_config *config,
			  struct fgt_targets_room *ret_room)
{
	const struct fgt_target_table *table = &targets->table;
	struct fgt_targets_room room = {
		.total_bytes =
			fgt_target_room_total(config, targets->memory_limit),
	};

	pthread_mutex_lock(&targets->lock);
	for (size_t i = 0; i < table->count; i++)
		if (table->entries[i].target)
			room.used_bytes += table->entries[i].ring_bytes;
	pthread_mutex_unlock(&targets->lock);
	*ret_room = room;
}
