/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a socket leads that a thread waits for, where the kernel can be asked
 * by BPF: any other way would list all sockets of the machine, or hold this one
 * open. Runs in the sampler's thread.
 */
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "agent/capture/look/look_parts.h"

static void name_inet(const struct fgt_switch_socket *socket, char *text,
		      size_t size)
{
	struct fgt_wait_peer peer = { .is_six = socket->family == AF_INET6,
				      .port = socket->remote_port };
	bool is_tcp = socket->protocol == IPPROTO_TCP;

	/* One of TCP that is closed, or not used yet, leads nowhere. */
	if ((!is_tcp && socket->protocol != IPPROTO_UDP) ||
	    (is_tcp && socket->state == TCP_CLOSE) || !socket->local_port)
		return;
	memcpy(peer.address, socket->remote, sizeof(peer.address));
	fgt_wait_name_socket(is_tcp ? "tcp" : "udp", socket->local_port, &peer,
			     is_tcp && socket->state == TCP_LISTEN, text, size);
}

void fgt_look_name_socket(const struct fgt_look *look, int32_t descriptor,
			  char *text, size_t size)
{
	struct fgt_switch_socket socket = { .proc_fd = look->process.proc_fd,
					    .descriptor = descriptor };
	uint64_t inode;

	if (!look->switches || !look->switches->provider->find_socket ||
	    sscanf(text, "socket:[%" SCNu64 "]", &inode) != 1)
		return;
	socket.inode = inode;
	if (look->switches->provider->find_socket(look->switches, &socket) < 0)
		return;
	if (socket.family == AF_INET || socket.family == AF_INET6)
		name_inet(&socket, text, size);
	else if (socket.family == AF_UNIX && socket.name_len)
		fgt_wait_name_unix(socket.name, socket.name_len, text, size);
	else if (socket.family == AF_UNIX && socket.has_peer)
		snprintf(text, size, "unix socketpair");
}
