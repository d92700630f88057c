/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors as ancillary data (unix(7), cmsg(3)). Runs in any thread; must
 * leave no descriptor open that its caller does not know.
 */
#include "ringbuf/base/fd_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(FGT_FD_MESSAGE_MAX * sizeof(int))];
};

ssize_t fgt_fd_message_send(int socket_fd, const struct iovec *parts,
			    size_t part_count, const int *fds, size_t fd_count,
			    int flags)
{
	union control control;
	struct msghdr message = { .msg_iov = (struct iovec *)parts,
				  .msg_iovlen = part_count };
	ssize_t sent;

	if (fd_count > FGT_FD_MESSAGE_MAX)
		return -EINVAL;
	if (fd_count > 0) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, fd_count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
	}
	do
		sent = sendmsg(socket_fd, &message, MSG_NOSIGNAL | flags);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

ssize_t fgt_fd_message_receive(int socket_fd, const struct iovec *parts,
			       size_t part_count, int *ret_fds, size_t fd_max,
			       int flags)
{
	union control control;
	/* CMSG_LEN: CMSG_SPACE may have room for one more. */
	struct msghdr message = { .msg_iov = (struct iovec *)parts,
				  .msg_iovlen = part_count,
				  .msg_control = &control,
				  .msg_controllen =
					  CMSG_LEN(fd_max * sizeof(int)) };
	const struct cmsghdr *head;
	ssize_t got;

	if (fd_max > FGT_FD_MESSAGE_MAX)
		return -EINVAL;
	for (size_t i = 0; i < fd_max; i++)
		ret_fds[i] = -1;
	do
		got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | flags);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_level == SOL_SOCKET &&
	    head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len <= CMSG_LEN(fd_max * sizeof(int)))
		memcpy(ret_fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
	return got;
}
