/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the bytes of one client's requests, has them read by a front, writes
 * its replies. Runs in the daemon's loop; must not block, nor believe a length
 * before the bytes are there, nor look into a request.
 */
#include "agent/daemon/socket/control_client.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/daemon/loop/assert.h"
#include "agent/daemon/socket/passed_fds.h"
#include "agent/files/open_file.h"
#include "agent/protocol/protocol.h"
#include "ringbuf/base/fd.h"

#ifdef SO_PEERPIDFD
#define PEER_PIDFD SO_PEERPIDFD
#else
#define PEER_PIDFD 77 /* Linux 6.5; older headers do not have it */
#endif
#define READ_FIRST_BYTES 1024
#define FDS_AT_ONCE_MAX	 253 /* SCM_MAX_FD: the kernel's */
#define MS		 UINT64_C(1000000)

static void drop_request(struct fgt_control_client *client)
{
	FGT_ASSERT(client->control->large_bytes >= client->large_bytes);
	client->control->large_bytes -= client->large_bytes;
	client->large_bytes = 0;
	free(FGT_TAKE(client->bytes));
	client->len = client->capacity = 0;
}

void fgt_control_close(struct fgt_control_client *client)
{
	struct fgt_control *control = client->control;

	fgt_fronts_withdraw(&client->reading);
	fgt_loop_unwatch(control->loop, &client->watch);
	fgt_loop_disarm(control->loop, &client->timer);
	fgt_connection_close(client->watch.fd);
	LIST_REMOVE(client, link);
	FGT_ASSERT(control->count > 0);
	control->count--;
	control->kept_count -= client->has_place;
	if (fgt_control_client_is_kept(client))
		client->keeper.gone(client->keeper.context);
	while (client->fd_count > 0)
		fgt_file_close_of(client->fds[--client->fd_count],
				  client->peer.uid);
	drop_request(client);
	free(client);
}

const struct fgt_peer *fgt_control_peer(const struct fgt_control_client *client)
{
	return &client->peer;
}

int fgt_control_peer_pidfd(int connection_fd, int32_t pid)
{
	socklen_t len = sizeof(int);
	int fd = -1;

	if (getsockopt(connection_fd, SOL_SOCKET, PEER_PIDFD, &fd, &len) < 0)
		fd = errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, pid, 0)
					  : -1;
	return fd < 0 ? -ESRCH : fd;
}

int fgt_control_open_peer(const struct fgt_control_client *client)
{
	return fgt_control_peer_pidfd(client->watch.fd, client->peer.pid);
}

const uint8_t *fgt_control_frame(const struct fgt_control_client *client)
{
	return client->bytes + FGT_PROTOCOL_LENGTH_BYTES;
}

bool fgt_control_has_unread(const struct fgt_control_client *client)
{
	int bytes = 0;

	return ioctl(client->watch.fd, FIONREAD, &bytes) < 0 || bytes > 0;
}

int fgt_control_take_fd(struct fgt_control_client *client)
{
	int fd;

	if (client->fd_count == 0)
		return -ENOENT;
	fd = client->fds[0];
	client->fds[0] = client->fds[--client->fd_count];
	return fd;
}

/* ---- Replies ----------------------------------------------------------- */

/* One that stays may ask again; until it does, it may be silent. */
static void read_next(struct fgt_control_client *client)
{
	fgt_loop_disarm(client->control->loop, &client->timer);
	drop_request(client);
	client->state = FGT_CLIENT_READS;
	if (fgt_loop_watch(client->control->loop, &client->watch, EPOLLIN) < 0)
		fgt_control_close(client);
}

static void end_reply(struct fgt_control_client *client, bool is_sent)
{
	if (is_sent && !client->is_ending && fgt_control_client_is_kept(client))
		read_next(client);
	else
		fgt_control_close(client);
}

static void arm(struct fgt_control_client *client, uint64_t timeout_ms)
{
	fgt_loop_arm(client->control->loop, &client->timer,
		     fgt_loop_now() + timeout_ms * MS);
}

static void arm_stall(struct fgt_control_client *client)
{
	arm(client, client->control->options.stall_timeout_ms);
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
	end_reply(client, client->written == client->len);
}

/* Takes the bytes; writes what the kernel takes at once. */
static void start_reply(struct fgt_control_client *client, uint8_t *bytes,
			size_t len)
{
	drop_request(client);
	client->bytes = bytes;
	client->len = len;
	client->written = 0;
	client->state = FGT_CLIENT_WRITES;
	client->gone = NULL;
	arm_stall(client);
	write_reply(client);
}

