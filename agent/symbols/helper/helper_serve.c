/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's side of the symbol helper: answers requests until the daemon
 * closes the socket. Runs in the helper process; must not keep a descriptor of
 * the daemon, nor run without an alarm while it reads a file.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "agent/children/confinement.h"
#include "agent/children/self_child.h"
#include "agent/symbols/elf/checksum.h"
#include "agent/symbols/elf/symbol_image.h"
#include "agent/symbols/helper/helper.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd_message.h"
#include "ringbuf/base/sink.h"

#define IMAGES_MAX	 32
#define IMAGES_MAX_BYTES (256ull << 20)
#define DWARF_MAX_NS	 2000000000ull /* then lines are given up */
#define IDLE_MAX_MS	 30000 /* then all images are closed */
#define MEMORY_MAX_BYTES (1536ull << 20) /* on top of what is mapped */
#define FILES_MAX	 128 /* descriptors */

struct image_slot {
	uint64_t image; /* the daemon's number, 0: free */
	uint64_t used; /* when: larger is later */
	struct fgt_symbol_image *opened;
};

struct server {
	int fd;
	struct image_slot slots[IMAGES_MAX];
	uint64_t uses;
	struct fgt_memory_sink reply;
	bool is_filtered; /* cannot open files */
};

/*
 * Without a filter of system calls: while a file is read, nothing can be
 * opened. Hostile DWARF names other files, and libdw would follow it.
 */
static void allow_files(const struct server *server, bool is_allowed)
{
	if (!server->is_filtered)
		fgt_confinement_limit(RLIMIT_NOFILE,
				      is_allowed ? FILES_MAX : 0);
}

static void set_alarm(unsigned int seconds)
{
	const struct itimerval timer = { .it_value.tv_sec = seconds };

	setitimer(ITIMER_REAL, &timer, NULL);
}

static void clear_slot(struct image_slot *slot)
{
	fgt_symbol_image_close(slot->opened);
	memset(slot, 0, sizeof(*slot));
}

static struct image_slot *find_slot(struct server *server, uint64_t image)
{
	for (size_t i = 0; i < IMAGES_MAX; i++)
		if (server->slots[i].image == image)
			return &server->slots[i];
	return NULL;
}

/* The slot that was used least recently, other than one; NULL if none. */
static struct image_slot *find_oldest(struct server *server,
				      const struct image_slot *but)
{
	struct image_slot *oldest = NULL;

	for (size_t i = 0; i < IMAGES_MAX; i++) {
		struct image_slot *slot = &server->slots[i];

		if (slot != but && slot->image &&
		    (!oldest || slot->used < oldest->used))
			oldest = slot;
	}
	return oldest;
}

/* Closes images, the least recently used first, until the rest is small. */
static void trim(struct server *server, const struct image_slot *kept)
{
	struct image_slot *oldest;
	uint64_t total;

	for (;;) {
		total = 0;
		for (size_t i = 0; i < IMAGES_MAX; i++)
			if (server->slots[i].image)
				total += fgt_symbol_image_count_bytes(
					server->slots[i].opened);
		oldest = find_oldest(server, kept);
		if (total <= IMAGES_MAX_BYTES || !oldest)
			return;
		clear_slot(oldest);
	}
}

static int open_slot(struct server *server, uint64_t image, bool want_dwarf,
		     struct fgt_image_files *files,
		     struct image_slot **ret_slot)
{
	struct image_slot *slot = find_slot(server, image);
	int error;

	if (!slot)
		slot = find_slot(server, 0);
	if (!slot)
		slot = find_oldest(server, NULL);
	clear_slot(slot);
	error = fgt_symbol_image_open(files, want_dwarf, &slot->opened);
	if (error)
		return error;
	slot->image = image;
	trim(server, slot);
	*ret_slot = slot;
	return 0;
}

static int answer_addresses(struct server *server, struct image_slot *slot,
			    const struct fgt_helper_request *request,
			    const uint64_t *addresses)
{
	int error;

	allow_files(server, false);
	error = fgt_symbol_image_find(
		slot->opened, addresses, request->address_count,
		(enum fgt_demangle)request->demangle,
		fgt_clock_ns(CLOCK_MONOTONIC) + DWARF_MAX_NS, &server->reply);
	allow_files(server, true);
	return error;
}

