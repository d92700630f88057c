/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel. Runs in threads that make slices; must not wait: the answer
 * is there when the question has been sent.
 */
#include "agent/symbols/unix_name.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/wait.h"

#define ANSWER_BYTES 1024

int fgt_unix_name_open(void)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	FGT_AUTO(fgt_fd_close)
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	/* Then nothing else can send to it. */
	if (fd < 0 ||
	    connect(fd, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	return FGT_TAKE_FD(fd);
}

static bool ask(int fd, uint32_t inode)
{
	const struct {
		struct nlmsghdr head;
		struct unix_diag_req request;
	} question = {
		.head = { .nlmsg_len = sizeof(question),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST,
			  .nlmsg_seq = inode },
		.request = { .sdiag_family = AF_UNIX,
			     .udiag_states = UINT32_MAX,
			     .udiag_ino = inode,
			     .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER,
			     .udiag_cookie = { UINT32_MAX, UINT32_MAX } },
	};

	return send(fd, &question, sizeof(question), MSG_DONTWAIT) >= 0;
}

/* ret_peer: the inode of its other end, 0: not known. */
static bool get_name(int fd, uint32_t inode, char *ret_name, size_t size,
		     uint32_t *ret_peer)
{
	union {
		struct nlmsghdr head;
		char bytes[ANSWER_BYTES];
	} answer;
	const struct unix_diag_msg *message = NLMSG_DATA(&answer.head);
	const struct rtattr *attribute;
	ssize_t len;
	int left;

	*ret_peer = 0;
	if (!ask(fd, inode))
		return false;
	len = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
	if (len < (ssize_t)NLMSG_SPACE(sizeof(*message)) ||
	    !NLMSG_OK(&answer.head, (size_t)len) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    answer.head.nlmsg_seq != inode || message->udiag_ino != inode)
		return false;
	attribute = (const struct rtattr *)(message + 1);
	left = (int)NLMSG_PAYLOAD(&answer.head, sizeof(*message));
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == UNIX_DIAG_NAME) {
			fgt_wait_name_unix(RTA_DATA(attribute),
					   RTA_PAYLOAD(attribute), ret_name,
					   size);
			return true;
		}
		if (attribute->rta_type == UNIX_DIAG_PEER &&
		    RTA_PAYLOAD(attribute) >= sizeof(*ret_peer))
			memcpy(ret_peer, RTA_DATA(attribute),
			       sizeof(*ret_peer));
	}
	return false;
}

bool fgt_unix_name_get(int fd, uint64_t inode, char *ret_name, size_t size)
{
	uint32_t peer, other;

	if (inode > UINT32_MAX)
		return false;
	if (get_name(fd, (uint32_t)inode, ret_name, size, &peer))
		return true;
	if (!peer)
		return false;
	/* A client has none: that of the server's end is the address. */
	if (!get_name(fd, peer, ret_name, size, &other))
		snprintf(ret_name, size, "unix socketpair");
	return true;
}
