/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talks to the agent's socket. Runs in the program's threads and on the
 * worker, with whatever signals they take; must not believe a length before
 * the bytes are there.
 */
#include "agent/protocol/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/owner.h"

#define LENGTH_BYTES 4
#define FIRST_BYTES  4096
#define MS_NS	     UINT64_C(1000000)
#define SECOND_US    UINT64_C(1000000)

static bool is_ours(const struct fgt_channel *channel)
{
	return fgt_file_id_is(&channel->socket, channel->fd);
}

/* connect() of a full backlog waits as long as SO_SNDTIMEO says. */
static int connect_once(int fd, const struct sockaddr_un *address,
			uint64_t deadline_ns)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	/* Rounded up: 0 would be for ever. */
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
	if (is_ours(channel))
		fgt_fd_close(channel->fd);
	channel->fd = -1;
}

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd poll_fd = { .fd = fd, .events = events };
		uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
		int n;

		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		n = poll(&poll_fd, 1,
			 (int)((deadline_ns - now_ns) / MS_NS) + 1);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* Descriptors travel with the first byte. */
static ssize_t send_some(int fd, const uint8_t *bytes, size_t len,
			 const int *fds, unsigned int fd_count)
{
	struct iovec piece = { .iov_base = (void *)bytes, .iov_len = len };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(FGT_CHANNEL_FDS_MAX * sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (fd_count > 0) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, fd_count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int fgt_channel_send(const struct fgt_channel *channel, const uint8_t *bytes,
		     size_t len, const int *fds, unsigned int fd_count,
		     uint64_t deadline_ns)
{
	if (!is_ours(channel))
		return -EBADF;
	while (len > 0) {
		ssize_t n = send_some(channel->fd, bytes, len, fds, fd_count);
		int r = 0;

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
			fd_count = 0;
		} else if (n < 0 && errno == EAGAIN) {
			r = wait_for(channel->fd, POLLOUT, deadline_ns);
		} else if (n == 0 || errno != EINTR) {
			r = n == 0 ? -EPIPE : -errno;
		}
		if (r < 0)
			return r;
	}
	return 0;
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
static int receive_growing(int fd, struct fgt_channel_frame *frame, size_t len,
			   uint64_t deadline_ns)
{
	while (frame->len < len) {
		size_t want = len - frame->len;
		int r;

		if (frame->len == frame->capacity) {
			size_t capacity = frame->capacity ? frame->capacity * 2
							  : FIRST_BYTES;
			uint8_t *bytes = realloc(frame->bytes, capacity);

			if (!bytes)
				return -ENOMEM;
			frame->bytes = bytes;
			frame->capacity = capacity;
		}
		if (want > frame->capacity - frame->len)
			want = frame->capacity - frame->len;
		r = receive_all(fd, frame->bytes + frame->len, want,
				deadline_ns);
		if (r < 0)
			return r;
		frame->len += want;
	}
	return 0;
}

int fgt_channel_receive(const struct fgt_channel *channel,
			struct fgt_channel_frame *frame, size_t max_bytes,
			uint64_t deadline_ns)
{
	uint8_t head[LENGTH_BYTES];
	size_t len;
	int r;

	if (!is_ours(channel))
		return -EBADF;
	if (fgt_clock_ns(CLOCK_MONOTONIC) >= deadline_ns)
		return -ETIMEDOUT; /* frames without end, each in time */
	r = receive_all(channel->fd, head, sizeof(head), deadline_ns);
	if (r < 0)
		return r;
	len = (size_t)head[0] << 24 | (size_t)head[1] << 16 |
	      (size_t)head[2] << 8 | head[3];
	if (len == 0 || len > max_bytes)
		return -EBADMSG;
	frame->len = 0;
	return receive_growing(channel->fd, frame, len, deadline_ns);
}

bool fgt_channel_is_dead(const struct fgt_channel *channel)
{
	char byte;

	if (!is_ours(channel))
		return true;
	return recv(channel->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       (errno != EAGAIN && errno != EINTR);
}
