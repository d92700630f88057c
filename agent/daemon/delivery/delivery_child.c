/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts delivering processes, receives their results, looks after those that
 * were killed until they have gone. Runs in the daemon's loop; must not wait
 * for one, nor put a secret where other users can read it.
 */
#include "agent/daemon/delivery/delivery_child.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/children/self_child.h"
#include "agent/daemon/loop/log.h"
#include "agent/protocol/builder.h"
#include "agent/protocol/protocol.h"
#include "ringbuf/base/fd_message.h"
#include "ringbuf/base/owner.h"

#define SECOND_NS  UINT64_C(1000000000)
#define DONE_MS	   1000
#define TRIES_SIZE 32

_Static_assert((int)FGT_DELIVERY_FDS <= FGT_FD_MESSAGE_MAX, "one message");

/* Those that are there, in their order; returns how many. */
static size_t gather_fds(const struct fgt_delivery_fds *fds,
			 int ret_open[FGT_DELIVERY_FDS], uint32_t *ret_has)
{
	size_t count = 0;

	*ret_has = 0;
	for (int i = 0; i < FGT_DELIVERY_FDS; i++)
		if (fds->fd[i] >= 0) {
			*ret_has |= 1u << i;
			ret_open[count++] = fds->fd[i];
		}
	return count;
}

static int send_order(int fd, struct fgt_delivery_head head,
		      const uint8_t *body, size_t body_len,
		      const struct fgt_delivery_fds *fds)
{
	int open[FGT_DELIVERY_FDS];
	size_t count = gather_fds(fds, open, &head.has_fds);
	const struct iovec parts[] = {
		{ &head, sizeof(head) },
		{ (void *)(uintptr_t)body, body_len },
	};
	ssize_t sent =
		fgt_fd_message_send(fd, parts, 2, open, count, MSG_DONTWAIT);

	return sent == (ssize_t)(sizeof(head) + body_len) ? 0 : -EAGAIN;
}

int fgt_delivery_child_start(struct fgt_delivery_child *child,
			     const struct fgt_delivery_head *head,
			     const uint8_t *body, size_t body_len,
			     const struct fgt_delivery_fds *fds)
{
	const struct fgt_self_child self = { .name = FGT_DELIVERY_NAME,
					     .verb = FGT_DELIVERY_VERB,
					     .uid = head->uid,
					     .socket_type = SOCK_SEQPACKET,
					     .is_on_network = true };
	int r;

	*child = FGT_DELIVERY_CHILD_NONE;
	r = fgt_self_child_start(&self, &child->fd, &child->pid_fd);
	if (r < 0)
		return r;
	r = send_order(child->fd, *head, body, body_len, fds);
	if (r < 0) {
		fgt_fd_close(FGT_TAKE_FD(child->fd));
		fgt_self_child_end(FGT_TAKE_FD(child->pid_fd));
	}
	return r;
}

