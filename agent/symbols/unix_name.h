/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of UNIX sockets, from the kernel's own answer about one of them
 * (sock_diag(7)). /proc/net/unix cannot be trusted: any user puts a whole line
 * of it into a name.
 *
 * MT-Safe for different descriptors | AS-Unsafe
 */
#ifndef FGT_AGENT_SYMBOLS_UNIX_NAME_H
#define FGT_AGENT_SYMBOLS_UNIX_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A descriptor to ask by, for the sockets of this network namespace; negative
 * errno. */
int fgt_unix_name_open(void);

/*
 * "unix /run/x.sock", "unix @abstract", both also of the client of a connection,
 * "unix socketpair"; what is not printable becomes '?'. size > 0; a longer name
 * is cut. false: no UNIX socket of this network namespace, one without name and
 * peer, or no answer.
 */
bool fgt_unix_name_get(int fd, uint64_t inode, char *ret_name, size_t size);

#endif
