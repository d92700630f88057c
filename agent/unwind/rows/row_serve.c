/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row server: reads the files of one user, and answers until its socket is
 * closed. Runs in a process that is confined; must not keep a descriptor of the
 * daemon, nor run for long without an alarm.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "agent/children/confinement.h"
#include "agent/children/self_child.h"
#include "agent/context/payload.h"
#include "agent/unwind/maps/image_file.h"
#include "agent/unwind/rows/rows.h"
#include "agent/unwind/rows/rows_wire.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd_message.h"

#define IMAGES_MAX   2048u /* as many as a cache has */
#define FILES_LEAST  64u
#define MEMORY_BYTES ((uint64_t)768 << 20) /* rules, and reading them */
#define IDLE_MS	     10000
#define ALARM_S	     3 /* the daemon ends it after 1 s, if it lives */
#define TEND_NS	     UINT64_C(1000000000)
#define RULES_USUAL  ((uint64_t)256 << 20)
#define NICE	     (-10) /* as the sampler, which waits for it */

struct served {
	uint64_t image; /* the daemon's number */
	uint64_t used; /* when: larger is later */
	struct fgt_image_file *file;
};

struct row_serve {
	struct fgt_image_cache *cache;
	struct served images[IMAGES_MAX];
	size_t count, images_max;
	uint64_t uses, tended_ns, rules_max;
	bool has_alarm;
	uint8_t payload[FGT_ROWS_REPLY_MAX];
	size_t payload_len;
};

/* ---- The alarm -------------------------------------------------------------- */

/* Odd while a request is answered. */
static atomic_uint requests;

/* The same request as at the last alarm: without a daemon that would end it. */
static void on_alarm(int number)
{
	static unsigned int seen;
	unsigned int now =
		atomic_load_explicit(&requests, memory_order_relaxed);

	(void)number;
	if ((now & 1) && now == seen)
		_exit(1);
	seen = now;
}

