/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Where a socket leads, for switches.bpf.c alone. Runs in the kernel, when the
 * sampler asks.
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_SOCKET_BPF_H
#define FGT_AGENT_CAPTURE_WHO_RAN_SOCKET_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "agent/capture/who_ran/kernel_types.bpf.h"
#include "agent/capture/who_ran/switch_slot.h"

#define AF_UNIX	     1
#define AF_INET	     2
#define FAMILY_BYTES 2 /* of a name, before its text */
#define SOCKFS_MAGIC 0x534F434Bu /* include/uapi/linux/magic.h */

static __always_inline struct file *file_of(struct task_struct *task,
					    unsigned int descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = 0;

	if (descriptor < BPF_CORE_READ(table, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	return file;
}

/* The process's first thread. */
static __always_inline struct task_struct *task_of(struct file *proc_dir)
{
	char *inode = (char *)BPF_CORE_READ(proc_dir, f_inode), *link;
	struct proc_inode *proc =
		(struct proc_inode *)(inode -
				      bpf_core_field_offset(struct proc_inode,
							    vfs_inode));

	link = (char *)BPF_CORE_READ(proc, pid, tasks[PIDTYPE_TGID].first);
	return link ? (struct task_struct *)(link -
					     bpf_core_field_offset(
						     struct task_struct,
						     pid_links[PIDTYPE_TGID]))
		    : 0;
}

static __always_inline void read_inet(struct fgt_switch_socket *found,
				      struct sock *sock)
{
	struct in6_addr six = {};

	found->protocol = BPF_CORE_READ(sock, sk_protocol);
	found->state = BPF_CORE_READ(sock, __sk_common.skc_state);
	found->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
	found->remote_port =
		__builtin_bswap16(BPF_CORE_READ(sock, __sk_common.skc_dport));
	if (found->family == AF_INET)
		six.words[0] = BPF_CORE_READ(sock, __sk_common.skc_daddr);
	else if (bpf_core_field_exists(sock->__sk_common.skc_v6_daddr))
		BPF_CORE_READ_INTO(&six, sock, __sk_common.skc_v6_daddr);
	__builtin_memcpy(found->remote, &six, sizeof(found->remote));
}

/* A client has no name: that of the server's end is the address. */
static __always_inline void read_unix(struct fgt_switch_socket *found,
				      struct unix_sock *sock)
{
	struct unix_address *address = BPF_CORE_READ(sock, addr);
	struct unix_sock *peer = (struct unix_sock *)BPF_CORE_READ(sock, peer);
	char name[FGT_SWITCH_SOCKET_NAME] __attribute__((aligned(8))) = "";
	int len;

	found->has_peer = peer != 0;
	if (!address && peer)
		address = BPF_CORE_READ(peer, addr);
	if (!address)
		return;
	len = BPF_CORE_READ(address, len) - FAMILY_BYTES;
	if (len > 0 && len <= (int)FGT_SWITCH_SOCKET_NAME &&
	    bpf_probe_read_kernel(
		    name, (unsigned int)len & 127,
		    (char *)address +
			    bpf_core_field_offset(struct unix_address, name) +
			    FAMILY_BYTES) == 0)
		found->name_len = (unsigned short)len;
	__builtin_memcpy(found->name, name, sizeof(name));
	/* A datagram socket may have got another peer meanwhile. */
	if (BPF_CORE_READ(sock, peer) != (struct sock *)peer ||
	    (BPF_CORE_READ(sock, addr) != address &&
	     BPF_CORE_READ(peer, addr) != address))
		found->family = 0;
}

/*
 * Where a socket of another process leads. Takes no reference: one would keep
 * the socket open where the process closes it meanwhile. What is freed by then
 * is read as it is, so the file is compared afterwards.
 */
SEC("syscall")
int find_socket(struct fgt_switch_socket *asked)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct file *file;
	struct socket *socket;
	struct sock *sock;

	task = task_of(file_of(task, (unsigned int)asked->proc_fd));
	file = file_of(task, (unsigned int)asked->descriptor);
	if (!file ||
	    BPF_CORE_READ(file, f_inode, i_sb, s_magic) != SOCKFS_MAGIC ||
	    BPF_CORE_READ(file, f_inode, i_ino) != asked->inode)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	sock = BPF_CORE_READ(socket, sk);
	asked->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (asked->family == AF_UNIX && bpf_core_type_exists(struct unix_sock))
		read_unix(asked, (struct unix_sock *)sock);
	else
		read_inet(asked, sock);
	if (file_of(task, (unsigned int)asked->descriptor) != file ||
	    BPF_CORE_READ(file, f_inode, i_ino) != asked->inode ||
	    BPF_CORE_READ(socket, sk) != sock)
		asked->family = 0;
	return 0;
}

#endif
