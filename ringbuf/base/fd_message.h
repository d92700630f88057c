/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message over a Unix socket that carries copies of descriptors. Runs in any
 * thread; allocates nothing, and waits only where the socket does.
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_RINGBUF_BASE_FD_MESSAGE_H
#define FGT_RINGBUF_BASE_FD_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FGT_FD_MESSAGE_MAX 5 /* descriptors of one message */

/*
 * Sends parts, one behind the other, with fds[fd_count]. flags: of sendmsg(2);
 * MSG_NOSIGNAL is added. A signal does not interrupt it. The bytes that were
 * sent, or the errno of sendmsg(2); -EINVAL: too many descriptors.
 */
ssize_t fgt_fd_message_send(int socket_fd, const struct iovec *parts,
			    size_t part_count, const int *fds, size_t fd_count,
			    int flags);

/*
 * Receives into parts. flags: of recvmsg(2); MSG_CMSG_CLOEXEC is added. A
 * signal does not interrupt it. ret_fds[fd_max] gets the descriptors that came,
 * which are the caller's, then -1; the kernel closes those beyond fd_max. The
 * bytes that came (0: the end), or the errno of recvmsg(2), -EINVAL.
 */
ssize_t fgt_fd_message_receive(int socket_fd, const struct iovec *parts,
			       size_t part_count, int *ret_fds, size_t fd_max,
			       int flags);

#endif