static void set_alarm(struct row_serve *server, bool is_on)
{
	const struct itimerval timer = {
		.it_value.tv_sec = is_on ? ALARM_S : 0,
		.it_interval.tv_sec = is_on ? ALARM_S : 0,
	};

	if (server->has_alarm == is_on)
		return;
	server->has_alarm = is_on;
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- Images ----------------------------------------------------------------- */

static struct served *find_image(struct row_serve *server, uint64_t image)
{
	for (size_t i = 0; i < server->count; i++)
		if (server->images[i].image == image)
			return &server->images[i];
	return NULL;
}

static void close_image(struct row_serve *server, struct served *served)
{
	fgt_image_file_put(served->file);
	*served = server->images[--server->count];
}

static void make_room(struct row_serve *server)
{
	struct served *oldest = &server->images[0];

	if (server->count < server->images_max)
		return;
	for (size_t i = 1; i < server->count; i++)
		if (server->images[i].used < oldest->used)
			oldest = &server->images[i];
	close_image(server, oldest);
}

/* Takes fd over. */
static int open_image(struct row_serve *server, uint64_t image, int fd)
{
	const struct fgt_image_key key = { .dev = 0, .ino = image };
	struct served *known = find_image(server, image);
	struct fgt_image_file *file;
	int r;

	if (known)
		close_image(server, known);
	make_room(server);
	r = fgt_image_cache_add(server->cache, fd, &key, 0, &file);
	if (r < 0)
		return r;
	server->images[server->count++] =
		(struct served){ .image = image, .file = file };
	return 0;
}

/* ---- Answers ---------------------------------------------------------------- */

static void answer_elf(struct row_serve *server,
		       const struct fgt_image_file *file)
{
	const struct fgt_elf *elf = fgt_image_file_elf(file);
	struct fgt_rows_elf sent;

	memset(&sent, 0, sizeof(sent));
	sent.load_count = elf->load_count;
	for (uint32_t i = 0; i < elf->load_count; i++) {
		sent.loads[i].address = elf->loads[i].address;
		sent.loads[i].offset = elf->loads[i].offset;
		sent.loads[i].file_size = elf->loads[i].file_size;
		sent.loads[i].is_executable = elf->loads[i].is_executable;
		sent.loads[i].is_writable = elf->loads[i].is_writable;
	}
	sent.build_id_len = elf->build_id_len;
	sent.build_id_address = elf->build_id_address;
	sent.tls_kind = elf->thread_context.kind;
	sent.tls_word = elf->thread_context.word;
	sent.tls_offset = elf->thread_context.offset;
	memcpy(sent.build_id, elf->build_id, elf->build_id_len);
	memcpy(server->payload, &sent, sizeof(sent));
	server->payload_len = sizeof(sent);
}

static int answer_page(struct row_serve *server, struct fgt_image_file *file,
		       uint64_t number)
{
	uint32_t len;
	int r = fgt_image_file_read_page(file, 0, number, server->payload,
					 &len);

	if (r == 0)
		server->payload_len = len;
	return r < 0 ? -EIO : 0;
}

static int answer_row(struct row_serve *server, struct fgt_image_file *file,
		      uint64_t address)
{
	struct fgt_rows_row sent;
	struct fgt_cfi_rule rule;
	int r = fgt_image_file_find_rule(file, address, &rule);

	if (r < 0)
		return r;
	memset(&sent, 0, sizeof(sent));
	sent.start = rule.start;
	sent.end = rule.end;
	sent.saved = fgt_cfi_rule_count_saved(&rule);
	sent.is_signal_frame = rule.is_signal_frame;
	if (fgt_cfi_row_read(&rule, address, &sent.row) < 0)
		sent.row = (struct fgt_cfi_row){ .flags = FGT_CFI_ROW_COMPLEX };
	fgt_image_file_fix_row(file, address, &sent.row);
	if (rule.is_signal_frame)
		sent.row.flags |= FGT_CFI_ROW_SIGNAL;
	memcpy(server->payload, &sent, sizeof(sent));
	server->payload_len = sizeof(sent);
	return 0;
}

static int answer_rule(struct row_serve *server, struct fgt_image_file *file,
		       uint64_t address)
{
	struct fgt_rows_rule sent;
	struct fgt_cfi_rule rule;
	uint8_t *at = server->payload + sizeof(sent);
	int r = fgt_image_file_find_rule(file, address, &rule);

	if (r < 0)
		return r;
	if (rule.common_len > FGT_ROWS_INSTRUCTIONS_MAX ||
	    rule.instructions_len > FGT_ROWS_INSTRUCTIONS_MAX - rule.common_len)
		return -EBADMSG;
	memset(&sent, 0, sizeof(sent));
	sent.start = rule.start;
	sent.end = rule.end;
	sent.code_align = rule.code_align;
	sent.data_align = rule.data_align;
	sent.return_column = rule.return_column;
	sent.is_signal_frame = rule.is_signal_frame;
	sent.common_len = (uint32_t)rule.common_len;
	sent.instructions_len = (uint32_t)rule.instructions_len;
	memcpy(server->payload, &sent, sizeof(sent));
	memcpy(at, rule.common, rule.common_len);
	memcpy(at + rule.common_len, rule.instructions, rule.instructions_len);
	server->payload_len =
		sizeof(sent) + rule.common_len + rule.instructions_len;
	return 0;
}

/* Not kept: a payload is asked about once. Takes fd over. */
static int answer_service(struct row_serve *server, int fd)
{
	static uint8_t bytes[FGT_CONTEXT_PAYLOAD_MAX];
	struct fgt_service service;
	ssize_t len;
	int r;

	if (fd < 0)
		return -EBADF;
	len = pread(fd, bytes, sizeof(bytes), 0);
	close(fd);
	if (len < 0)
		return -EIO;
	memset(&service, 0, sizeof(service));
	r = fgt_context_payload_read(bytes, (size_t)len, &service);
	memcpy(server->payload, &service, sizeof(service));
	server->payload_len = sizeof(service);
	return r;
}

static int answer(struct row_serve *server,
		  const struct fgt_rows_request *request, int fd)
{
	struct served *served;
	int r;

	if (request->verb == FGT_ROWS_SERVICE)
		return answer_service(server, fd);
	r = fd < 0 ? 0 : open_image(server, request->image, fd);

	if (r < 0)
		return r;
	served = find_image(server, request->image);
	if (!served)
		return -EBADF;
	served->used = ++server->uses;
	switch (request->verb) {
	case FGT_ROWS_ELF:
		answer_elf(server, served->file);
		return 0;
	case FGT_ROWS_PAGE:
		return answer_page(server, served->file, request->address);
	case FGT_ROWS_ROW:
		return answer_row(server, served->file, request->address);
	case FGT_ROWS_RULE:
		return answer_rule(server, served->file, request->address);
	default:
		return -EINVAL;
	}
}

/* ---- Messages --------------------------------------------------------------- */

/* Ends the process when there will be no more. */
static void receive(struct fgt_rows_request *request, int *ret_fd)
{
	const struct iovec part = { request, sizeof(*request) };

	if (fgt_fd_message_receive(FGT_SELF_CHILD_FD, &part, 1, ret_fd, 1, 0) !=
	    sizeof(*request))
		_exit(0);
}

static void reply(struct row_serve *server,
		  const struct fgt_rows_request *request, int error)
{
	struct fgt_image_cache_counters counters;
	struct fgt_rows_reply head = { .number = request->number,
				       .error = error };
	const struct iovec parts[] = {
		{ &head, sizeof(head) },
		{ server->payload, error ? 0 : server->payload_len },
	};

	fgt_image_cache_get_counters(server->cache, &counters);
	head.counts.cfi_bytes = counters.cfi_bytes;
	head.counts.given_back = counters.given_back;
	head.counts.refused = counters.refused_cfi;
	if (fgt_fd_message_send(FGT_SELF_CHILD_FD, parts, 2, NULL, 0, 0) < 0)
		_exit(0);
}

static void wait_for_request(struct row_serve *server)
{
	struct pollfd entry = { .fd = FGT_SELF_CHILD_FD, .events = POLLIN };

	while (poll(&entry, 1, server->has_alarm ? IDLE_MS : -1) <= 0) {
		set_alarm(server, false);
		malloc_trim(0);
	}
}

/* The cache's own clock, and its limit, which other servers share. */
static void tend(struct row_serve *server,
		 const struct fgt_rows_request *request)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	if (request->rules_max && request->rules_max != server->rules_max) {
		server->rules_max = request->rules_max;
		fgt_image_cache_limit_rules(server->cache, server->rules_max);
	}
	if (now_ns - server->tended_ns < TEND_NS)
		return;
	server->tended_ns = now_ns;
	fgt_image_cache_tend(server->cache, now_ns, 0);
}

