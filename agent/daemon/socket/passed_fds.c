/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of clients, and the end of their connections. Runs in the
 * daemon's loop, which must not wait: whatever a client passes may wait when it
 * is closed for the last time, also by the kernel.
 */
#include "agent/daemon/socket/passed_fds.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/daemon/loop/log.h"
#include "agent/files/open_file.h"

#define PEEK_BYTES 1024 /* of the request: its verb is among them */

ssize_t fgt_passed_fds_look(int socket_fd, void *bytes, size_t len,
			    bool *ret_are_there)
{
	struct iovec piece = { .iov_base = bytes, .iov_len = len };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr message = { .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(socket_fd, &message, MSG_PEEK | MSG_DONTWAIT);

	/* There is room for the sender's ids only. */
	*ret_are_there = n > 0 && (message.msg_flags & MSG_CTRUNC);
	return n < 0 ? -errno : n;
}

/* Its value follows the key, behind at most five bytes of msgpack. */
static bool is_registration(const char *bytes, size_t len)
{
	static const char key[] = "verb", verb[] = "register";
	const char *at = memmem(bytes, len, key, sizeof(key) - 1);
	size_t left;

	if (!at)
		return false;
	at += sizeof(key) - 1;
	left = (size_t)(bytes + len - at);
	if (left > 5 + sizeof(verb) - 1)
		left = 5 + sizeof(verb) - 1;
	return memmem(at, left, verb, sizeof(verb) - 1);
}

bool fgt_passed_fds_are_wanted(int socket_fd, uint32_t uid)
{
	char bytes[PEEK_BYTES];
	ssize_t n =
		recv(socket_fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

	if (n <= 0 || !is_registration(bytes, (size_t)n))
		return false;
	if (!fgt_file_close_is_slow(uid))
		return true;
	fgt_log(FGT_LOG_WARNING, "descriptor_refused",
		"user %u passes descriptors, but the file system of an "
		"earlier one does not let it be closed: its programs that do "
		"so are not recorded",
		uid);
	return false;
}

void fgt_connection_close(int socket_fd)
{
	struct ucred peer = { .uid = 0 };
	socklen_t len = sizeof(peer);
	int bytes = 0;

	/* Nothing comes from here on. */
	(void)shutdown(socket_fd, SHUT_RDWR);
	if (ioctl(socket_fd, FIONREAD, &bytes) == 0 && bytes == 0) {
		close(socket_fd);
		return;
	}
	/* Descriptors may be among what was not read. */
	(void)getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	fgt_file_close_of(socket_fd, peer.uid);
}