/* The alarm ends what takes too long. */
static int answer_checksum(struct server *server, int fd)
{
	uint32_t crc;
	int error = fgt_checksum_read(fd, UINT64_MAX, &crc);

	return error ? error
		     : fgt_sink_write(&server->reply.sink, &crc, sizeof(crc));
}

static int answer_ident(struct server *server, int fd)
{
	struct fgt_elf_ident ident;
	int error = fgt_elf_ident_read(fd, &ident);

	return error ? error
		     : fgt_sink_write(&server->reply.sink, &ident,
				      sizeof(ident));
}

static int answer(struct server *server,
		  const struct fgt_helper_request *request,
		  const uint64_t *addresses, struct fgt_image_files *files)
{
	struct image_slot *slot;
	int error = 0;

	if (request->image == FGT_HELPER_CHECKSUM)
		return answer_checksum(server, files->image_fd);
	if (request->image == FGT_HELPER_IDENT)
		return answer_ident(server, files->image_fd);
	slot = find_slot(server, request->image);
	if (files->image_fd >= 0)
		error = open_slot(server, request->image, request->want_dwarf,
				  files, &slot);
	if (error)
		return error;
	if (!slot)
		return -ENOENT;
	slot->used = ++server->uses;
	return answer_addresses(server, slot, request, addresses);
}

static void send_all(int fd, const void *data, size_t len)
{
	if (fgt_fd_write(fd, data, len) < 0)
		_exit(0);
}

/* In the order in which they were sent. */
static void take_files(const int fds[3], uint32_t bits,
		       struct fgt_image_files *files)
{
	int *const places[] = { &files->image_fd, &files->debug_fd,
				&files->alt_fd };

	for (size_t i = 0; i < 3; i++)
		if (bits & 1u << i)
			*places[i] = *fds++;
}

/* Reads the head with the descriptors, then the addresses. */
static void receive_request(int fd, struct fgt_helper_request *request,
			    uint64_t *addresses, struct fgt_image_files *files)
{
	const struct iovec part = { request, sizeof(*request) };
	size_t addresses_len;
	int fds[3];

	if (fgt_fd_message_receive(fd, &part, 1, fds, 3, MSG_WAITALL) !=
		    sizeof(*request) ||
	    request->address_count > FGT_HELPER_ADDRESSES_MAX)
		_exit(0);
	take_files(fds, request->files, files);
	addresses_len = request->address_count * sizeof(*addresses);
	if (fgt_fd_read(fd, addresses, addresses_len) != (ssize_t)addresses_len)
		_exit(0);
}

/* Waits for the next request; frees all memory after IDLE_MAX_MS. */
static void wait_for_request(struct server *server)
{
	struct pollfd entry = { .fd = server->fd, .events = POLLIN };

	while (poll(&entry, 1, IDLE_MAX_MS) <= 0) {
		for (size_t i = 0; i < IMAGES_MAX; i++)
			clear_slot(&server->slots[i]);
		fgt_memory_sink_done(&server->reply);
		malloc_trim(0);
	}
}

static void __attribute__((noreturn)) serve(struct server *server)
{
	static uint64_t addresses[FGT_HELPER_ADDRESSES_MAX];

	for (;;) {
		struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
		struct fgt_helper_request request;
		struct fgt_helper_reply reply;

		wait_for_request(server);
		receive_request(server->fd, &request, addresses, &files);
		set_alarm(FGT_HELPER_REQUEST_MAX_S);
		server->reply.len_bytes = 0;
		reply.error = answer(server, &request, addresses, &files);
		if (reply.error)
			server->reply.len_bytes = 0;
		reply.len = (uint32_t)server->reply.len_bytes;
		fgt_image_files_close(&files);
		send_all(server->fd, &reply, sizeof(reply));
		send_all(server->fd, server->reply.bytes, reply.len);
		set_alarm(0);
	}
}

void fgt_helper_serve_if_asked(int argc, char **argv)
{
	static const struct fgt_confinement confinement = {
		.memory_bytes = MEMORY_MAX_BYTES,
		.files = FILES_MAX,
		.set_filter = fgt_syscall_filter_set,
	};
	static struct server server = { .fd = FGT_SELF_CHILD_FD };

	if (!fgt_self_child_is_asked(argc, argv, FGT_HELPER_NAME,
				     FGT_HELPER_VERB))
		return;
	fgt_memory_sink_init(&server.reply, FGT_HELPER_REPLY_MAX);
	server.is_filtered = fgt_confinement_enter(&confinement);
	serve(&server);
}