/* What the kernel does not take at once cannot be kept for later. */
static void reply_without_memory(struct fgt_control_client *client)
{
	size_t len;
	const uint8_t *frame = fgt_builder_no_memory(&len);
	ssize_t n =
		send(client->watch.fd, frame, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	client->gone = NULL;
	if (n == (ssize_t)len && !client->is_ending &&
	    fgt_control_client_is_kept(client))
		read_next(client);
	else
		fgt_control_close(client);
}

void fgt_control_reply(struct fgt_control_client *client,
		       struct fgt_builder *reply)
{
	const uint8_t *frame;
	uint8_t *bytes;
	size_t len;
	int r;

	fgt_control_look(client->control);
	r = reply ? fgt_builder_finish(reply, &frame, &len) : -ENOMEM;
	bytes = r == 0 ? malloc(len) : NULL;
	if (bytes)
		start_reply(client, memcpy(bytes, frame, len), len);
	else if (r == 0 || r == -ENOMEM)
		reply_without_memory(client);
	else
		fgt_control_close(client);
}

void fgt_control_fail(struct fgt_control_client *client, int error,
		      const char *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)fgt_builder_new_error(error, why, &builder);
	fgt_control_reply(client, builder);
}

void fgt_control_park(struct fgt_control_client *client,
		      void (*gone)(void *context), void *context)
{
	drop_request(client);
	client->state = FGT_CLIENT_PARKED;
	client->gone = gone;
	client->gone_context = context;
	/* No events: a hang-up is reported all the same. */
	(void)fgt_loop_watch(client->control->loop, &client->watch, 0);
}

int fgt_control_lend(struct fgt_control_client *client)
{
	drop_request(client);
	client->state = FGT_CLIENT_LENT;
	client->gone = NULL;
	fgt_loop_unwatch(client->control->loop, &client->watch);
	return client->watch.fd;
}

/* ---- Requests ---------------------------------------------------------- */

/* Its frames cannot be separated any more: the connection ends after this. */
static void refuse(struct fgt_control_client *client, int error,
		   const char *why)
{
	client->is_ending = true;
	fgt_control_fail(client, error, why);
}

void fgt_control_client_asks(void *context, const struct fgt_request *request)
{
	struct fgt_control_client *client = context;
	const struct fgt_request_refusal *refusal = &request->refusal;
	struct fgt_why why;

	(void)fgt_loop_watch(client->control->loop, &client->watch, 0);
	if (request->verb == FGT_REQUEST_REFUSED && refusal->is_malformed)
		refuse(client, refusal->error, refusal->why.text);
	else if (request->verb == FGT_REQUEST_REFUSED)
		fgt_control_fail(client, refusal->error, refusal->why.text);
	else if (!fgt_control_client_may_ask(client, &why))
		fgt_control_fail(client, -EBUSY, why.text);
	else
		client->keeper.handle(client->keeper.context, client, request);
}

static void handle_frame(struct fgt_control_client *client)
{
	struct fgt_control *control = client->control;

	fgt_loop_disarm(control->loop, &client->timer);
	/* Not read before the reply is written: further bytes. Not noticed
	 * before the request is handled: a hang-up, which may follow the last
	 * word of a program at once. */
	fgt_loop_unwatch(control->loop, &client->watch);
	client->state = FGT_CLIENT_AT_FRONT;
	client->reading.frame = (struct fgt_request_frame){
		.bytes = fgt_control_frame(client),
		.len = client->len - FGT_PROTOCOL_LENGTH_BYTES,
		.is_kept = fgt_control_client_is_kept(client),
	};
	fgt_fronts_submit(control->fronts, &client->reading);
}

static size_t request_max(const struct fgt_control_client *client)
{
	return fgt_control_client_is_kept(client) ? FGT_PROTOCOL_KEPT_MAX
						  : FGT_PROTOCOL_REQUEST_MAX;
}

/* The bytes that the frame still lacks, the length's own first. */
static int missing_bytes(const struct fgt_control_client *client,
			 size_t *ret_len)
{
	uint32_t body;

	if (client->len < FGT_PROTOCOL_LENGTH_BYTES) {
		*ret_len = FGT_PROTOCOL_LENGTH_BYTES - client->len;
		return 0;
	}
	memcpy(&body, client->bytes, sizeof(body));
	body = be32toh(body);
	if (body == 0 || body > request_max(client))
		return -EMSGSIZE;
	*ret_len = (size_t)body + FGT_PROTOCOL_LENGTH_BYTES - client->len;
	return 0;
}

/* Large requests share one bound, however many clients send them. */
static int charge(struct fgt_control_client *client, size_t capacity)
{
	struct fgt_control *control = client->control;
	size_t more = capacity - client->large_bytes;

	if (capacity <= FGT_PROTOCOL_REQUEST_MAX * 2)
		return 0;
	if (more > FGT_CONTROL_LARGE_BYTES - control->large_bytes)
		return -ENOBUFS;
	control->large_bytes += more;
	client->large_bytes = capacity;
	return 0;
}

