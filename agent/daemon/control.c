/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts, reads and answers clients of the control socket. Runs in the
 * daemon's loop; must not block and must not believe a length before the
 * bytes are there.
 */
#include "agent/daemon/control.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/daemon/reply.h"

#define LENGTH_BYTES	 4
#define READ_FIRST_BYTES 1024
#define MS		 UINT64_C(1000000)
#define BACK_OFF_MS	 100
#define SEND_BYTES	 32768 /* of kernel memory a client that reads not */

enum client_state {
	CLIENT_READS, /* its request is not complete */
	CLIENT_PARKED, /* somebody will answer */
	CLIENT_LENT, /* another thread answers */
	CLIENT_WRITES, /* its reply is on the way */
};

struct fgt_control_client {
	struct fgt_control *control;
	struct fgt_control_client *next, *previous;
	struct fgt_peer peer;
	enum client_state state;
	struct fgt_watch watch;
	struct fgt_timer timer;
	uint8_t *bytes; /* the request with its length, or the reply */
	size_t len, capacity, written;
	void (*gone)(void *context);
	void *gone_context;
};

struct fgt_control {
	struct fgt_loop *loop;
	struct fgt_control_options options;
	struct fgt_listener *listener;
	struct fgt_watch watch; /* of the listener */
	struct fgt_timer back_off;
	struct fgt_control_client *clients; /* newest first */
	size_t count;
};

static void close_client(struct fgt_control_client *client)
{
	struct fgt_control *control = client->control;

	fgt_loop_unwatch(control->loop, &client->watch);
	fgt_loop_disarm(control->loop, &client->timer);
	fgt_fd_close(client->watch.fd);
	if (client->previous)
		client->previous->next = client->next;
	else
		control->clients = client->next;
	if (client->next)
		client->next->previous = client->previous;
	control->count--;
	free(client->bytes);
	free(client);
}

const struct fgt_peer *fgt_control_peer(const struct fgt_control_client *client)
{
	return &client->peer;
}

size_t fgt_control_count(const struct fgt_control *control)
{
	return control->count;
}

/* ---- Replies ----------------------------------------------------------- */

static void arm_stall(struct fgt_control_client *client)
{
	struct fgt_control *control = client->control;

	fgt_loop_arm(control->loop, &client->timer,
		     fgt_loop_now() + control->options.stall_timeout_ms * MS);
}

static void write_reply(struct fgt_control_client *client)
{
	while (client->written < client->len) {
		ssize_t n = send(client->watch.fd,
				 client->bytes + client->written,
				 client->len - client->written,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			client->written += (size_t)n;
			arm_stall(client);
		} else if (n < 0 && errno == EAGAIN) {
			if (fgt_loop_watch(client->control->loop,
					   &client->watch, EPOLLOUT) < 0)
				break;
			return;
		} else if (n == 0 || errno != EINTR) {
			break;
		}
	}
	close_client(client);
}

/* Takes the bytes; writes what the kernel takes at once. */
static void start_reply(struct fgt_control_client *client, uint8_t *bytes,
			size_t len)
{
	free(client->bytes);
	client->bytes = bytes;
	client->len = len;
	client->written = 0;
	client->state = CLIENT_WRITES;
	client->gone = NULL;
	arm_stall(client);
	write_reply(client);
}

void fgt_control_reply(struct fgt_control_client *client,
		       struct fgt_builder *reply)
{
	const uint8_t *frame;
	uint8_t *bytes;
	size_t len;
	int r = fgt_builder_finish(reply, &frame, &len);

	bytes = r == 0 ? malloc(len) : NULL;
	if (!bytes) {
		close_client(client);
		return;
	}
	memcpy(bytes, frame, len);
	start_reply(client, bytes, len);
}

void fgt_control_fail(struct fgt_control_client *client, int error,
		      const char *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	if (fgt_reply_new_error(error, why, &builder) < 0)
		close_client(client);
	else
		fgt_control_reply(client, builder);
}

void fgt_control_park(struct fgt_control_client *client,
		      void (*gone)(void *context), void *context)
{
	client->state = CLIENT_PARKED;
	client->gone = gone;
	client->gone_context = context;
	/* No events: a hang-up is told all the same. */
	(void)fgt_loop_watch(client->control->loop, &client->watch, 0);
}

