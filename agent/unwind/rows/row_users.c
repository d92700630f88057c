/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the row server of a user, and asks it within what the sampler may wait.
 * Runs in the sampler's thread and in those that attach targets; must not let
 * one user's server delay the ticks of other users.
 */
#include "agent/unwind/rows/row_users.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "agent/children/self_child.h"
#include "ringbuf/base/clock.h"

#define MS_NS UINT64_C(1000000)
/*
 * What the sampler waits for servers: in a turn of about a tick, for one server
 * and for all; in the long run one server has a twentieth of the time. The
 * burst is for the first stacks of a target, whose rules are all unknown.
 */
#define TURN_NS	    (10 * MS_NS)
#define TURN_ONE_NS (7 * MS_NS)
#define TURN_ALL_NS (8 * MS_NS)
#define BURST_NS    (400 * MS_NS)
#define REFILL_PART 20u
/* Three times what an answer takes whose server has to be woken. */
#define PROMPT_NS   UINT64_C(300000)
#define RULES_LEAST ((uint64_t)8 << 20) /* of a server */

/* ---- The list -------------------------------------------------------------- */

/*
 * The better one of two. A free place is better: first the one that the user
 * had before, then one whose former servers have all ended. Servers that hang
 * in a user's file system leave no room for other servers in their place.
 */
static bool is_better(const struct fgt_row_user *a,
		      const struct fgt_row_user *b, uint64_t number)
{
	if (a->is_used != b->is_used)
		return !a->is_used;
	if (!a->is_used && (a->user == number) != (b->user == number))
		return a->user == number;
	if (!a->is_used)
		return a->server.lost_count < b->server.lost_count;
	return a->files != b->files ? a->files < b->files
				    : a->used_ns < b->used_ns;
}

/* Its own place, a free one, or that of the user with the fewest files. Lock
 * held. */
static struct fgt_row_user *find_place(struct fgt_row_servers *servers,
				       uint64_t number)
{
	struct fgt_row_user *found = NULL;

	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++) {
		struct fgt_row_user *user = &servers->users[i];

		if (user->is_used && user->user == number)
			return user;
		if (user->callers || (user->is_used && !user->user))
			continue;
		if (!found || is_better(user, found, number))
			found = user;
	}
	return found;
}

/* Its former user, if any, has no callers. Lock held. */
static void begin_user(struct fgt_row_user *user, uint64_t number)
{
	fgt_row_server_stop(&user->server);
	memset(user->server.blames, 0, sizeof(user->server.blames));
	memset(&user->counts, 0, sizeof(user->counts));
	user->is_used = true;
	user->user = number;
	user->server.uid = (uint32_t)number;
	user->files = 0;
	user->credit_ns = BURST_NS;
	user->credited_ns = 0;
}

/* NULL: all are in use. */
static struct fgt_row_user *get_user(struct fgt_row_servers *servers,
				     uint64_t number, uint64_t now_ns,
				     uint64_t *ret_rules_max)
{
	struct fgt_row_user *user;

	pthread_mutex_lock(&servers->lock);
	user = find_place(servers, number);
	if (user && !(user->is_used && user->user == number))
		begin_user(user, number);
	if (user) {
		user->callers++;
		user->used_ns = now_ns;
		user->sent_max = fgt_row_users_share(servers);
		*ret_rules_max = user->sent_max;
	}
	pthread_mutex_unlock(&servers->lock);
	return user;
}

static void put_user(struct fgt_row_servers *servers, struct fgt_row_user *user,
		     bool has_opened)
{
	pthread_mutex_lock(&servers->lock);
	user->callers--;
	user->files += has_opened;
	pthread_mutex_unlock(&servers->lock);
}

/* Lock held. */
uint64_t fgt_row_users_share(struct fgt_row_servers *servers)
{
	uint64_t count = 0, share;

	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++)
		count += servers->users[i].is_used;
	share = servers->rules_max / (count ? count : 1);
	return share > RULES_LEAST ? share : RULES_LEAST;
}

/* ---- Asking ---------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How long the sampler may wait for that server now. User's lock held. */
static uint64_t allowed_wait(struct fgt_row_servers *servers,
			     struct fgt_row_user *user, uint64_t now_ns)
{
	uint64_t refill = (now_ns - user->credited_ns) / REFILL_PART;

	if (now_ns - servers->turn_ns >= TURN_NS) {
		servers->turn_ns = now_ns;
		servers->waited_ns = 0;
	}
	if (now_ns - user->turn_ns >= TURN_NS) {
		user->turn_ns = now_ns;
		user->waited_ns = 0;
	}
	user->credit_ns = least(BURST_NS, user->credit_ns + refill);
	user->credited_ns = now_ns;
	if (servers->waited_ns >= TURN_ALL_NS || user->waited_ns >= TURN_ONE_NS)
		return 0;
	return least(user->credit_ns, least(TURN_ALL_NS - servers->waited_ns,
					    TURN_ONE_NS - user->waited_ns));
}

