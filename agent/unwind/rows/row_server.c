/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a row server, asks it, kills it. Runs in the sampler's thread and in
 * threads that attach targets; must bound every wait and check every length
 * that comes back.
 */
#include "agent/unwind/rows/row_server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/children/self_child.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/fd_message.h"
#include "ringbuf/base/sink.h"

#define MS_NS	     UINT64_C(1000000)
#define MINUTE_NS    UINT64_C(60000000000)
#define BACKOFF_NS   (10 * MS_NS) /* twice as long each time, up to 10 s */
#define BACKOFFS_MAX 10u
/* As for names (fault U6): so many deaths, of which one that took too long
 * counts as two; then a pause of a minute, twice as long each time. */
#define FAILURES_MAX 4u
#define PAUSES_MAX   6u

int fgt_row_server_init(struct fgt_row_server *server, const char *path)
{
	*server =
		(struct fgt_row_server){ .path = path, .fd = -1, .pid_fd = -1 };
	server->reply = malloc(FGT_ROWS_REPLY_MAX);
	return server->reply ? 0 : -ENOMEM;
}

static uint64_t now_of(void)
{
	return fgt_clock_ns(CLOCK_MONOTONIC);
}

/* ---- Start and end -------------------------------------------------------- */

static void reap(struct fgt_row_server *server)
{
	for (unsigned int i = server->lost_count; i-- > 0;)
		if (fgt_self_child_reap(server->lost[i]))
			server->lost[i] = server->lost[--server->lost_count];
}

void fgt_row_server_stop(struct fgt_row_server *server)
{
	server->is_asked = false;
	server->counts.cfi_bytes = 0;
	server->former = server->counts;
	fgt_fd_close(FGT_TAKE_FD(server->fd));
	if (server->pid_fd < 0)
		return;
	/* Not waited for: in a file system's hands it cannot end. */
	fgt_self_child_kill(server->pid_fd);
	server->lost[server->lost_count++] = FGT_TAKE_FD(server->pid_fd);
	reap(server);
}

void fgt_row_server_done(struct fgt_row_server *server)
{
	fgt_row_server_stop(server);
	for (unsigned int i = 0; i < 100 && server->lost_count; i++) {
		const struct timespec pause = { .tv_nsec = MS_NS };

		nanosleep(&pause, NULL);
		reap(server);
	}
	while (server->lost_count)
		fgt_fd_close(server->lost[--server->lost_count]);
	free(server->reply);
}

static int start(struct fgt_row_server *server, uint64_t now_ns)
{
	const struct fgt_self_child child = { .path = server->path,
					      .name = FGT_ROWS_NAME,
					      .verb = FGT_ROWS_VERB,
					      .uid = server->uid,
					      .socket_type = SOCK_SEQPACKET };
	int fd, r;

	reap(server);
	if (now_ns < server->start_ns ||
	    server->lost_count == FGT_ROW_SERVER_LOST)
		return -EAGAIN;
	server->start_ns = now_ns + BACKOFF_NS;
	r = fgt_self_child_start(&child, &fd, &server->pid_fd);
	if (r < 0)
		return r;
	server->pid = fgt_self_child_pid(server->pid_fd);
	server->fd = fgt_fd_apart(fd);
	server->begun_ns = now_ns;
	return 0;
}

void fgt_row_server_start_wanted(struct fgt_row_server *server)
{
	if (server->is_wanted && server->fd < 0)
		(void)start(server, now_of());
	server->is_wanted = false;
}

/* ---- Files that servers died of ------------------------------------------- */

static struct fgt_row_blame *find_blame(struct fgt_row_server *server,
					uint64_t image)
{
	for (unsigned int i = 0; i < FGT_ROW_SERVER_BLAMES; i++)
		if (server->blames[i].image == image)
			return &server->blames[i];
	return NULL;
}