int fgt_control_lend(struct fgt_control_client *client)
{
	client->state = CLIENT_LENT;
	client->gone = NULL;
	fgt_loop_unwatch(client->control->loop, &client->watch);
	return client->watch.fd;
}

void fgt_control_return(struct fgt_control_client *client)
{
	close_client(client);
}

/* ---- Requests ---------------------------------------------------------- */

static void handle_frame(struct fgt_control_client *client)
{
	struct fgt_control *control = client->control;
	FGT_AUTO(fgt_message_free) struct fgt_message *request = NULL;
	int r;

	fgt_loop_disarm(control->loop, &client->timer);
	/* One request a connection: whatever else it sends is not read. */
	(void)fgt_loop_watch(control->loop, &client->watch, 0);
	r = fgt_message_decode(client->bytes + LENGTH_BYTES,
			       client->len - LENGTH_BYTES, &request);
	free(FGT_TAKE(client->bytes));
	client->len = client->capacity = 0;
	if (r == -ENOMEM)
		fgt_control_fail(client, r, "the agent is out of memory");
	else if (r < 0)
		fgt_control_fail(client, r,
				 "malformed request: not one "
				 "msgpack map as the protocol has");
	else
		control->options.handle(control->options.context, client,
					request);
}

/* The bytes that the frame still lacks, the length's own first. */
static int missing_bytes(const struct fgt_control_client *client,
			 size_t *ret_len)
{
	size_t body;

	if (client->len < LENGTH_BYTES) {
		*ret_len = LENGTH_BYTES - client->len;
		return 0;
	}
	body = (size_t)client->bytes[0] << 24 | (size_t)client->bytes[1] << 16 |
	       (size_t)client->bytes[2] << 8 | client->bytes[3];
	if (body == 0 || body > FGT_PROTOCOL_REQUEST_MAX)
		return -EMSGSIZE;
	*ret_len = body + LENGTH_BYTES - client->len;
	return 0;
}

/* Memory grows with the bytes that came, never with the length they claim. */
static int make_room(struct fgt_control_client *client)
{
	size_t capacity = client->capacity * 2;
	uint8_t *bytes;

	if (client->len < client->capacity)
		return 0;
	if (capacity == 0)
		capacity = READ_FIRST_BYTES;
	bytes = realloc(client->bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	client->bytes = bytes;
	client->capacity = capacity;
	return 0;
}

/*
 * One read. Without a control buffer the kernel drops descriptors that a
 * client passes (FAULTS C5). 1: the frame is complete; 0: not yet.
 */
static int read_some(struct fgt_control_client *client)
{
	size_t want;
	ssize_t n;
	int r = make_room(client);

	if (r < 0)
		return r;
	r = missing_bytes(client, &want);
	if (r < 0)
		return r;
	if (want > client->capacity - client->len)
		want = client->capacity - client->len;
	n = recv(client->watch.fd, client->bytes + client->len, want,
		 MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	client->len += (size_t)n;
	r = missing_bytes(client, &want);
	return r < 0 ? r : client->len > LENGTH_BYTES && want == 0;
}

static void client_ready(void *context, uint32_t events)
{
	struct fgt_control_client *client = context;
	int r;

	if (client->state == CLIENT_WRITES) {
		write_reply(client);
		return;
	}
	if (client->state == CLIENT_PARKED) {
		if (!(events & (EPOLLHUP | EPOLLERR)))
			return;
		client->gone(client->gone_context);
		close_client(client);
		return;
	}
	r = read_some(client);
	if (r > 0)
		handle_frame(client);
	else if (r == -EMSGSIZE)
		fgt_control_fail(client, r,
				 "request frames are 1 byte to 1 MiB long");
	else if (r == -ENOMEM)
		fgt_control_fail(client, r, "the agent is out of memory");
	else if (r < 0)
		close_client(client);
}

static void client_expired(void *context)
{
	struct fgt_control_client *client = context;

	if (client->state == CLIENT_READS)
		fgt_control_fail(client, -ETIMEDOUT,
				 "the request was not complete in time");
	else
		close_client(client); /* it does not read its reply */
}

/* ---- Who may come in --------------------------------------------------- */

/*
 * The connection of uid that has been silent for longest; any user's if
 * is_any. Newest come first, so the last match is the oldest.
 */
static struct fgt_control_client *oldest_silent(struct fgt_control *control,
						uint32_t uid, bool is_any)
{
	struct fgt_control_client *oldest = NULL;
	struct fgt_control_client *client = control->clients;

	for (; client; client = client->next)
		if (client->state == CLIENT_READS &&
		    (is_any || client->peer.uid == uid))
			oldest = client;
	return oldest;
}

/*
 * Is there room for one more of this user? A user who has used up the limit
 * loses the connection that has asked nothing for longest, so that half-open
 * ones keep nobody out; root may send anybody's away.
 */
static bool has_room(struct fgt_control *control, uint32_t uid)
{
	size_t limit = FGT_CONTROL_CLIENTS_MAX - (uid == 0 ? 0 : 1);
	struct fgt_control_client *client;
	size_t count = 0;

	for (client = control->clients; client; client = client->next)
		count += client->peer.uid == uid;
	if ((uid == 0 || count < FGT_CONTROL_PER_USER) &&
	    control->count < limit)
		return true;
	client = oldest_silent(control, uid, uid == 0);
	if (!client)
		return false;
	fgt_reply_turn_away(client->watch.fd, -EBUSY,
			    "too many connections: this one asked nothing for "
			    "longest");
	close_client(client);
	return true;
}

static int get_peer(int fd, struct fgt_peer *ret_peer)
{
	struct ucred credentials;
	socklen_t len = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) < 0)
		return -errno;
	ret_peer->pid = credentials.pid;
	ret_peer->uid = credentials.uid;
	ret_peer->gid = credentials.gid;
	return 0;
}