static void serve_one(struct row_serve *server)
{
	struct fgt_rows_request request;
	struct served *served;
	int fd, r;

	wait_for_request(server);
	receive(&request, &fd);
	set_alarm(server, true);
	atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
	tend(server, &request);
	if (request.verb == FGT_ROWS_FORGET) {
		fgt_fd_close(fd);
		served = find_image(server, request.image);
		if (served)
			close_image(server, served);
		server->tended_ns = 0; /* closes it */
		tend(server, &request);
	} else {
		r = answer(server, &request, fd);
		reply(server, &request, r);
	}
	atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
}

/* A cache takes half of the descriptors. */
static size_t count_images_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur / 2 < FILES_LEAST)
		return FILES_LEAST;
	limit.rlim_cur = limit.rlim_cur / 2 - 1;
	return limit.rlim_cur < IMAGES_MAX ? (size_t)limit.rlim_cur
					   : IMAGES_MAX;
}

void fgt_rows_serve_if_asked(int argc, char **argv)
{
	static struct row_serve server;
	static const struct fgt_confinement confinement = {
		.memory_bytes = MEMORY_BYTES,
		.files = 2 * IMAGES_MAX, /* a cache takes a half */
		.set_filter = fgt_syscall_filter_set,
	};

	if (!fgt_self_child_is_asked(argc, argv, FGT_ROWS_NAME, FGT_ROWS_VERB))
		return;
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	(void)fgt_confinement_enter(&confinement);
	signal(SIGALRM, on_alarm);
	server.rules_max = RULES_USUAL;
	server.images_max = count_images_max();
	if (fgt_image_cache_new(&server.cache) < 0)
		_exit(1);
	for (;;)
		serve_one(&server);
}
