/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what names the programs of a user. Runs in threads that make slices;
 * must not forget a user that is in use.
 */
#include "agent/symbols/user_names.h"

#include <errno.h>
#include <stdlib.h>

static void free_user(struct fgt_user_names *user)
{
	if (!user)
		return;
	fgt_helper_stop(&user->helper);
	fgt_name_cache_free(user->cache);
	fgt_perfmap_free(user->perfmap);
	fgt_memory_sink_done(&user->reply);
	pthread_mutex_destroy(&user->lock);
	free(user);
}

void fgt_users_init(struct fgt_users *users)
{
	pthread_mutex_init(&users->lock, NULL);
	users->helper = FGT_HELPER_NONE;
}

void fgt_users_done(struct fgt_users *users)
{
	for (size_t i = 0; i < FGT_USERS_MAX; i++)
		free_user(users->users[i]);
	pthread_mutex_destroy(&users->lock);
}

static int new_user(struct fgt_users *users, uint32_t uid,
		    struct fgt_user_names **ret_user)
{
	struct fgt_user_names *user = calloc(1, sizeof(*user));

	if (!user)
		return -ENOMEM;
	pthread_mutex_init(&user->lock, NULL);
	fgt_memory_sink_init(&user->reply, FGT_HELPER_REPLY_MAX);
	user->helper = users->helper;
	user->helper.uid = uid;
	user->uid = uid;
	user->cache = fgt_name_cache_new(&users->count);
	if (!user->cache) {
		free_user(user);
		return -ENOMEM;
	}
	*ret_user = user;
	return 0;
}

/* The place of a user: its own, a free one, or that of the user that was used
 * least recently. NULL: all are in use. Lock held. */
static struct fgt_user_names **find_place(struct fgt_users *users, uint32_t uid)
{
	struct fgt_user_names **found = NULL;

	for (size_t i = 0; i < FGT_USERS_MAX; i++) {
		struct fgt_user_names **place = &users->users[i];

		if (*place && (*place)->uid == uid)
			return place;
		if (!*place)
			found = place;
		else if (!(*place)->callers &&
			 (!found ||
			  (*found && (*place)->used < (*found)->used)))
			found = place;
	}
	return found;
}

/* A new user's cache gets its share of what the other caches had. Lock held. */
static void make_room(struct fgt_users *users)
{
	for (size_t i = 0; i < FGT_USERS_MAX; i++)
		if (users->users[i] && !users->users[i]->callers)
			fgt_name_cache_trim(users->users[i]->cache);
}

/* Lock held. */
static int find_user(struct fgt_users *users, uint32_t uid,
		     struct fgt_user_names **ret_user)
{
	struct fgt_user_names **place = find_place(users, uid), *user;
	int error;

	if (!place)
		return -EBUSY;
	if (!*place || (*place)->uid != uid) {
		error = new_user(users, uid, &user);
		if (error)
			return error;
		if (!*place)
			atomic_fetch_add_explicit(&users->count, 1,
						  memory_order_relaxed);
		free_user(*place);
		*place = user;
		make_room(users);
	}
	*ret_user = *place;
	return 0;
}

int fgt_users_get(struct fgt_users *users, uint32_t uid,
		  struct fgt_user_names **ret_user)
{
	int error;

	pthread_mutex_lock(&users->lock);
	error = find_user(users, uid, ret_user);
	if (!error) {
		(*ret_user)->callers++;
		(*ret_user)->used = ++users->uses;
	}
	pthread_mutex_unlock(&users->lock);
	return error;
}

void fgt_users_put(struct fgt_users *users, struct fgt_user_names *user)
{
	pthread_mutex_lock(&users->lock);
	user->callers--;
	pthread_mutex_unlock(&users->lock);
}
