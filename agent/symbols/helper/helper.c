/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the symbol helper, sends requests and reads its replies. Runs in the
 * daemon; must bound every wait and check every byte that comes back.
 */
#include "agent/symbols/helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/children/self_child.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd_message.h"

/* Longer than the helper's own alarm, which is the usual end. */
#define ANSWER_MAX_MS (FGT_HELPER_REQUEST_MAX_S * 1000 + 2000)

#define LOOK_MS 100 /* how often a wait looks whether it is cancelled */

static int start(struct fgt_helper *helper)
{
	const struct fgt_self_child child = { .path = helper->path,
					      .name = FGT_HELPER_NAME,
					      .verb = FGT_HELPER_VERB,
					      .uid = helper->uid,
					      .socket_type = SOCK_STREAM };

	return fgt_self_child_start(&child, &helper->fd, &helper->pid_fd);
}

void fgt_helper_stop(struct fgt_helper *helper)
{
	fgt_local_names_free(FGT_TAKE(helper->local));
	fgt_fd_close(FGT_TAKE_FD(helper->fd));
	fgt_self_child_end(FGT_TAKE_FD(helper->pid_fd));
}

static int64_t now_ms(void)
{
	return (int64_t)(fgt_clock_ns(CLOCK_MONOTONIC) / 1000000);
}

static bool is_cancelled(const struct fgt_helper *helper)
{
	return helper->is_cancelled &&
	       helper->is_cancelled(helper->cancel_context);
}

/* Waits for the reply until the deadline. */
static int wait_for(const struct fgt_helper *helper, int64_t deadline_ms)
{
	struct pollfd entry = { .fd = helper->fd, .events = POLLIN };

	for (;;) {
		int64_t left = deadline_ms - now_ms();
		int64_t step = left < LOOK_MS ? left : LOOK_MS;
		int ready = poll(&entry, 1, step > 0 ? (int)step : 0);

		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return -EPIPE;
		if (is_cancelled(helper))
			return -ECANCELED;
		if (!ready && left <= 0)
			return -ETIMEDOUT;
	}
}

/* One message: at most 2 KiB, which a socket takes whole. */
static int send_request(struct fgt_helper *helper,
			const struct fgt_helper_request *request,
			const uint64_t *addresses,
			const struct fgt_image_files *files)
{
	const struct fgt_image_files none = FGT_IMAGE_FILES_NONE;
	const struct fgt_image_files *from = files ? files : &none;
	const int all[] = { from->image_fd, from->debug_fd, from->alt_fd };
	struct fgt_helper_request head = *request;
	const struct iovec parts[] = {
		{ &head, sizeof(head) },
		{ (void *)(uintptr_t)addresses,
		  head.address_count * sizeof(*addresses) },
	};
	int fds[3];
	size_t count = 0;
	ssize_t sent;

	head.files = 0;
	for (unsigned int i = 0; i < 3; i++)
		if (all[i] >= 0) {
			head.files |= 1u << i;
			fds[count++] = all[i];
		}
	sent = fgt_fd_message_send(helper->fd, parts, 2, fds, count, 0);
	if (sent < 0)
		fgt_self_child_lose(helper->fd, helper->pid_fd);
	return sent == (ssize_t)(parts[0].iov_len + parts[1].iov_len) ? 0
								      : -EPIPE;
}

static int receive(struct fgt_helper *helper, void *data, size_t len,
		   int64_t deadline_ms)
{
	size_t done = 0;

	while (done < len) {
		int error = wait_for(helper, deadline_ms);
		ssize_t got;

		if (error)
			return error;
		got = recv(helper->fd, (char *)data + done, len - done,
			   MSG_DONTWAIT);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0) {
			fgt_self_child_lose(helper->fd, helper->pid_fd);
			return -EPIPE;
		}
		done += (size_t)got;
	}
	return 0;
}

static int receive_reply(struct fgt_helper *helper, int64_t deadline_ms,
			 struct fgt_memory_sink *reply, int32_t *ret_error)
{
	struct fgt_helper_reply head;
	uint8_t part[4096];
	size_t left, len;
	int error;

	error = receive(helper, &head, sizeof(head), deadline_ms);
	if (error)
		return error;
	if (head.len > FGT_HELPER_REPLY_MAX || head.error > 0)
		return -EPIPE;
	reply->len_bytes = 0;
	for (left = head.len; left && !error; left -= len) {
		len = left < sizeof(part) ? left : sizeof(part);
		error = receive(helper, part, len, deadline_ms);
		if (!error)
			error = fgt_sink_write(&reply->sink, part, len);
	}
	if (!error)
		*ret_error = head.error;
	return error;
}

