/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol helper's own side: answers requests until the daemon closes the
 * socket. Runs in a process of its own; must not keep a descriptor of the
 * daemon's, nor run without an alarm while it reads a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "agent/symbols/helper.h"
#include "agent/symbols/symbol_image.h"

#define IMAGES_MAX	 32
#define IMAGES_MAX_BYTES (256ull << 20)
#define MEMORY_MAX_BYTES (1536ull << 20) /* on top of what is mapped */
#define FILES_MAX	 256
#define DWARF_MAX_NS	 2000000000ull /* then lines are given up */
#define IDLE_MAX_MS	 30000 /* then all images are closed */

struct slot {
	uint64_t image; /* the daemon's number, 0: free */
	uint64_t used; /* when: larger is later */
	struct fgt_symbol_image *opened;
};

struct server {
	int fd;
	struct slot slots[IMAGES_MAX];
	uint64_t uses;
	struct fgt_bytes reply;
};

/* Where memory is short the helper goes, not the recorder. */
static void offer_to_be_killed(void)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		return; /* then it is as likely to go as others are */
}

/* Drops what came along: descriptors, signals, the right to dump. */
static void settle(void)
{
	static const int reset[] = { SIGALRM, SIGXCPU, SIGTERM };
	static const int ignored[] = { SIGPIPE, SIGINT, SIGHUP };

	prctl(PR_SET_NAME, FGT_HELPER_NAME);
	offer_to_be_killed();
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	close_range(FGT_HELPER_FD + 1, ~0u, 0);
	for (size_t i = 0; i < sizeof(reset) / sizeof(*reset); i++)
		signal(reset[i], SIG_DFL);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
}

static void set_limit(int resource, uint64_t limit)
{
	struct rlimit value;

	if (getrlimit((__rlimit_resource_t)resource, &value))
		return;
	value.rlim_cur = limit < value.rlim_max ? limit : value.rlim_max;
	setrlimit((__rlimit_resource_t)resource, &value);
}

static void limit_memory(void)
{
	FGT_AUTO(fgt_file_close) FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (file && fscanf(file, "%llu", &pages) == 1)
		set_limit(RLIMIT_AS,
			  pages * (unsigned long long)sysconf(_SC_PAGESIZE) +
				  MEMORY_MAX_BYTES);
}

/*
 * While a file is read, nothing can be opened: hostile DWARF names other
 * files, and libdw would follow it.
 */
static void allow_files(bool is_allowed)
{
	set_limit(RLIMIT_NOFILE, is_allowed ? FILES_MAX : 0);
}