static void put_configured(struct fgt_builder *builder,
			   const struct fgt_destination *destination)
{
#define PUT_TEXT(member)                                                       \
	fgt_builder_string(builder, #member, destination->member);
#define PUT_NUMBER(member)                                                     \
	fgt_builder_uint(builder, #member, destination->member);
	FGT_DESTINATION_TEXTS(PUT_TEXT)
	FGT_DESTINATION_NUMBERS(PUT_NUMBER)
	PUT_NUMBER(sequence)
}

static void put_own(struct fgt_builder *builder,
		    const struct fgt_delivery_content *content)
{
	const struct fgt_upload_limits *limits = content->limits;

	fgt_builder_string(builder, "destination", content->destination);
	if (limits && limits->ca_file)
		fgt_builder_string(builder, "ca_file", limits->ca_file);
	if (limits && limits->is_http_allowed)
		fgt_builder_bool(builder, "allow_http", true);
}

int fgt_delivery_body_new(const struct fgt_delivery_content *content,
			  uint8_t **ret_body, size_t *ret_len)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *frame;
	uint8_t *body;
	size_t len;
	int r = fgt_builder_new(&builder);

	if (r < 0)
		return r;
	if (content->configured)
		put_configured(builder, content->configured);
	else
		put_own(builder, content);
	if (content->facts)
		fgt_builder_bin(builder, "facts", content->facts,
				content->facts_len);
	r = fgt_builder_finish(builder, &frame, &len);
	if (r < 0)
		return r;
	len -= FGT_PROTOCOL_LENGTH_BYTES;
	if (len > FGT_DELIVERY_BODY_MAX)
		return -EMSGSIZE;
	body = malloc(len);
	if (!body)
		return -ENOMEM;
	memcpy(body, frame + FGT_PROTOCOL_LENGTH_BYTES, len);
	*ret_body = body;
	*ret_len = len;
	return 0;
}

int fgt_delivery_child_receive(struct fgt_delivery_child *child,
			       struct fgt_delivery_result *ret_result)
{
	struct fgt_delivery_result result;
	ssize_t n = recv(child->fd, &result, sizeof(result), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		fgt_self_child_lose(child->fd, child->pid_fd);
	if (n != (ssize_t)sizeof(result) || result.error > 0)
		return -EPIPE;
	result.event_id[sizeof(result.event_id) - 1] = '\0';
	result.where[sizeof(result.where) - 1] = '\0';
	result.why[sizeof(result.why) - 1] = '\0';
	*ret_result = result;
	return 0;
}

/* ---- Endings ----------------------------------------------------------- */

struct fgt_delivery_ending {
	struct fgt_delivery_endings *endings;
	LIST_ENTRY(fgt_delivery_ending) link;
	int pid_fd;
	struct fgt_watch watch; /* of its pidfd */
	struct fgt_timer timer; /* for a process that is traced */
	uint32_t uid;
};

static void remove_ending(struct fgt_delivery_ending *ending)
{
	struct fgt_delivery_endings *endings = ending->endings;

	fgt_loop_unwatch(endings->loop, &ending->watch);
	fgt_loop_disarm(endings->loop, &ending->timer);
	LIST_REMOVE(ending, link);
	free(ending);
}

static void look(void *context)
{
	struct fgt_delivery_ending *ending = context;
	struct fgt_delivery_endings *endings = ending->endings;

	/* Unwatched first: the number may be another's when it is closed. */
	fgt_loop_unwatch(endings->loop, &ending->watch);
	if (!fgt_self_child_reap(ending->pid_fd)) {
		/* Dead, and its tracer has not looked: it stays readable. */
		fgt_loop_arm(endings->loop, &ending->timer,
			     fgt_loop_now() + SECOND_NS);
		return;
	}
	remove_ending(ending);
	endings->gone(endings->context);
}

static void is_dead(void *context, uint32_t events)
{
	(void)events;
	look(context);
}

void fgt_delivery_endings_add(struct fgt_delivery_endings *endings,
			      struct fgt_delivery_child *child, uint32_t uid)
{
	struct fgt_delivery_ending *ending;

	fgt_fd_close(FGT_TAKE_FD(child->fd));
	fgt_self_child_kill(child->pid_fd);
	ending = calloc(1, sizeof(*ending));
	if (!ending) { /* it stays a zombie until the daemon ends */
		fgt_fd_close(FGT_TAKE_FD(child->pid_fd));
		return;
	}
	ending->endings = endings;
	ending->pid_fd = FGT_TAKE_FD(child->pid_fd);
	ending->uid = uid;
	ending->watch = (struct fgt_watch){ .fd = ending->pid_fd,
					    .ready = is_dead,
					    .context = ending };
	ending->timer =
		(struct fgt_timer){ .expired = look, .context = ending };
	LIST_INSERT_HEAD(&endings->all, ending, link);
	if (fgt_loop_watch(endings->loop, &ending->watch, EPOLLIN) < 0)
		fgt_loop_arm(endings->loop, &ending->timer,
			     fgt_loop_now() + SECOND_NS);
}

bool fgt_delivery_endings_has(const struct fgt_delivery_endings *endings,
			      uint32_t uid)
{
	const struct fgt_delivery_ending *ending;

	LIST_FOREACH(ending, &endings->all, link)
		if (ending->uid == uid)
			return true;
	return false;
}

void fgt_delivery_endings_done(struct fgt_delivery_endings *endings)
{
	uint64_t until_ns = fgt_loop_now() + DONE_MS * UINT64_C(1000000);

	while (!LIST_EMPTY(&endings->all)) {
		struct fgt_delivery_ending *ending = LIST_FIRST(&endings->all);
		struct pollfd poll_fd = { .fd = ending->pid_fd,
					  .events = POLLIN };
		uint64_t now_ns = fgt_loop_now();

		if (now_ns < until_ns)
			(void)poll(&poll_fd, 1,
				   (int)((until_ns - now_ns) / 1000000) + 1);
		if (!fgt_self_child_reap(ending->pid_fd))
			fgt_fd_close(ending->pid_fd);
		remove_ending(ending);
	}
}

/* ---- The log ----------------------------------------------------------- */

/* "" unless it took several. */
static const char *describe_tries(unsigned int tries, char text[TRIES_SIZE])
{
	text[0] = '\0';
	if (tries > 1)
		snprintf(text, TRIES_SIZE, " after %u tries", tries);
	return text;
}

void fgt_delivery_log_done(const struct fgt_delivery_about *about,
			   const struct fgt_delivery_result *result)
{
	char tries[TRIES_SIZE];

	fgt_log(FGT_LOG_INFO, "delivered",
		"pid %d, '%s' to %s%s: event %s, %llu bytes%s", about->pid,
		about->name, result->where, describe_tries(about->tries, tries),
		result->event_id, (unsigned long long)result->bytes,
		result->is_partial ? ", without all of its profile: the server "
				     "limits profiles"
				   : "");
}

void fgt_delivery_log_retry(const struct fgt_delivery_about *about,
			    uint64_t seconds, unsigned int tries_max,
			    const char *why)
{
	bool is_warned = (about->tries & (about->tries - 1)) == 0;

	fgt_log(is_warned ? FGT_LOG_WARNING : FGT_LOG_DEBUG, "delivery_retry",
		"pid %d, '%s' in %llu s, try %u of %u failed: %s", about->pid,
		about->name, (unsigned long long)seconds, about->tries,
		tries_max, why);
}

void fgt_delivery_log_given_up(const struct fgt_delivery_about *about,
			       const char *where, const char *why)
{
	char tries[TRIES_SIZE];

	/* Most reasons begin with it. */
	if (strncmp(why, where, strlen(where)) == 0)
		where = "";
	fgt_log(FGT_LOG_WARNING, "undelivered", "pid %d, '%s'%s%s%s: %s",
		about->pid, about->name, *where ? " to " : "", where,
		describe_tries(about->tries, tries), why);
}
