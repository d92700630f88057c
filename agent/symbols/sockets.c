/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's lists of sockets (proc_net(5)). Runs in threads that make
 * slices; must not read a list into which users write: that of UNIX sockets.
 */
#include "agent/symbols/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/symbols/unix_name.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/owner.h"

#define LIST_MAX_BYTES	(8 << 20)
#define NAME_MAX_BYTES	128
#define NAMED_MAX_BYTES 1024 /* of a text with names */
#define UNIX_MAX	1024 /* asked for, each in its turn */
#define PREFIX		"socket:["
#define TCP_LISTEN	10u

/* A socket that is waited for. */
struct sought {
	uint64_t inode;
	uint32_t name; /* string id; 0: not found yet */
};

struct socket_search {
	struct fgt_ring_slice *slice;
	struct sought *sockets; /* by inode */
	size_t count;
	size_t left; /* to be found */
};

/* The next socket of a wait's text from there on, which is moved behind it: in
 * an open bracket or at the text's beginning, and not part of a path. NULL:
 * none is left. */
static const char *next_socket(const char *text, const char **at,
			       uint64_t *ret_inode)
{
	const char *found = *at;
	char *end;

	for (; (found = strstr(found, PREFIX)); found = end) {
		*ret_inode = strtoull(found + strlen(PREFIX), &end, 10);
		if (*ret_inode && *end == ']' &&
		    (found == text || found[-1] == '(')) {
			*at = end + 1;
			return found;
		}
	}
	return NULL;
}

/* Its text, if that may name sockets; "" without, or if it has a name. */
static const char *text_of(const struct fgt_ring_slice *slice,
			   const struct fgt_slice_wait *wait)
{
	const char *text = fgt_slice_string(slice, wait->text);

	if (wait->object || (wait->kind != FGT_WAIT_EVENTS &&
			     (wait->kind != FGT_WAIT_DESCRIPTOR ||
			      strncmp(text, PREFIX, strlen(PREFIX)) != 0)))
		return "";
	return text;
}

static int compare_sockets(const void *left, const void *right)
{
	const struct sought *a = left, *b = right;

	return (a->inode > b->inode) - (a->inode < b->inode);
}

/* The number of those that are left: each once. */
static size_t sort_sockets(struct sought *sockets, size_t count)
{
	size_t kept = 0;

	FGT_ARRAY_SORT(sockets, count, compare_sockets);
	for (size_t i = 0; i < count; i++)
		if (!kept || sockets[kept - 1].inode != sockets[i].inode)
			sockets[kept++] = sockets[i];
	return kept;
}

static struct sought *find_socket(const struct socket_search *search,
				  uint64_t inode)
{
	size_t at = FGT_ARRAY_BISECT(i, search->count,
				     search->sockets[i].inode < inode);

	return at < search->count && search->sockets[at].inode == inode
		       ? &search->sockets[at]
		       : NULL;
}

static int set_name(struct socket_search *search, struct sought *socket,
		    const char *name)
{
	uint32_t id;
	int error = fgt_strings_intern(&search->slice->strings, name,
				       strlen(name), &id);

	if (error)
		return error;
	if (!socket->name)
		search->left--;
	socket->name = id;
	return 0;
}

/* ---- Lines ------------------------------------------------------------- */

/* "0100007F:1538", or four such words of IPv6: each in the machine's order. */
static bool parse_address(const char *text, struct fgt_wait_peer *ret_address)
{
	const char *colon = strchr(text, ':');
	size_t digits = colon ? (size_t)(colon - text) : 0;
	char word[9] = "";

	if ((digits != 8 && digits != 32) ||
	    sscanf(colon, ":%4" SCNx16, &ret_address->port) != 1)
		return false;
	ret_address->is_six = digits == 32;
	for (size_t i = 0; i < digits / 8; i++) {
		uint32_t number;

		memcpy(word, text + 8 * i, 8);
		number = (uint32_t)strtoul(word, NULL, 16);
		memcpy(ret_address->address + 4 * i, &number, 4);
	}
	return true;
}

static int take_inet(struct socket_search *search, const char *protocol,
		     const char *line)
{
	char local_text[48], remote_text[48], name[NAME_MAX_BYTES];
	struct fgt_wait_peer local, remote;
	struct sought *socket;
	unsigned int state;
	uint64_t inode;

	if (sscanf(line, " %*d: %47s %47s %X %*s %*s %*s %*s %*s %" SCNu64,
		   local_text, remote_text, &state, &inode) != 4)
		return 0;
	socket = find_socket(search, inode);
	if (!socket || !parse_address(local_text, &local) ||
	    !parse_address(remote_text, &remote))
		return 0;
	fgt_wait_name_socket(protocol, local.port, &remote,
			     state == TCP_LISTEN && !strcmp(protocol, "tcp"),
			     name, sizeof(name));
	return set_name(search, socket, name);
}

