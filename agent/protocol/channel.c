/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the control socket. Runs in the command line, in the
 * program's threads and on the library's worker, with all their signals; must
 * not trust a length before the bytes are there.
 */
#include "agent/protocol/channel.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "agent/protocol/protocol.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd_message.h"
#include "ringbuf/base/owner.h"

#define FIRST_BYTES 4096
#define MS_NS	    UINT64_C(1000000)
#define SECOND_US   UINT64_C(1000000)

static bool is_open(const struct fgt_channel *channel)
{
	return fgt_file_id_is(&channel->socket, channel->fd);
}

/* connect() waits at most SO_SNDTIMEO for a place in a full backlog. */
static int connect_once(int fd, const struct sockaddr_un *address,
			uint64_t deadline_ns)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	/* Rounded up: 0 would be no limit. */
	uint64_t left_us =
		now_ns < deadline_ns ? (deadline_ns - now_ns) / 1000 + 1 : 0;
	const struct timeval left = {
		.tv_sec = (time_t)(left_us / SECOND_US),
		.tv_usec = (suseconds_t)(left_us % SECOND_US),
	};

	if (left_us == 0)
		return -ETIMEDOUT;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof(left)) < 0 ||
	    connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	return 0;
}

static int connect_until(int fd, const char *path, uint64_t deadline_ns)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	do
		r = connect_once(fd, &address, deadline_ns);
	while (r == -EINTR);
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

static int check_peer(int fd)
{
	struct ucred credentials;
	socklen_t len = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) < 0)
		return -errno;
	return credentials.uid == 0 || credentials.uid == geteuid() ? 0
								    : -EPERM;
}

int fgt_channel_open(const char *path, bool is_checked, uint64_t deadline_ns,
		     struct fgt_channel *ret_channel)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_file_id id;
	int r;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = connect_until(fd, path, deadline_ns);
	if (r == 0 && is_checked)
		r = check_peer(fd);
	if (r == 0)
		r = fgt_file_id_get(fd, &id);
	if (r < 0)
		return r;
	ret_channel->socket = id;
	ret_channel->fd = fgt_fd_apart(FGT_TAKE_FD(fd));
	return 0;
}

void fgt_channel_close(struct fgt_channel *channel)
{
	if (is_open(channel))
		fgt_fd_close(channel->fd);
	channel->fd = -1;
}

/* What an error means: written before and after the path of the socket. */
static const struct {
	int error;
	const char *before, *after;
} explanations[] = {
	{ -ENOENT, "no agent listens on",
	  ": start 'fgtrace-agent daemon' or name its socket (--socket, "
	  "FGTRACE_SOCKET)" },
	{ -EACCES, "not permitted to use",
	  ": run as its owner, as a member of its group or as root" },
	{ -EPERM, "the agent on",
	  " runs as another user: start one as this user or as root" },
	{ -ETIMEDOUT, "the agent on",
	  " does not answer: it is stopped or overloaded; restart it" },
	{ -ECONNRESET, "the agent on", " closed the connection: see its log" },
	{ -EBADMSG, "the agent on",
	  " sent a malformed frame: use an agent of this release" },
};

int fgt_channel_explain(int error, const char *path, struct fgt_why *why)
{
	const int cause = error == -ECONNREFUSED ? -ENOENT : error;

	for (size_t i = 0; i < sizeof(explanations) / sizeof(*explanations);
	     i++)
		if (explanations[i].error == cause)
			return fgt_why_set(why, error, "%s %s%s",
					   explanations[i].before, path,
					   explanations[i].after);
	return fgt_why_set(why, error, "the agent on %s: %s", path,
			   strerror(-error));
}