/* Memory grows with the bytes that came, never with the length they claim. */
static int make_room(struct fgt_control_client *client)
{
	size_t capacity = client->capacity * 2;
	uint8_t *bytes;
	int r;

	if (client->len < client->capacity)
		return 0;
	if (capacity == 0)
		capacity = READ_FIRST_BYTES;
	r = charge(client, capacity);
	if (r < 0)
		return r;
	bytes = realloc(client->bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	client->bytes = bytes;
	client->capacity = capacity;
	return 0;
}

static void keep_fds(struct fgt_control_client *client,
		     const struct cmsghdr *header)
{
	size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fd;

	for (size_t i = 0; i < count; i++) {
		memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
		if (client->fd_count < FGT_CONTROL_FDS_MAX &&
		    fgt_memfd_is_sealed(fd))
			client->fds[client->fd_count++] = fd;
		else
			fgt_file_close_of(fd, client->peer.uid);
	}
}

/* What came beside the bytes: every byte of a request must be the peer's. */
static void look_at_control(struct fgt_control_client *client,
			    struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	struct ucred sender = { .pid = 0 };

	for (; header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET)
			continue;
		if (header->cmsg_type == SCM_RIGHTS)
			keep_fds(client, header);
		else if (header->cmsg_type == SCM_CREDENTIALS)
			memcpy(&sender, CMSG_DATA(header), sizeof(sender));
	}
	if (client->len == 0)
		client->peer.is_sender = true;
	if (sender.pid == 0 || sender.pid != client->peer.pid)
		client->peer.is_sender = false;
}

/*
 * No more than has been looked at, and with room for all descriptors beside it:
 * the kernel drops none. -EBADMSG: there are some that are not wanted.
 */
static ssize_t receive(struct fgt_control_client *client, size_t want)
{
	struct iovec piece = { .iov_base = client->bytes + client->len };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) +
			   CMSG_SPACE(FDS_AT_ONCE_MAX * sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	bool has_fds;
	ssize_t n = fgt_passed_fds_look(client->watch.fd, piece.iov_base, want,
					&has_fds);

	if (n <= 0)
		return n;
	if (has_fds &&
	    (client->len > 0 || fgt_control_client_is_kept(client) ||
	     !fgt_passed_fds_are_wanted(client->watch.fd, client->peer.uid)))
		return -EBADMSG;
	piece.iov_len = (size_t)n;
	n = recvmsg(client->watch.fd, &message,
		    MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0)
		look_at_control(client, &message);
	return n < 0 ? -errno : n;
}

/* One that stays has the time-out of requests once it begins one. */
static void note_begin(struct fgt_control_client *client)
{
	if (client->len == 0 && fgt_control_client_is_kept(client))
		arm(client, client->control->options.request_timeout_ms);
}

/* One read. 1: the frame is complete; 0: not yet. */
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
	n = receive(client, want);
	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? 0 : (int)n;
	if (n == 0)
		return -ECONNRESET;
	note_begin(client);
	client->len += (size_t)n;
	r = missing_bytes(client, &want);
	return r < 0 ? r : client->len > FGT_PROTOCOL_LENGTH_BYTES && want == 0;
}

void fgt_control_client_ready(void *context, uint32_t events)
{
	struct fgt_control_client *client = context;
	int r;

	if (client->state == FGT_CLIENT_WRITES) {
		write_reply(client);
		return;
	}
	if (client->state == FGT_CLIENT_PARKED) {
		if (!(events & (EPOLLHUP | EPOLLERR)))
			return;
		client->gone(client->gone_context);
		fgt_control_close(client);
		return;
	}
	r = read_some(client);
	if (r > 0)
		handle_frame(client);
	else if (r == -EMSGSIZE)
		refuse(client, r,
		       fgt_control_client_is_kept(client)
			       ? "the request is empty or larger than 16 "
				 "MiB: send a shorter range"
			       : "the request is empty or larger than 1 MiB: "
				 "send less");
	else if (r == -ENOBUFS)
		refuse(client, -EBUSY,
		       "busy: too many large requests at once: try again");
	else if (r == -ENOMEM)
		refuse(client, r, "the agent is " FGT_NO_MEMORY);
	else if (r == -EBADMSG)
		refuse(client, -EINVAL,
		       "descriptors come with the beginning of a registration "
		       "only, and while those that its user passed before can "
		       "be closed");
	else if (r < 0)
		fgt_control_close(client);
}

void fgt_control_client_expired(void *context)
{
	struct fgt_control_client *client = context;

	if (client->state == FGT_CLIENT_READS)
		refuse(client, -ETIMEDOUT,
		       "the request was not complete in time: send it at once");
	else
		fgt_control_close(client); /* it does not read its reply */
}