/* Of kinds without a peer: the inode is the last number of the line. */
static int take_other(struct socket_search *search, const char *protocol,
		      const char *line)
{
	struct sought *socket;
	uint64_t inode = 0;
	int next;

	for (int at = 0; sscanf(line + at, "%*s%n", &next) == 0; at += next)
		(void)sscanf(line + at, "%" SCNu64, &inode);
	socket = find_socket(search, inode);
	if (!socket)
		return 0;
	return set_name(search, socket, protocol);
}

/* ---- Lists ------------------------------------------------------------- */

struct list {
	const char *path; /* below a process's directory in /proc */
	const char *protocol;
	int (*take)(struct socket_search *search, const char *protocol,
		    const char *line);
};

static int read_list(struct socket_search *search, int proc_fd,
		     const struct list *list)
{
	FGT_AUTO(fgt_fd_close)
	int fd = openat(proc_fd, list->path, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
	char line[512];
	size_t len = 0;
	int error = 0;

	if (!file)
		return 0;
	FGT_TAKE_FD(fd);
	while (!error && len < LIST_MAX_BYTES &&
	       fgets(line, sizeof(line), file)) {
		len += strlen(line);
		error = list->take(search, list->protocol, line);
	}
	fclose(file);
	return error;
}

/* Those that no list has. */
static int ask_for_unix(struct socket_search *search)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	char name[NAME_MAX_BYTES];
	size_t asked = 0;
	int error = 0;

	for (size_t i = 0; i < search->count && asked < UNIX_MAX && !error;
	     i++) {
		struct sought *socket = &search->sockets[i];

		if (socket->name)
			continue;
		if (asked++ == 0)
			fd = fgt_unix_name_open();
		if (fd < 0)
			return 0;
		if (fgt_unix_name_get(fd, socket->inode, name, sizeof(name)))
			error = set_name(search, socket, name);
	}
	return error;
}

/* The text with names in the place of sockets. False: none has one. */
static bool replace(const struct socket_search *search, const char *text,
		    char *named, size_t size)
{
	const char *at = text, *copied = text, *found;
	size_t len = 0;
	bool has_name = false;
	uint64_t inode;

	named[0] = '\0';
	while (len < size && (found = next_socket(text, &at, &inode))) {
		const struct sought *socket = find_socket(search, inode);

		if (!socket || !socket->name)
			continue;
		len += (size_t)snprintf(
			named + len, size - len, "%.*s%s",
			(int)(found - copied), copied,
			fgt_slice_string(search->slice, socket->name));
		copied = at;
		has_name = true;
	}
	if (len < size)
		snprintf(named + len, size - len, "%s", copied);
	return has_name;
}

static int set_objects(const struct socket_search *search)
{
	struct fgt_ring_slice *slice = search->slice;
	char named[NAMED_MAX_BYTES];
	int error = 0;

	for (uint32_t i = 0; i < slice->wait_count && !error; i++) {
		struct fgt_slice_wait *wait = &slice->waits[i];

		if (replace(search, text_of(slice, wait), named, sizeof(named)))
			error = fgt_strings_intern(&slice->strings, named,
						   strlen(named),
						   &wait->object);
	}
	return error;
}

/* Those of all waits, in the order of these. sockets NULL: counts them. */
static size_t list_sockets(const struct fgt_ring_slice *slice,
			   struct sought *sockets)
{
	size_t count = 0;

	for (uint32_t i = 0; i < slice->wait_count; i++) {
		const char *text = text_of(slice, &slice->waits[i]), *at = text;
		uint64_t inode;

		for (; next_socket(text, &at, &inode); count++)
			if (sockets)
				sockets[count].inode = inode;
	}
	return count;
}

int fgt_sockets_name(struct fgt_ring_slice *slice, int proc_fd)
{
	static const struct list lists[] = {
		{ "net/tcp", "tcp", take_inet },
		{ "net/tcp6", "tcp", take_inet },
		{ "net/udp", "udp", take_inet },
		{ "net/udp6", "udp", take_inet },
		{ "net/netlink", "netlink", take_other },
		{ "net/packet", "packet", take_other },
	};
	struct socket_search search = { .slice = slice };
	int error = 0;

	if (proc_fd < 0)
		return 0;
	search.count = list_sockets(slice, NULL);
	if (!FGT_ARRAY_NEW(search.sockets, search.count))
		return -ENOMEM;
	list_sockets(slice, search.sockets);
	search.left = search.count = sort_sockets(search.sockets, search.count);
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists) && search.left;
	     i++)
		error = error ? error : read_list(&search, proc_fd, &lists[i]);
	if (!error && search.left)
		error = ask_for_unix(&search);
	if (!error)
		error = set_objects(&search);
	free(search.sockets);
	return error;
}
