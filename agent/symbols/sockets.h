/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the sockets lead that threads of a slice wait for. The kernel lists
 * the sockets of a network namespace, and answers questions about UNIX sockets
 * of the caller's.
 */
#ifndef FGT_AGENT_SYMBOLS_SOCKETS_H
#define FGT_AGENT_SYMBOLS_SOCKETS_H

#include "ringbuf/slice/slice.h"

/*
 * Sets the object of each wait for "socket:[INODE]", or for several descriptors
 * with such ones among them ("3 (socket:[INODE])"), that is listed below
 * proc_fd (/proc/PID): "tcp to 10.0.0.5:5432", "tcp from 10.0.0.9 at port 6379",
 * "tcp port 80" (listens), "udp …", "unix /run/x.sock". Ports that were given
 * for one connection are left out, so that its texts are the same as the next
 * one's. Reads nothing if there is no such wait, and 8 MiB of a list at most
 * (60,000 sockets). UNIX sockets of another network namespace have no object.
 * -ENOMEM.
 *
 * MT-Safe (for different slices) | AS-Unsafe
 */
int fgt_sockets_name(struct fgt_ring_slice *slice, int proc_fd);

#endif
