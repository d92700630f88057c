/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts delivering processes and hears of them. Runs in the daemon's loop;
 * must not wait for one, nor put a secret where others can read it.
 */
#include "agent/daemon/delivery/delivery_child.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/protocol/protocol.h"
#include "agent/protocol/transaction_facts.h"
#include "agent/symbols/helper/self_child.h"
#include "ringbuf/base/owner.h"

static int send_order(int fd, const struct fgt_delivery_head *head,
		      const uint8_t *body, size_t body_len, const int *fds,
		      size_t fd_count)
{
	struct iovec parts[] = {
		{ (void *)(uintptr_t)head, sizeof(*head) },
		{ (void *)(uintptr_t)body, body_len },
	};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = 2,
				  .msg_control = control.bytes,
				  .msg_controllen =
					  CMSG_SPACE(fd_count * sizeof(int)) };
	struct cmsghdr *head_of_fds = CMSG_FIRSTHDR(&message);
	ssize_t sent;

	head_of_fds->cmsg_level = SOL_SOCKET;
	head_of_fds->cmsg_type = SCM_RIGHTS;
	head_of_fds->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
	memcpy(CMSG_DATA(head_of_fds), fds, fd_count * sizeof(int));
	sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent == (ssize_t)(sizeof(*head) + body_len) ? 0 : -EAGAIN;
}

int fgt_delivery_child_start(struct fgt_delivery_child *child,
			     const struct fgt_delivery_head *head,
			     const uint8_t *body, size_t body_len, int data_fd,
			     int spans_fd)
{
	static char name[] = FGT_DELIVERY_NAME, verb[] = FGT_DELIVERY_VERB;
	char *arguments[] = { name, verb, NULL };
	struct fgt_self_child self = { .arguments = arguments,
				       .child_fd = FGT_DELIVERY_FD,
				       .is_on_network = true };
	const int fds[] = { data_fd, spans_fd };
	int pair[2], r;

	*child = FGT_DELIVERY_CHILD_NONE;
	if (body_len > FGT_DELIVERY_BODY_MAX)
		return -EMSGSIZE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -EAGAIN;
	/* The message waits in the socket until the child is there. */
	r = send_order(pair[0], head, body, body_len, fds,
		       spans_fd < 0 ? 1 : 2);
	self.fd = pair[1];
	if (r == 0)
		r = fgt_self_child_start(&self, &child->pid_fd);
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		return r;
	}
	child->fd = pair[0];
	return 0;
}

int fgt_delivery_body_new(const char *destination,
			  const struct fgt_upload_limits *limits,
			  const struct fgt_transaction_facts *facts,
			  uint8_t **ret_body, size_t *ret_len)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *frame;
	uint8_t *body;
	size_t len;
	int r = fgt_builder_new(&builder);

	if (r < 0)
		return r;
	fgt_builder_string(builder, "destination", destination);
	if (limits && limits->ca_file)
		fgt_builder_string(builder, "ca_file", limits->ca_file);
	if (limits && limits->is_http_allowed)
		fgt_builder_bool(builder, "allow_http", true);
	if (facts)
		fgt_facts_put(builder, facts);
	r = fgt_builder_finish(builder, &frame, &len);
	if (r < 0)
		return r;
	len -= FGT_PROTOCOL_LENGTH_BYTES;
	if (len > FGT_DELIVERY_BODY_MAX)
		return -EMSGSIZE;
	body = malloc(len);
	if (!body)
		return -ENOMEM;
	memcpy(body, frame + FGT_PROTOCOL_LENGTH_BYTES, len);
	*ret_body = body;
	*ret_len = len;
	return 0;
}

int fgt_delivery_child_receive(struct fgt_delivery_child *child,
			       struct fgt_delivery_result *ret_result)
{
	struct fgt_delivery_result result;
	ssize_t n = recv(child->fd, &result, sizeof(result), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n != (ssize_t)sizeof(result) || result.error > 0)
		return -EPIPE;
	result.event_id[sizeof(result.event_id) - 1] = '\0';
	result.where[sizeof(result.where) - 1] = '\0';
	result.why[sizeof(result.why) - 1] = '\0';
	*ret_result = result;
	return 0;
}

void fgt_delivery_child_kill(struct fgt_delivery_child *child)
{
	fgt_fd_close(FGT_TAKE_FD(child->fd));
	fgt_self_child_kill(child->pid_fd);
}

bool fgt_delivery_child_reap(struct fgt_delivery_child *child)
{
	if (!fgt_self_child_reap(child->pid_fd))
		return false;
	child->pid_fd = -1;
	return true;
}
