/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reader: its start, and what is sent to it and received from it. Runs in
 * the thread that has the reader; only fgt_reader_wait() may wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/children/self_child.h"
#include "agent/files/reader.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd_message.h"
#include "ringbuf/base/owner.h"

#define MS UINT64_C(1000000)

int fgt_reader_start(struct fgt_reader *reader)
{
	const struct fgt_self_child child = { .name = FGT_READER_NAME,
					      .verb = FGT_READER_VERB,
					      .socket_type = SOCK_SEQPACKET };
	int r = fgt_self_child_start(&child, &reader->fd, &reader->pid_fd);

	if (r < 0)
		return r;
	reader->is_charged = false;
	reader->since_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	return 0;
}

bool fgt_reader_wait(int fd, uint64_t until_ns)
{
	struct pollfd entry = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now = fgt_clock_ns(CLOCK_MONOTONIC);
		int ms = until_ns > now ? (int)((until_ns - now) / MS) + 1 : 0;
		int ready = poll(&entry, 1, ms);

		if (ready > 0)
			return true;
		if (!ready || errno != EINTR)
			return false;
	}
}

/* Length, 0: it cannot be read. */
static size_t read_text(const char *path, char *text, size_t size)
{
	FGT_AUTO(fgt_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, size - 1);

	text[len > 0 ? len : 0] = '\0';
	return len > 0 ? (size_t)len : 0;
}

char fgt_reader_look(const struct fgt_reader *reader, int *ret_pid)
{
	char path[48], text[512];
	const char *at;

	*ret_pid = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", reader->pid_fd);
	at = read_text(path, text, sizeof(text)) ? strstr(text, "\nPid:")
						 : NULL;
	if (!at || sscanf(at, "\nPid: %d", ret_pid) != 1)
		return '?';
	snprintf(path, sizeof(path), "/proc/%d/stat", *ret_pid);
	at = read_text(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
	return at && at[1] && at[2] ? at[2] : '?';
}

int fgt_reader_is_ready(const struct fgt_reader *reader)
{
	char byte;
	ssize_t got = recv(reader->fd, &byte, 1, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return got == 1 ? 1 : -EPIPE;
}

int fgt_reader_send(const struct fgt_reader *reader,
		    const struct fgt_open_request *request)
{
	struct fgt_reader_order order = {
		.place = request->place,
		.is_link_refused = request->is_link_refused,
		.is_copied = request->is_copied,
		.has_known = request->known != NULL,
		.uid = request->uid,
		.is_of_user = request->is_of_user,
		.is_by_user = request->is_by_user,
		.size_max = request->size_max,
		.dev = request->dev,
		.ino = request->ino,
	};
	struct iovec part = { &order, offsetof(struct fgt_reader_order, path) };
	const char *path = request->path ? request->path : "";
	size_t len = strlen(path) + 1;

	if (len > sizeof(order.path))
		return -ENAMETOOLONG;
	memcpy(order.path, path, len);
	part.iov_len += len;
	if (request->known)
		order.known = *request->known;
	return fgt_fd_message_send(reader->fd, &part, 1, &request->dir_fd, 1,
				   MSG_DONTWAIT) < 0
		       ? -EPIPE
		       : 0;
}

int fgt_reader_receive(const struct fgt_reader *reader,
		       struct fgt_opened_file *ret_file)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_reader_answer answer;
	const struct iovec part = { &answer, sizeof(answer) };
	ssize_t got = fgt_fd_message_receive(reader->fd, &part, 1, &fd, 1,
					     MSG_DONTWAIT);

	if (got != sizeof(answer))
		return -EPIPE;
	if (answer.error)
		return answer.error < 0 ? answer.error : -EPIPE;
	/* This process has no number left for it. */
	if (fd < 0)
		return -EMFILE;
	ret_file->fd = FGT_TAKE_FD(fd);
	ret_file->status = answer.status;
	return 0;
}
