/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a descriptor is that a thread waits for, by its link and, of a socket,
 * by the kernel's record: the file is not touched. Where that leads is asked by
 * BPF: any other way would list all sockets of the machine, or hold this one
 * open. A thread waits for one many times: its name is kept for a second.
 * Runs in the sampler's thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/capture/look/look_parts.h"
#include "agent/capture/threads/procfs.h"

#define SOCKETS_KEPT 256u
#define KEPT_NS	     1000000000u
/* CPU time: lists of about a thousand entries take longer. */
#define EPOLL_NS_MAX 1000000

struct fgt_look_sockets {
	struct kept {
		uint64_t inode, asked_ns;
		char text[64]; /* longer ones are not kept */
	} kept[SOCKETS_KEPT];
};

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

static void ask(const struct fgt_look *look, int32_t descriptor, uint64_t inode,
		char *text, size_t size)
{
	struct fgt_switch_socket socket = {
		.proc_fd = look->process.proc_fd,
		.descriptor = descriptor,
		.inode = inode,
	};

	if (look->switches->provider->find_socket(look->switches, &socket) < 0)
		return;
	if (socket.family == AF_INET || socket.family == AF_INET6)
		name_inet(&socket, text, size);
	else if (socket.family == AF_UNIX && socket.name_len)
		fgt_wait_name_unix(socket.name, socket.name_len, text, size);
	else if (socket.family == AF_UNIX && socket.has_peer)
		snprintf(text, size, "unix socketpair");
}

static void name_socket(struct fgt_look *look, int32_t descriptor, char *text,
			size_t size)
{
	struct kept *kept;
	uint64_t inode;

	if (!look->switches || !look->switches->provider->find_socket ||
	    sscanf(text, "socket:[%" SCNu64 "]", &inode) != 1)
		return;
	if (!look->sockets)
		look->sockets = calloc(1, sizeof(*look->sockets));
	if (!look->sockets)
		return;
	kept = &look->sockets->kept[inode % SOCKETS_KEPT];
	if (kept->inode == inode && look->tick_ns - kept->asked_ns < KEPT_NS) {
		snprintf(text, size, "%s", kept->text);
		return;
	}
	ask(look, descriptor, inode, text, size);
	kept->inode = 0;
	if (strlen(text) >= sizeof(kept->text) ||
	    strncmp(text, "socket", 6) == 0)
		return;
	kept->inode = inode;
	kept->asked_ns = look->tick_ns;
	strcpy(kept->text, text);
}

bool fgt_look_describe(struct fgt_look *look, const struct fgt_thread *thread,
		       int32_t descriptor, char *text, size_t size)
{
	int proc_fd = look->process.proc_fd;
	char name[48];

	snprintf(name, sizeof(name), "fd/%d", descriptor);
	if (fgt_procfs_link(proc_fd, name, text, size) < 0) {
		/* The process's first thread may have ended: it has none. */
		snprintf(name, sizeof(name), "task/%d/fd/%d", thread->tid,
			 descriptor);
		if (fgt_procfs_link(proc_fd, name, text, size) < 0)
			return false;
	}
	name_socket(look, descriptor, text, size);
	return true;
}

static int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A program may keep that list locked: see fgt_call_enter(). */
int fgt_look_list_epoll(struct fgt_look *look, int32_t descriptor, char *text,
			size_t size)
{
	int64_t begin_ns = cpu_ns();
	char name[32];
	int len;

	if (look->has_long_epoll)
		return -EBUSY;
	snprintf(name, sizeof(name), "fdinfo/%d", descriptor);
	len = fgt_procfs_read(look->process.proc_fd, name, text, size);
	look->has_long_epoll = cpu_ns() - begin_ns > EPOLL_NS_MAX;
	return len;
}