static int add_client(struct fgt_control *control, int fd,
		      const struct fgt_peer *peer)
{
	struct fgt_control_client *client = calloc(1, sizeof(*client));
	const int send_bytes = SEND_BYTES;
	int r;

	if (!client)
		return -ENOMEM;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes,
			 sizeof(send_bytes));
	client->control = control;
	client->peer = *peer;
	client->watch = (struct fgt_watch){ .fd = fd,
					    .ready = client_ready,
					    .context = client };
	client->timer = (struct fgt_timer){ .expired = client_expired,
					    .context = client };
	r = fgt_loop_watch(control->loop, &client->watch, EPOLLIN);
	if (r < 0) {
		free(client);
		return r;
	}
	client->next = control->clients;
	if (client->next)
		client->next->previous = client;
	control->clients = client;
	control->count++;
	fgt_loop_arm(control->loop, &client->timer,
		     fgt_loop_now() + control->options.request_timeout_ms * MS);
	return 0;
}

static void admit(struct fgt_control *control, int accepted_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = accepted_fd;
	struct fgt_peer peer;

	if (get_peer(fd, &peer) < 0)
		return;
	if (!has_room(control, peer.uid))
		fgt_reply_turn_away(fd, -EBUSY,
				    "too many connections: try again");
	else if (add_client(control, fd, &peer) == 0)
		(void)FGT_TAKE_FD(fd);
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
		admit(control, fd);
	} else if (r == -EMFILE) {
		/* A connection that waits would wake the loop for ever. */
		fgt_loop_unwatch(control->loop, &control->watch);
		fgt_loop_arm(control->loop, &control->back_off,
			     fgt_loop_now() + BACK_OFF_MS * MS);
	}
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
	r = fgt_loop_watch(loop, &control->watch, EPOLLIN);
	if (r < 0)
		return r;
	*ret_control = FGT_TAKE(control);
	return 0;
}

void fgt_control_leave(struct fgt_control *control)
{
	struct fgt_control_client *client = control->clients;

	fgt_loop_unwatch(control->loop, &control->watch);
	fgt_loop_disarm(control->loop, &control->back_off);
	while (client) {
		struct fgt_control_client *next = client->next;

		if (client->state == CLIENT_READS) {
			fgt_reply_turn_away(client->watch.fd, -ESHUTDOWN,
					    "the agent is leaving");
			close_client(client);
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
	while (control->clients)
		close_client(control->clients);
	free(control);
}