static void set_alarm(unsigned int seconds)
{
	const struct itimerval timer = { .it_value.tv_sec = seconds };

	setitimer(ITIMER_REAL, &timer, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void clear_slot(struct slot *slot)
{
	fgt_symbol_image_close(slot->opened);
	memset(slot, 0, sizeof(*slot));
}

static struct slot *find_slot(struct server *server, uint64_t image)
{
	for (size_t i = 0; i < IMAGES_MAX; i++)
		if (server->slots[i].image == image)
			return &server->slots[i];
	return NULL;
}

/* The slot that was used least recently, other than one; NULL if none. */
static struct slot *find_oldest(struct server *server, const struct slot *but)
{
	struct slot *oldest = NULL;

	for (size_t i = 0; i < IMAGES_MAX; i++) {
		struct slot *slot = &server->slots[i];

		if (slot != but && slot->image &&
		    (!oldest || slot->used < oldest->used))
			oldest = slot;
	}
	return oldest;
}

/* Closes images, the least recently used first, until the rest is small. */
static void trim(struct server *server, const struct slot *kept)
{
	struct slot *oldest;
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
		     struct fgt_image_files *files, struct slot **ret_slot)
{
	struct slot *slot = find_slot(server, image);
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

static int answer_addresses(struct server *server, struct slot *slot,
			    const struct fgt_helper_request *request,
			    const uint64_t *addresses)
{
	uint64_t deadline_ns = now_ns() + DWARF_MAX_NS;
	int error = 0;

	allow_files(false);
	for (uint32_t i = 0; i < request->address_count && !error; i++) {
		size_t at = server->reply.len;
		uint32_t len = 0;

		error = fgt_bytes_append(&server->reply, &len, sizeof(len));
		if (error)
			break;
		error = fgt_symbol_image_find(
			slot->opened, addresses[i],
			(enum fgt_demangle)request->demangle, deadline_ns,
			&server->reply);
		len = (uint32_t)(server->reply.len - at - sizeof(len));
		memcpy(server->reply.data + at, &len, sizeof(len));
	}
	allow_files(true);
	return error;
}

static int answer(struct server *server,
		  const struct fgt_helper_request *request,
		  const uint64_t *addresses, struct fgt_image_files *files)
{
	struct slot *slot = find_slot(server, request->image);
	int error = 0;

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
	const char *bytes = data;

	while (len) {
		ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			_exit(0);
		bytes += sent;
		len -= (size_t)sent;
	}
}

static void take_files(struct msghdr *message, uint32_t bits,
		       struct fgt_image_files *files)
{
	int *const places[] = { &files->image_fd, &files->debug_fd,
				&files->alt_fd };
	struct cmsghdr *head = CMSG_FIRSTHDR(message);
	size_t count = 0, at = 0;

	if (head && head->cmsg_level == SOL_SOCKET &&
	    head->cmsg_type == SCM_RIGHTS)
		count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < 3; i++)
		if ((bits & 1u << i) && at < count)
			memcpy(places[i], CMSG_DATA(head) + at++ * sizeof(int),
			       sizeof(int));
}

/* Reads the head with the descriptors, then the addresses. */
static void receive_request(int fd, struct fgt_helper_request *request,
			    uint64_t *addresses, struct fgt_image_files *files)
{
	struct iovec part = { request, sizeof(*request) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control) };
	size_t len;
	ssize_t got;

	do
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	while (got < 0 && errno == EINTR);
	if (got != sizeof(*request) ||
	    request->address_count > FGT_HELPER_ADDRESSES_MAX)
		_exit(0);
	take_files(&message, request->files, files);
	len = request->address_count * sizeof(*addresses);
	if (len && recv(fd, addresses, len, MSG_WAITALL) != (ssize_t)len)
		_exit(0);
}

/* Waits for the next request; after a while of nothing frees all memory. */
static void wait_for_request(struct server *server)
{
	struct pollfd entry = { .fd = server->fd, .events = POLLIN };

	while (poll(&entry, 1, IDLE_MAX_MS) <= 0) {
		for (size_t i = 0; i < IMAGES_MAX; i++)
			clear_slot(&server->slots[i]);
		fgt_bytes_done(&server->reply);
		server->reply.limit = FGT_HELPER_REPLY_MAX;
		malloc_trim(0);
	}
}

static void __attribute__((noreturn)) serve(int fd)
{
	static struct server server;
	static uint64_t addresses[FGT_HELPER_ADDRESSES_MAX];

	server = (struct server){ .fd = fd,
				  .reply.limit = FGT_HELPER_REPLY_MAX };
	for (;;) {
		struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
		struct fgt_helper_request request;
		struct fgt_helper_reply reply;

		wait_for_request(&server);
		receive_request(fd, &request, addresses, &files);
		set_alarm(FGT_HELPER_REQUEST_MAX_S);
		server.reply.len = 0;
		reply.error = answer(&server, &request, addresses, &files);
		if (reply.error)
			server.reply.len = 0;
		reply.len = (uint32_t)server.reply.len;
		fgt_image_files_close(&files);
		send_all(fd, &reply, sizeof(reply));
		send_all(fd, server.reply.data, reply.len);
		set_alarm(0);
	}
}

void fgt_helper_serve_if_asked(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[0], FGT_HELPER_NAME) ||
	    strcmp(argv[1], FGT_HELPER_VERB))
		return;
	settle();
	limit_memory();
	allow_files(true);
	serve(FGT_HELPER_FD);
}