static void blame(struct fgt_row_server *server, unsigned int failures,
		  uint64_t now_ns)
{
	uint64_t image = server->request.image;
	struct fgt_row_blame *found = find_blame(server, image);

	if (!found) {
		found = &server->blames[server->blame_turn++ %
					FGT_ROW_SERVER_BLAMES];
		*found = (struct fgt_row_blame){ .image = image };
	}
	found->failures += failures;
	if (found->failures < FAILURES_MAX)
		return;
	found->until_ns = now_ns + (MINUTE_NS << found->pauses);
	found->pauses += found->pauses < PAUSES_MAX;
	/* After the pause one more is enough. */
	found->failures = FAILURES_MAX - 1;
}

/* It has ended, or is to: by the file that it was asked about, if any. */
static void lose(struct fgt_row_server *server, unsigned int failures)
{
	uint64_t now_ns = now_of();
	unsigned int shift;

	if (server->is_asked)
		blame(server, failures, now_ns);
	if (now_ns - server->begun_ns > MINUTE_NS)
		server->losses = 0;
	shift = server->losses < BACKOFFS_MAX ? server->losses : BACKOFFS_MAX;
	server->start_ns = now_ns + (BACKOFF_NS << shift);
	server->losses++;
	fgt_row_server_stop(server);
}

static bool is_overdue(const struct fgt_row_server *server, uint64_t now_ns)
{
	return server->is_asked &&
	       now_ns - server->asked_ns > FGT_ROW_SERVER_ANSWER_MAX_NS;
}

void fgt_row_server_tend(struct fgt_row_server *server, uint64_t now_ns)
{
	struct pollfd entry = { .fd = server->fd, .events = POLLIN };

	/* An answer that nothing has asked for again is no fault. */
	if (is_overdue(server, now_ns) && poll(&entry, 1, 0) == 0)
		lose(server, 2);
	reap(server);
}

/* ---- A question ------------------------------------------------------------ */

