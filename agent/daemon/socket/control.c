/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts clients of the control socket within limits. Runs in
 * the daemon's loop; must not block.
 */
#include "agent/daemon/socket/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/daemon/loop/assert.h"
#include "agent/daemon/socket/control_client.h"
#include "agent/daemon/socket/passed_fds.h"
#include "agent/daemon/socket/permission.h"

#define MS	    UINT64_C(1000000)
#define BACK_OFF_MS 100
#define SEND_BYTES  32768 /* of kernel memory a client that reads not */
#define TRY_AGAIN   "close one, or try again in a second"

size_t fgt_control_count(const struct fgt_control *control)
{
	return control->count - control->kept_count;
}

/* ---- Limits ------------------------------------------------------------ */

/*
 * The connection of uid that has been silent for longest; any user's if
 * is_any. Newest come first, so the last match is the oldest.
 */
static struct fgt_control_client *oldest_silent(struct fgt_control *control,
						uint32_t uid, bool is_any)
{
	struct fgt_control_client *client, *oldest = NULL;

	LIST_FOREACH(client, &control->clients, link)
		if (client->state == FGT_CLIENT_READS && !client->has_place &&
		    (is_any || client->peer.uid == uid))
			oldest = client;
	return oldest;
}

/* The client has closed its end; the next write to it will fail. */
static bool has_gone(const struct fgt_control_client *client)
{
	struct pollfd poll_fd = { .fd = client->watch.fd };

	return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP);
}

/* Which clients are counted; those with a place never are. */
struct crowd {
	const struct fgt_control *control;
	uint32_t uid;
	bool is_any; /* of all users */
	bool is_asking; /* only those that wait for an answer */
	bool has_no_young; /* only those that are not young */
};

/* Its request has been read. */
static bool has_asked(const struct fgt_control_client *client)
{
	return client->state != FGT_CLIENT_READS &&
	       client->state != FGT_CLIENT_AT_FRONT;
}

static bool is_young(const struct fgt_control_client *client)
{
	return !has_asked(client) &&
	       fgt_loop_now() - client->since_ns < FGT_CONTROL_YOUNG_MS * MS;
}

static bool is_in(const struct crowd *crowd,
		  const struct fgt_control_client *client)
{
	return !client->has_place &&
	       (crowd->is_any || client->peer.uid == crowd->uid) &&
	       !(crowd->is_asking && !has_asked(client)) &&
	       !(crowd->has_no_young && is_young(client));
}

static size_t count(const struct crowd *crowd,
		    bool (*is_wanted)(const struct fgt_control_client *client))
{
	const struct fgt_control_client *client;
	size_t total = 0;

	LIST_FOREACH(client, &crowd->control->clients, link)
		total += is_in(crowd, client) &&
			 (!is_wanted || is_wanted(client));
	return total;
}

/* At the limit closed connections are not counted, so that a client that
 * reconnects at once is not refused because of its last connection. */
static bool is_within(const struct crowd *crowd, size_t limit)
{
	size_t total = count(crowd, NULL), gone;

	if (total < limit)
		return true;
	gone = count(crowd, has_gone);
	return total - gone < limit && gone <= FGT_CONTROL_GONE_MAX;
}

static bool are_too_many_young(const struct crowd *crowd)
{
	return count(crowd, is_young) >= (crowd->is_any
						  ? FGT_CONTROL_YOUNG_MAX
						  : FGT_CONTROL_YOUNG_PER_USER);
}

/* Young clients are not counted, unless there are too many. */
static bool may_come(const struct fgt_control *control, uint32_t uid,
		     bool is_any, size_t limit)
{
	struct crowd crowd = { .control = control,
			       .uid = uid,
			       .is_any = is_any };

	crowd.has_no_young = !are_too_many_young(&crowd);
	return is_within(&crowd, limit);
}

static size_t limit_of_all(uint32_t uid)
{
	return FGT_CONTROL_CLIENTS_MAX - (uid == 0 ? 0 : 1);
}

static void explain(struct fgt_why *why, const char *remedy)
{
	(void)fgt_why_set(why, -EBUSY,
			  "too many connections: %d of one user, %d in all, "
			  "may wait for an answer at once; %s",
			  FGT_CONTROL_PER_USER, FGT_CONTROL_CLIENTS_MAX,
			  remedy);
}

bool fgt_control_client_may_ask(const struct fgt_control_client *client,
				struct fgt_why *why)
{
	struct crowd crowd = { .control = client->control,
			       .uid = client->peer.uid,
			       .is_asking = true };
	bool is_allowed;

	if (client->has_place)
		return true;
	is_allowed = client->peer.uid == 0 ||
		     is_within(&crowd, FGT_CONTROL_PER_USER);
	crowd.is_any = true;
	is_allowed &= is_within(&crowd, limit_of_all(client->peer.uid));
	if (!is_allowed)
		explain(why, TRY_AGAIN);
	return is_allowed;
}