/* ---- Sending and receiving --------------------------------------------- */

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd poll_fd = { .fd = fd, .events = events };
		uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
		uint64_t left_ms;
		int n;

		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		left_ms = (deadline_ns - now_ns) / MS_NS + 1;
		n = poll(&poll_fd, 1, left_ms < INT_MAX ? (int)left_ms : -1);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int send_all(int fd, const uint8_t *bytes, size_t len, const int *fds,
		    unsigned int fd_count, uint64_t deadline_ns)
{
	while (len > 0) {
		const struct iovec piece = { (void *)(uintptr_t)bytes, len };
		/* Descriptors travel with the first byte. */
		ssize_t n = fgt_fd_message_send(fd, &piece, 1, fds, fd_count,
						MSG_DONTWAIT);
		int r = 0;

		if (n >= 0) {
			bytes += n;
			len -= (size_t)n;
			fd_count = 0;
		} else if (n == -EAGAIN) {
			r = wait_for(fd, POLLOUT, deadline_ns);
		} else {
			r = (int)n;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int fgt_channel_send(const struct fgt_channel *channel,
		     struct fgt_builder *request, const int *fds,
		     unsigned int fd_count, uint64_t deadline_ns)
{
	const uint8_t *bytes;
	size_t len;
	int r = fgt_builder_finish(request, &bytes, &len);

	if (r < 0)
		return r;
	if (!is_open(channel))
		return -EBADF;
	r = send_all(channel->fd, bytes, len, fds, fd_count, deadline_ns);
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static int receive_all(int fd, uint8_t *bytes, size_t len, uint64_t deadline_ns)
{
	while (len > 0) {
		ssize_t n = recv(fd, bytes, len, MSG_DONTWAIT);
		int r = 0;

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (n == 0) {
			r = -ECONNRESET;
		} else if (errno == EAGAIN) {
			r = wait_for(fd, POLLIN, deadline_ns);
		} else if (errno != EINTR) {
			r = -errno;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* Memory grows with the bytes that came, never with the length they claim. */
static int receive_body(int fd, size_t len, uint64_t deadline_ns,
			uint8_t **ret_bytes)
{
	FGT_AUTO(free) void *bytes = NULL;
	size_t capacity = 0;

	for (size_t have = 0; have < len; have = capacity) {
		void *more;
		int r;

		capacity = capacity ? capacity * 2 : FIRST_BYTES;
		if (capacity > len)
			capacity = len;
		more = realloc(bytes, capacity);
		if (!more)
			return -ENOMEM;
		bytes = more;
		r = receive_all(fd, (uint8_t *)bytes + have, capacity - have,
				deadline_ns);
		if (r < 0)
			return r;
	}
	*ret_bytes = FGT_TAKE(bytes);
	return 0;
}

int fgt_channel_wait(const struct fgt_channel *channel, uint64_t deadline_ns)
{
	return is_open(channel) ? wait_for(channel->fd, POLLIN, deadline_ns)
				: -EBADF;
}

int fgt_channel_receive(const struct fgt_channel *channel, uint64_t deadline_ns,
			struct fgt_message **ret_message)
{
	uint8_t *bytes;
	uint32_t len;
	int r;

	static_assert(sizeof(len) == FGT_PROTOCOL_LENGTH_BYTES, "the length");
	if (!is_open(channel))
		return -EBADF;
	if (fgt_clock_ns(CLOCK_MONOTONIC) >= deadline_ns)
		return -ETIMEDOUT; /* frames without end, each in time */
	r = receive_all(channel->fd, (uint8_t *)&len, sizeof(len), deadline_ns);
	if (r < 0)
		return r;
	len = be32toh(len);
	if (len == 0 || len > FGT_PROTOCOL_REPLY_MAX)
		return -EBADMSG;
	r = receive_body(channel->fd, len, deadline_ns, &bytes);
	if (r < 0)
		return r;
	r = fgt_message_decode(bytes, len, ret_message);
	free(bytes);
	return r;
}

/* ---- Requests ---------------------------------------------------------- */

int fgt_channel_receive_reply(const struct fgt_channel *channel,
			      uint64_t deadline_ns,
			      struct fgt_message **ret_reply,
			      struct fgt_why *why)
{
	int r;

	*ret_reply = NULL;
	r = fgt_channel_receive(channel, deadline_ns, ret_reply);
	return r < 0 ? r : fgt_message_check_reply(*ret_reply, why);
}

int fgt_channel_call(const struct fgt_channel *channel,
		     struct fgt_builder *request, uint64_t deadline_ns,
		     struct fgt_message **ret_reply, struct fgt_why *why)
{
	int r = fgt_channel_send(channel, request, NULL, 0, deadline_ns);

	*ret_reply = NULL;
	return r < 0 ? r
		     : fgt_channel_receive_reply(channel, deadline_ns,
						 ret_reply, why);
}

/* 1 at the end, 0 if there is more. */
static int take_frame(const struct fgt_message *frame,
		      const struct fgt_sink *sink, uint64_t *total_bytes,
		      struct fgt_why *why)
{
	bool is_end = false;
	const uint8_t *bytes;
	uint64_t sent_bytes;
	size_t len;
	int r;

	(void)fgt_message_get_bool(frame, "end", &is_end);
	if (is_end) {
		r = fgt_message_get_uint(frame, "len", &sent_bytes);
		if (r < 0 || sent_bytes != *total_bytes)
			return fgt_why_set(why, -EBADMSG,
					   "the slice arrived incomplete; try "
					   "again");
		return 1;
	}
	if (fgt_message_get_bin(frame, "data", &bytes, &len) == 0) {
		*total_bytes += len;
		return fgt_sink_write(sink, bytes, len);
	}
	/* An error may come after the first data; nothing else. */
	r = fgt_message_check_reply(frame, why);
	return r < 0 ? r
		     : fgt_why_set(why, -EBADMSG,
				   "the agent sent a frame without data: use "
				   "an agent of this release");
}

int fgt_channel_receive_file(const struct fgt_channel *channel,
			     const struct fgt_sink *sink, uint64_t frame_ns,
			     uint64_t deadline_ns, struct fgt_why *why)
{
	uint64_t total_bytes = 0;
	int r;

	do {
		FGT_AUTO(fgt_message_free) struct fgt_message *frame = NULL;
		uint64_t until_ns = fgt_clock_ns(CLOCK_MONOTONIC) + frame_ns;

		if (frame_ns == 0 || until_ns > deadline_ns)
			until_ns = deadline_ns;
		r = fgt_channel_receive(channel, until_ns, &frame);
		if (r == 0)
			r = take_frame(frame, sink, &total_bytes, why);
	} while (r == 0);
	return r < 0 ? r : 0;
}

bool fgt_channel_is_dead(const struct fgt_channel *channel)
{
	char byte;

	if (!is_open(channel))
		return true;
	return recv(channel->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       (errno != EAGAIN && errno != EINTR);
}