/* One request and its reply. *ret_answer: the helper's error, or 0. */
static int exchange(struct fgt_helper *helper,
		    const struct fgt_helper_request *request,
		    const uint64_t *addresses,
		    const struct fgt_image_files *files, int64_t deadline_ms,
		    struct fgt_memory_sink *reply, int32_t *ret_answer)
{
	int error = send_request(helper, request, addresses, files);

	if (!error)
		error = receive_reply(helper, deadline_ms, reply, ret_answer);
	/* The helper ran out of memory: a new helper may have more. */
	return !error && *ret_answer == -ENOMEM ? -EPIPE : error;
}

/* The error to return for a request that failed after this time. */
static int explain(int error, int64_t took_ms, int64_t left_ms)
{
	if (error == -ETIMEDOUT && left_ms < ANSWER_MAX_MS)
		return -ETIME;
	if (error == -EPIPE && took_ms >= FGT_HELPER_REQUEST_MAX_S * 1000 - 200)
		return -ETIMEDOUT;
	return error;
}

/* fgt_helper_ask() of a helper that is a process; files stay the caller's. */
static int ask(struct fgt_helper *helper,
	       const struct fgt_helper_request *request,
	       const uint64_t *addresses, const struct fgt_image_files *files,
	       int64_t *left_ms, struct fgt_memory_sink *reply)
{
	const int64_t start_ms = now_ms(), allowed_ms = *left_ms;
	int32_t answer = 0;
	int error = 0;

	if (allowed_ms <= 0)
		return -ETIME;
	if (helper->fd < 0)
		error = start(helper);
	if (error)
		return error;
	error = exchange(helper, request, addresses, files,
			 start_ms + (allowed_ms < ANSWER_MAX_MS
					     ? allowed_ms
					     : ANSWER_MAX_MS),
			 reply, &answer);
	*left_ms -= now_ms() - start_ms;
	if (!error)
		return answer;
	fgt_helper_stop(helper);
	return explain(error, allowed_ms - *left_ms, allowed_ms);
}

int fgt_helper_ask(struct fgt_helper *helper,
		   const struct fgt_helper_request *request,
		   const uint64_t *addresses, struct fgt_image_files *files,
		   int64_t *left_ms, struct fgt_memory_sink *reply)
{
	int error;

	if (helper->is_local)
		return fgt_local_names_ask(&helper->local, request, addresses,
					   files, left_ms, reply);
	error = ask(helper, request, addresses, files, left_ms, reply);
	if (files)
		fgt_image_files_close(files);
	return error;
}

/* Asks about one file, of which reply has len bytes then. */
static int ask_about(struct fgt_helper *helper, uint64_t what, int fd,
		     int64_t *left_ms, struct fgt_memory_sink *reply,
		     size_t len)
{
	const struct fgt_helper_request request = { .image = what };
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	int error;

	files.image_fd = fd;
	if (helper->is_local) {
		files.image_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (files.image_fd < 0)
			return -errno;
		error = fgt_local_names_ask(&helper->local, &request, NULL,
					    &files, left_ms, reply);
		fgt_image_files_close(&files);
	} else {
		error = ask(helper, &request, NULL, &files, left_ms, reply);
	}
	return !error && reply->len_bytes != len ? -EBADMSG : error;
}

int fgt_helper_checksum(struct fgt_helper *helper, int fd, int64_t *left_ms,
			struct fgt_memory_sink *reply, uint32_t *ret_crc)
{
	int error = ask_about(helper, FGT_HELPER_CHECKSUM, fd, left_ms, reply,
			      sizeof(*ret_crc));

	if (!error)
		memcpy(ret_crc, reply->bytes, sizeof(*ret_crc));
	return error;
}

static bool is_truth_value(const bool *value)
{
	return *(const unsigned char *)value <= 1;
}

/* The helper may be another program by now. */
static bool is_valid(const struct fgt_elf_ident *ident)
{
	return ident->build_id_len <= sizeof(ident->build_id) &&
	       ident->altlink_build_id_len <= sizeof(ident->altlink_build_id) &&
	       is_truth_value(&ident->has_symtab) &&
	       is_truth_value(&ident->has_debug_info) &&
	       memchr(ident->debuglink, '\0', sizeof(ident->debuglink)) &&
	       memchr(ident->altlink, '\0', sizeof(ident->altlink)) &&
	       !strchr(ident->debuglink, '/');
}

int fgt_helper_ident(struct fgt_helper *helper, int fd, int64_t *left_ms,
		     struct fgt_memory_sink *reply,
		     struct fgt_elf_ident *ret_ident)
{
	int error = ask_about(helper, FGT_HELPER_IDENT, fd, left_ms, reply,
			      sizeof(*ret_ident));

	if (error)
		return error;
	memcpy(ret_ident, reply->bytes, sizeof(*ret_ident));
	return is_valid(ret_ident) ? 0 : -EBADMSG;
}