void fgt_control_turn_away(int fd, int error, const char *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *frame;
	size_t len;

	if (fgt_builder_new_error(error, why, &builder) < 0 ||
	    fgt_builder_finish(builder, &frame, &len) < 0)
		frame = fgt_builder_no_memory(&len);
	(void)!send(fd, frame, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void turn_away(int fd, const char *remedy)
{
	struct fgt_why why;

	explain(&why, remedy);
	fgt_control_turn_away(fd, -EBUSY, why.text);
}

/*
 * Is there room for one more of this user? A user who has used up the limit
 * loses the connection that has asked nothing for longest, so that half-open
 * ones keep no client out; root may take any user's. A young one is kept,
 * unless there are too many of them.
 */
static bool has_room(struct fgt_control *control, uint32_t uid)
{
	struct fgt_control_client *client;

	if ((uid == 0 || may_come(control, uid, false, FGT_CONTROL_PER_USER)) &&
	    may_come(control, uid, true, limit_of_all(uid)))
		return true;
	client = oldest_silent(control, uid, uid == 0);
	if (!client || (uid != 0 && is_young(client) &&
			!are_too_many_young(&(struct crowd){ .control = control,
							     .uid = uid })))
		return false;
	turn_away(client->watch.fd, "this one asked nothing for longest: "
				    "connect again");
	fgt_control_close(client);
	return true;
}

/* ---- Those that stay --------------------------------------------------- */

static size_t count_kept(const struct fgt_control *control, uint32_t uid)
{
	const struct fgt_control_client *client;
	size_t count = 0;

	LIST_FOREACH(client, &control->clients, link)
		count += client->peer.uid == uid && client->has_place;
	return count;
}

int fgt_control_reserve(struct fgt_control_client *client)
{
	struct fgt_control *control = client->control;

	if (control->kept_count >= FGT_CONTROL_KEPT_MAX ||
	    (client->peer.uid != 0 && count_kept(control, client->peer.uid) >=
					      FGT_CONTROL_KEPT_PER_USER))
		return -EUSERS;
	client->has_place = true;
	control->kept_count++;
	return 0;
}

void fgt_control_keep(struct fgt_control_client *client,
		      const struct fgt_control_keeper *keeper)
{
	client->keeper = *keeper;
}

/* ---- Connections --------------------------------------------------------- */

static struct fgt_peer peer_of(const struct fgt_control *control, int fd,
			       const struct ucred *ids)
{
	FGT_AUTO(fgt_fd_close) int pid_fd = -1;

	if (ids->uid == 0)
		pid_fd = fgt_control_peer_pidfd(fd, ids->pid);
	return (struct fgt_peer){
		.pid = ids->pid,
		.uid = ids->uid,
		.gid = ids->gid,
		.is_root = fgt_peer_is_root(ids->pid, ids->uid, pid_fd),
		.is_stranger = fgt_uid_is_of_strangers(ids->uid),
		.since_ns = control->empty_ns,
	};
}

void fgt_control_look(struct fgt_control *control)
{
	struct pollfd poll_fd = { .fd = control->listener->fd,
				  .events = POLLIN };
	uint64_t now_ns = fgt_loop_now();

	if (poll(&poll_fd, 1, 0) == 0)
		control->empty_ns = now_ns;
}

void fgt_control_tend(struct fgt_control *control)
{
	fgt_control_look(control);
	fgt_fronts_tend(control->fronts);
}

static int add_client(struct fgt_control *control, int fd,
		      const struct ucred *peer,
		      struct fgt_control_client **ret_client)
{
	struct fgt_control_client *client = calloc(1, sizeof(*client));
	const int send_bytes = SEND_BYTES;
	int r;

	if (!client)
		return -ENOMEM;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes,
			 sizeof(send_bytes));
	client->control = control;
	client->peer = peer_of(control, fd, peer);
	client->reading = (struct fgt_reading){
		.done = fgt_control_client_asks,
		.context = client,
		.uid = client->peer.uid == 0 && !client->peer.is_root
			       ? FGT_FRONT_OTHER_ROOT
			       : client->peer.uid,
	};
	client->keeper.handle = control->options.handle;
	client->keeper.context = control->options.context;
	client->since_ns = fgt_loop_now();
	client->watch = (struct fgt_watch){ .fd = fd,
					    .ready = fgt_control_client_ready,
					    .context = client };
	client->timer =
		(struct fgt_timer){ .expired = fgt_control_client_expired,
				    .context = client };
	r = fgt_loop_watch(control->loop, &client->watch, EPOLLIN);
	if (r < 0) {
		free(client);
		return r;
	}
	LIST_INSERT_HEAD(&control->clients, client, link);
	control->count++;
	fgt_loop_arm(control->loop, &client->timer,
		     fgt_loop_now() + control->options.request_timeout_ms * MS);
	*ret_client = client;
	return 0;
}

/* NULL: it has been sent away. */
static struct fgt_control_client *admit(struct fgt_control *control, int fd)
{
	struct fgt_control_client *client = NULL;
	struct ucred peer;
	socklen_t len = sizeof(peer);
	const int on = 1;
	int r;

	/* Else a byte out of band is dropped unseen, with its descriptors. */
	(void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
	/* fgt_passed_fds_look() leaves room for them only. */
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
		fgt_connection_close(fd);
		return NULL;
	}
	if (!has_room(control, peer.uid)) {
		turn_away(fd, TRY_AGAIN);
		fgt_connection_close(fd);
		return NULL;
	}
	r = add_client(control, fd, &peer, &client);
	if (r < 0) {
		fgt_control_turn_away(fd, r, "the agent is " FGT_NO_MEMORY);
		fgt_connection_close(fd);
	}
	return client;
}

void fgt_control_adopt(struct fgt_control *control, int fd, uint32_t front_uid,
		       void (*handle)(void *context,
				      struct fgt_control_client *client,
				      const struct fgt_request *request),
		       void *context)
{
	struct fgt_control_client *client = admit(control, fd);

	if (!client)
		return;
	client->is_adopted = true;
	client->reading.uid = front_uid;
	client->keeper.handle = handle;
	client->keeper.context = context;
}

bool fgt_control_is_adopted(const struct fgt_control_client *client)
{
	return client->is_adopted;
}

static void back_off_expired(void *context)
{
	struct fgt_control *control = context;

	(void)fgt_loop_watch(control->loop, &control->watch, EPOLLIN);
}

static void listener_ready(void *context, uint32_t events)
{
	struct fgt_control *control = context;
	int fd;
	int r = fgt_listener_accept(control->listener, &fd);

	(void)events;
	if (r == 0) {
		(void)admit(control, fd);
		fgt_control_look(control);
	} else if (r == -EMFILE) {
		/* A connection that waits would wake the loop without end. */
		fgt_loop_unwatch(control->loop, &control->watch);
		fgt_loop_arm(control->loop, &control->back_off,
			     fgt_loop_now() + BACK_OFF_MS * MS);
	}
}

void fgt_control_dispatch(void *context, struct fgt_control_client *client,
			  const struct fgt_request *request)
{
	const struct fgt_control_verb *verbs = context;
	const struct fgt_control_verb *verb = &verbs[request->verb];

	/* fgt_request_is_valid(): it is one of the first of a connection. */
	FGT_ASSERT(request->verb < FGT_REQUEST_VERBS && verb->handle);
	verb->handle(verb->context, client, request);
}

int fgt_control_new(struct fgt_loop *loop, struct fgt_listener *listener,
		    const struct fgt_control_options *options,
		    struct fgt_control **ret_control)
{
	FGT_AUTO(fgt_control_free) struct fgt_control *control = NULL;
	int r;

	control = calloc(1, sizeof(*control));
	if (!control)
		return -ENOMEM;
	control->loop = loop;
	control->options = *options;
	if (control->options.request_timeout_ms == 0)
		control->options.request_timeout_ms = 5000;
	if (control->options.stall_timeout_ms == 0)
		control->options.stall_timeout_ms = 30000;
	control->back_off = (struct fgt_timer){ .expired = back_off_expired,
						.context = control };
	control->listener = listener;
	control->watch = (struct fgt_watch){ .fd = listener->fd,
					     .ready = listener_ready,
					     .context = control };
	control->options.fronts.timeout_ms =
		control->options.request_timeout_ms;
	r = fgt_fronts_new(loop, &control->options.fronts, &control->fronts);
	if (r == 0)
		r = fgt_loop_watch(loop, &control->watch, EPOLLIN);
	if (r < 0)
		return r;
	*ret_control = FGT_TAKE(control);
	return 0;
}

void fgt_control_leave(struct fgt_control *control)
{
	struct fgt_control_client *client = LIST_FIRST(&control->clients);

	fgt_loop_unwatch(control->loop, &control->watch);
	fgt_loop_disarm(control->loop, &control->back_off);
	while (client) {
		struct fgt_control_client *next = LIST_NEXT(client, link);

		if (client->state == FGT_CLIENT_READS) {
			fgt_control_turn_away(client->watch.fd, -ESHUTDOWN,
					      FGT_AGENT_IS_LEAVING);
			fgt_control_close(client);
		}
		client = next;
	}
}

void fgt_control_free(struct fgt_control *control)
{
	if (!control)
		return;
	fgt_loop_unwatch(control->loop, &control->watch);
	fgt_loop_disarm(control->loop, &control->back_off);
	while (!LIST_EMPTY(&control->clients))
		fgt_control_close(LIST_FIRST(&control->clients));
	fgt_fronts_free(control->fronts);
	free(control);
}
