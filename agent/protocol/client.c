/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talks to a daemon over its control socket. Runs in the command line's main
 * thread; every wait has a deadline; must not trust the daemon's frames.
 */
#include "agent/protocol/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

struct fgt_client {
	int fd;
	int timeout_ms;
};

int fgt_client_request_new(const char *verb, struct fgt_builder **ret_builder)
{
	struct fgt_builder *builder;
	int r = fgt_builder_new(&builder);

	if (r < 0)
		return r;
	fgt_builder_int(builder, "v", FGT_PROTOCOL_VERSION);
	fgt_builder_string(builder, "verb", verb);
	*ret_builder = builder;
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int explain_connect(int error, const char *path, struct fgt_why *why)
{
	switch (error) {
	case -ENOENT:
	case -ECONNREFUSED:
		return fgt_why_set(why, error,
				   "no agent listens on %s: start one with "
				   "'fgtrace-agent daemon' or name its socket "
				   "with --socket",
				   path);
	case -EACCES:
	case -EPERM:
		return fgt_why_set(why, error,
				   "not permitted to use %s: run as its owner, "
				   "as a member of its group or as root",
				   path);
	case -EAGAIN:
	case -ETIMEDOUT:
		return fgt_why_set(why, -ETIMEDOUT,
				   "the agent on %s does not answer: it is "
				   "stopped or overloaded",
				   path);
	default:
		return fgt_why_set(why, error, "cannot connect to %s: %s", path,
				   strerror(-error));
	}
}

/* connect() of a full backlog waits as long as SO_SNDTIMEO says. */
static int connect_within(int fd, const struct sockaddr_un *address,
			  int timeout_ms)
{
	struct timeval timeout = { .tv_sec = timeout_ms / 1000,
				   .tv_usec = timeout_ms % 1000 * 1000 };

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) <
	    0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	return 0;
}

int fgt_client_open(const char *socket_path, int timeout_ms,
		    struct fgt_client **ret_client, struct fgt_why *why)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_client *client;
	int r;

	if (strlen(socket_path) >= sizeof(address.sun_path))
		return fgt_why_set(why, -ENAMETOOLONG,
				   "socket path is longer than %zu bytes: %s",
				   sizeof(address.sun_path) - 1, socket_path);
	memcpy(address.sun_path, socket_path, strlen(socket_path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fgt_why_set(why, -errno, "cannot make a socket: %s",
				   strerror(errno));
	r = connect_within(fd, &address, timeout_ms);
	if (r < 0)
		return explain_connect(r, socket_path, why);
	client = calloc(1, sizeof(*client));
	if (!client)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	client->fd = FGT_TAKE_FD(fd);
	client->timeout_ms = timeout_ms;
	*ret_client = client;
	return 0;
}

void fgt_client_close(struct fgt_client *client)
{
	if (!client)
		return;
	fgt_fd_close(client->fd);
	free(client);
}

void fgt_client_set_timeout(struct fgt_client *client, int timeout_ms)
{
	client->timeout_ms = timeout_ms;
}

static int wait_for(int fd, short events, int64_t deadline_ms)
{
	for (;;) {
		struct pollfd poll_fd = { .fd = fd, .events = events };
		int64_t left_ms = deadline_ms - now_ms();
		int n;

		if (left_ms <= 0)
			return -ETIMEDOUT;
		n = poll(&poll_fd, 1, (int)left_ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int send_all(int fd, const uint8_t *bytes, size_t len,
		    int64_t deadline_ms)
{
	while (len > 0) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			int r = wait_for(fd, POLLOUT, deadline_ms);

			if (r < 0)
				return r;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static int receive_all(int fd, uint8_t *bytes, size_t len, int64_t deadline_ms)
{
	while (len > 0) {
		ssize_t n = recv(fd, bytes, len, MSG_DONTWAIT);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (n == 0) {
			return -ECONNRESET;
		} else if (errno == EAGAIN) {
			int r = wait_for(fd, POLLIN, deadline_ms);

			if (r < 0)
				return r;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static int explain_io(int error, struct fgt_why *why)
{
	switch (error) {
	case -ETIMEDOUT:
		return fgt_why_set(why, error,
				   "the agent did not answer in time");
	case -ECONNRESET:
	case -EPIPE:
		return fgt_why_set(why, error,
				   "the agent closed the connection: see its "
				   "log");
	default:
		return fgt_why_set(why, error, "talking to the agent: %s",
				   strerror(-error));
	}
}

int fgt_client_send(struct fgt_client *client, struct fgt_builder *request,
		    struct fgt_why *why)
{
	const uint8_t *bytes;
	size_t len;
	int r = fgt_builder_finish(request, &bytes, &len);

	if (r == 0)
		r = send_all(client->fd, bytes, len,
			     now_ms() + client->timeout_ms);
	return r == 0 ? 0 : explain_io(r, why);
}

int fgt_client_receive(struct fgt_client *client,
		       struct fgt_message **ret_reply, struct fgt_why *why)
{
	int64_t deadline_ms = now_ms() + client->timeout_ms;
	FGT_AUTO(free) void *bytes = NULL;
	uint32_t len;
	int r = receive_all(client->fd, (uint8_t *)&len, sizeof(len),
			    deadline_ms);

	if (r < 0)
		return explain_io(r, why);
	len = ntohl(len);
	if (len == 0 || len > FGT_PROTOCOL_REPLY_MAX)
		return fgt_why_set(why, -EBADMSG,
				   "the agent sent a frame of %u bytes", len);
	bytes = malloc(len);
	if (!bytes)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	r = receive_all(client->fd, bytes, len, deadline_ms);
	if (r < 0)
		return explain_io(r, why);
	r = fgt_message_decode(bytes, len, ret_reply);
	if (r < 0)
		return fgt_why_set(why, r, "the agent sent a malformed frame");
	return 0;
}

int fgt_client_check(const struct fgt_message *reply, struct fgt_why *why)
{
	const char *text = "the agent gave no reason";
	int64_t version, error = 0;
	bool is_ok;

	if (fgt_message_get_int(reply, "v", &version) < 0 ||
	    fgt_message_get_bool(reply, "ok", &is_ok) < 0)
		return fgt_why_set(why, -EBADMSG,
				   "the agent sent a reply without v and ok");
	if (is_ok && version != FGT_PROTOCOL_VERSION)
		return fgt_why_set(why, -EPROTONOSUPPORT,
				   "the agent speaks version %lld, this "
				   "program %d: use the same release",
				   (long long)version, FGT_PROTOCOL_VERSION);
	if (is_ok)
		return 0;
	(void)fgt_message_get_string(reply, "why", &text);
	if (fgt_message_get_int(reply, "error", &error) < 0 || error >= 0 ||
	    error < -4095)
		error = -EIO;
	return fgt_why_set(why, (int)error, "%s", text);
}

int fgt_client_call(struct fgt_client *client, struct fgt_builder *request,
		    struct fgt_message **ret_reply, struct fgt_why *why)
{
	int r;

	*ret_reply = NULL;
	r = fgt_client_send(client, request, why);
	/* A daemon that refuses a client at once has answered already. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return r;
	r = fgt_client_receive(client, ret_reply, why);
	return r < 0 ? r : fgt_client_check(*ret_reply, why);
}