static bool is_realtime(void)
{
	return (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
}

/*
 * A server that has not answered in PROMPT_NS waits for a CPU, most often: for
 * the rest of the wait it has the sampler's class, if that is real-time. It must
 * not keep it.
 */
static int ask_with_priority(struct fgt_row_server *server,
			     struct fgt_image_served *file,
			     const struct fgt_rows_request *question,
			     uint64_t now_ns, uint64_t wait_ns,
			     const uint8_t **ret_bytes, size_t *ret_len)
{
	uint64_t prompt_ns = least(PROMPT_NS, wait_ns);
	int r = fgt_row_server_ask(server, file, question, now_ns + prompt_ns,
				   ret_bytes, ret_len);
	bool is_raised;
	int class;

	if (r != -EAGAIN || !server->is_asked || prompt_ns == wait_ns)
		return r;
	is_raised = server->pid && is_realtime() &&
		    fgt_self_child_raise(server->pid, &class) == 0;
	r = fgt_row_server_ask(server, file, question, now_ns + wait_ns,
			       ret_bytes, ret_len);
	/* Unless it was lost meanwhile. */
	if (is_raised && server->pid_fd >= 0 &&
	    fgt_self_child_lower(server->pid, class) < 0)
		fgt_row_server_stop(server);
	return r;
}

static int ask_sampler(struct fgt_row_servers *servers,
		       struct fgt_row_user *user, struct fgt_image_served *file,
		       const struct fgt_rows_request *question, uint64_t now_ns,
		       const uint8_t **ret_bytes, size_t *ret_len)
{
	uint64_t wait_ns = allowed_wait(servers, user, now_ns), took_ns;
	int r;

	if (!wait_ns)
		return -EAGAIN;
	r = ask_with_priority(&user->server, file, question, now_ns, wait_ns,
			      ret_bytes, ret_len);
	took_ns = fgt_clock_ns(CLOCK_MONOTONIC) - now_ns;
	servers->waited_ns += took_ns;
	user->waited_ns += took_ns;
	user->credit_ns -= least(user->credit_ns, took_ns);
	return r;
}

/* While its server starts there is no answer: tried again. */
static int ask_patiently(struct fgt_row_user *user,
			 struct fgt_image_served *file,
			 const struct fgt_rows_request *question,
			 uint64_t until_ns, const uint8_t **ret_bytes,
			 size_t *ret_len)
{
	const struct timespec pause = { .tv_nsec = (long)MS_NS };
	int r;

	for (;;) {
		r = fgt_row_server_ask(&user->server, file, question, until_ns,
				       ret_bytes, ret_len);
		fgt_row_server_start_wanted(&user->server);
		if (r != -EAGAIN || fgt_clock_ns(CLOCK_MONOTONIC) >= until_ns)
			return r;
		nanosleep(&pause, NULL);
	}
}

int fgt_row_users_ask(struct fgt_row_servers *servers,
		      struct fgt_image_served *file, uint32_t verb,
		      uint64_t address, unsigned int wait_ms,
		      struct fgt_row_user **ret_user, const uint8_t **ret_bytes,
		      size_t *ret_len)
{
	struct fgt_rows_request question = { .verb = verb, .address = address };
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	struct fgt_row_user *user =
		get_user(servers, file->user, now_ns, &question.rules_max);
	int r = -EAGAIN;

	if (!user)
		return r;
	/* The sampler does not wait for a thread that waits. */
	if (wait_ms)
		pthread_mutex_lock(&user->lock);
	else if (pthread_mutex_trylock(&user->lock) != 0) {
		put_user(servers, user, false);
		return r;
	}
	r = wait_ms ? ask_patiently(user, file, &question,
				    now_ns + wait_ms * MS_NS, ret_bytes,
				    ret_len)
		    : ask_sampler(servers, user, file, &question, now_ns,
				  ret_bytes, ret_len);
	if (r < 0) {
		fgt_row_users_end(servers, user, false);
		return r;
	}
	*ret_user = user;
	return 0;
}

void fgt_row_users_end(struct fgt_row_servers *servers,
		       struct fgt_row_user *user, bool has_opened)
{
	const struct fgt_rows_counts counts = user->server.counts;
	bool is_wanted = user->server.is_wanted;

	pthread_mutex_unlock(&user->lock);
	if (is_wanted)
		sem_post(&servers->wanted);
	pthread_mutex_lock(&servers->lock);
	user->counts = counts;
	pthread_mutex_unlock(&servers->lock);
	put_user(servers, user, has_opened);
}

static void start_one(struct fgt_row_servers *servers,
		      struct fgt_row_user *user)
{
	bool is_used;

	pthread_mutex_lock(&servers->lock);
	is_used = user->is_used;
	user->callers += is_used;
	pthread_mutex_unlock(&servers->lock);
	if (!is_used)
		return;
	pthread_mutex_lock(&user->lock);
	fgt_row_server_start_wanted(&user->server);
	pthread_mutex_unlock(&user->lock);
	put_user(servers, user, false);
}

void fgt_row_users_start(struct fgt_row_servers *servers)
{
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++)
		start_one(servers, &servers->users[i]);
}