/* Images without a file go as memory: the server has one kind of them. */
static int open_for_server(const struct fgt_elf_source *source, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int r;

	if (!source->bytes) {
		*ret_fd = source->fd;
		return 0;
	}
	fd = memfd_create("fgt-image", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fgt_fd_write(fd, source->bytes, source->len);
	if (r < 0)
		return r;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

static int send_message(int fd, const struct fgt_rows_request *request,
			int file_fd)
{
	const struct iovec part = { (void *)(uintptr_t)request,
				    sizeof(*request) };
	ssize_t sent = fgt_fd_message_send(fd, &part, 1, &file_fd, file_fd >= 0,
					   MSG_DONTWAIT);

	return sent < 0 ? (int)sent : 0;
}

static int send_request(struct fgt_row_server *server,
			struct fgt_image_served *file,
			const struct fgt_rows_request *question)
{
	int file_fd = -1, r = 0;

	if (file->opened_by != server->begun_ns)
		r = open_for_server(file->source, &file_fd);
	if (r < 0)
		return -EAGAIN;
	server->request = *question;
	server->request.number = ++server->number;
	server->request.image = file->serial;
	r = send_message(server->fd, &server->request, file_fd);
	if (file->source->bytes)
		fgt_fd_close(file_fd);
	if (r < 0) {
		fgt_self_child_lose(server->fd, server->pid_fd);
		if (r != -EAGAIN)
			lose(server, 0);
		return -EAGAIN;
	}
	file->opened_by = server->begun_ns;
	server->is_asked = true;
	server->asked_ns = now_of();
	return 0;
}

/* The reply's length, -EAGAIN there is none yet, -EPIPE there will be none. */
static int64_t receive(const struct fgt_row_server *server)
{
	ssize_t got;

	do
		got = recv(server->fd, server->reply, FGT_ROWS_REPLY_MAX,
			   MSG_DONTWAIT | MSG_TRUNC);
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		return -EAGAIN;
	return got <= 0 ? -EPIPE : got;
}

static int64_t receive_until(const struct fgt_row_server *server,
			     uint64_t until_ns)
{
	struct pollfd entry = { .fd = server->fd, .events = POLLIN };
	struct timespec left;
	uint64_t now_ns = now_of();
	int64_t got = until_ns > now_ns ? -EAGAIN : receive(server);

	while (got == -EAGAIN && now_ns < until_ns) {
		left.tv_sec = (time_t)((until_ns - now_ns) / (1000 * MS_NS));
		left.tv_nsec = (long)((until_ns - now_ns) % (1000 * MS_NS));
		(void)ppoll(&entry, 1, &left, NULL);
		got = receive(server);
		now_ns = now_of();
	}
	return got;
}

/* Takes the answer to the question under way. */
static int take_answer(struct fgt_row_server *server, uint64_t until_ns,
		       const uint8_t **ret_bytes, size_t *ret_len)
{
	struct fgt_rows_reply head;
	int64_t got = receive_until(server, until_ns);

	if (got == -EAGAIN) {
		if (is_overdue(server, now_of()))
			lose(server, 2);
		return -EAGAIN;
	}
	if (got < 0) {
		fgt_self_child_lose(server->fd, server->pid_fd);
		lose(server, 1);
		return -EAGAIN;
	}
	if (got >= (int64_t)sizeof(head))
		memcpy(&head, server->reply, sizeof(head));
	/* Anything else is not this program any more. */
	if (got < (int64_t)sizeof(head) || got > (int64_t)FGT_ROWS_REPLY_MAX ||
	    head.number != server->request.number || head.error > 0) {
		lose(server, 1);
		return -EAGAIN;
	}
	server->is_asked = false;
	server->counts.cfi_bytes = head.counts.cfi_bytes;
	server->counts.given_back =
		server->former.given_back + head.counts.given_back;
	server->counts.refused = server->former.refused + head.counts.refused;
	*ret_bytes = server->reply + sizeof(head);
	*ret_len = (size_t)got - sizeof(head);
	return head.error;
}

static bool is_same(const struct fgt_rows_request *a, uint64_t image,
		    const struct fgt_rows_request *b)
{
	return a->verb == b->verb && a->image == image &&
	       a->address == b->address;
}

static int begin(struct fgt_row_server *server, struct fgt_image_served *file,
		 const struct fgt_rows_request *question)
{
	const struct fgt_row_blame *blamed = find_blame(server, file->serial);
	uint64_t now_ns = now_of();

	if (blamed && now_ns < blamed->until_ns)
		return -EAGAIN;
	server->is_wanted = server->fd < 0;
	if (server->is_wanted)
		return -EAGAIN;
	return send_request(server, file, question);
}

static uint64_t middle_of(uint64_t now_ns, uint64_t until_ns)
{
	return until_ns > now_ns ? now_ns + (until_ns - now_ns) / 2 : until_ns;
}

int fgt_row_server_ask(struct fgt_row_server *server,
		       struct fgt_image_served *file,
		       const struct fgt_rows_request *question,
		       uint64_t until_ns, const uint8_t **ret_bytes,
		       size_t *ret_len)
{
	bool is_mine = server->is_asked &&
		       is_same(&server->request, file->serial, question);
	int r = 0;

	/* What another stack wanted to know must leave time for this one. */
	if (server->is_asked && !is_mine)
		(void)take_answer(server, middle_of(now_of(), until_ns),
				  ret_bytes, ret_len);
	if (server->is_asked && !is_mine)
		return -EAGAIN;
	for (int i = 0; i < 2; i++) {
		if (!server->is_asked)
			r = begin(server, file, question);
		if (r == 0)
			r = take_answer(server, until_ns, ret_bytes, ret_len);
		if (r != -EBADF)
			break;
		/* It had no room for it: once more, with the file. */
		file->opened_by = 0;
		r = 0;
	}
	return r == -EBADF ? -EAGAIN : r;
}

void fgt_row_server_post(struct fgt_row_server *server,
			 const struct fgt_rows_request *request)
{
	if (server->fd >= 0)
		(void)send_message(server->fd, request, -1);
}
