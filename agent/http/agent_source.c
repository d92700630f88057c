/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a source. Runs in the threads of connections; every wait is
 * bounded.
 */
#include "agent/http/agent_source.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

#include "agent/cli/range/range_request.h"
#include "agent/protocol/channel.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd_message.h"

#define TIMEOUT_NS UINT64_C(30000000000)
#define MS_NS	   UINT64_C(1000000)
#define LOOK_MS	   1000

/* One for all threads: an answer belongs to the question before it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int explain(int error, struct fgt_why *why)
{
	if (why->text[0])
		return error;
	return fgt_why_set(why, error,
			   "the agent does not answer (%s): try again, and see "
			   "its log",
			   strerror(-error));
}

static int ask_for_connection(int socket_fd, int *ret_fd)
{
	char byte = 0;
	struct iovec part = { &byte, 1 };
	struct pollfd answer = { .fd = socket_fd, .events = POLLIN };
	ssize_t n = fgt_fd_message_send(socket_fd, &part, 1, NULL, 0, 0);

	if (n < 0)
		return (int)n;
	if (poll(&answer, 1, (int)(TIMEOUT_NS / MS_NS)) != 1)
		return -ETIMEDOUT;
	n = fgt_fd_message_receive(socket_fd, &part, 1, ret_fd, 1, 0);
	return n < 0 ? (int)n : n == 0 || *ret_fd < 0 ? -EMFILE : 0;
}

static int connect_agent(int socket_fd, struct fgt_channel *ret_channel,
			 struct fgt_why *why)
{
	int fd, r;

	pthread_mutex_lock(&lock);
	r = ask_for_connection(socket_fd, &fd);
	pthread_mutex_unlock(&lock);
	if (r < 0)
		return explain(r, why);
	ret_channel->fd = fd;
	return fgt_file_id_get(fd, &ret_channel->socket);
}

/* Until the agent answers. -ECANCELED: the client has gone. */
static int wait_for_reply(const struct fgt_channel *channel, int client_fd,
			  uint64_t deadline_ns)
{
	struct pollfd both[] = {
		{ .fd = channel->fd, .events = POLLIN },
		{ .fd = client_fd, .events = POLLRDHUP },
	};

	while (fgt_clock_ns(CLOCK_MONOTONIC) < deadline_ns) {
		if (poll(both, 2, LOOK_MS) < 0 && errno != EINTR)
			return -errno;
		if (both[0].revents)
			return 0;
		if (both[1].revents & (POLLRDHUP | POLLHUP | POLLERR))
			return -ECANCELED;
	}
	return -ETIMEDOUT;
}

/* ---- A slice ------------------------------------------------------------- */

static int make_request(const struct fgt_web_cut *cut,
			struct fgt_builder **ret_request)
{
	int r = fgt_builder_new_request("slice", ret_request);

	if (r < 0)
		return r;
	if (cut->choice.pid)
		fgt_builder_int(*ret_request, "pid", cut->choice.pid);
	else if (cut->choice.name)
		fgt_builder_string(*ret_request, "name", cut->choice.name);
	fgt_range_put(&cut->range, *ret_request);
	if (cut->tid)
		fgt_builder_int(*ret_request, "tid", cut->tid);
	return 0;
}

/* The targets among which the request does not choose, a line each. */
static int explain_choice(const struct fgt_message *reply, struct fgt_why *why)
{
	struct fgt_message_array targets = { .count = 0 };
	struct fgt_message target;
	char list[300] = "";
	size_t len = 0;

	(void)fgt_message_get_array(reply, "targets", &targets);
	while (len < sizeof(list) - 80 &&
	       fgt_message_next(&targets, &target) == 0) {
		const char *name = "?";
		int64_t pid = 0;

		(void)fgt_message_get_int(&target, "pid", &pid);
		(void)fgt_message_get_string(&target, "name", &name);
		len += (size_t)snprintf(list + len, sizeof(list) - len,
					"%s%lld %.40s", len ? ", " : "",
					(long long)pid, name);
	}
	return fgt_why_set(why, -ENOTUNIQ,
			   "several targets fit (%s%s): choose with pid= or "
			   "name=, or take them with all=1",
			   list, targets.count ? ", ..." : "");
}

/* The agent's own remedy is for a command line. */
static int explain_none(const struct fgt_web_cut *cut, struct fgt_why *why)
{
	static const char remedy[] = "/api/v1/targets lists those that there "
				     "are";

	if (cut->choice.pid)
		return fgt_why_set(why, -ESRCH, "no target has pid %d: %s",
				   cut->choice.pid, remedy);
	if (cut->choice.name)
		return fgt_why_set(why, -ESRCH, "no target is named %.100s: %s",
				   cut->choice.name, remedy);
	return fgt_why_set(why, -ESRCH,
			   "nothing is sampled yet: attach a process to the "
			   "agent");
}

static int receive_slice(const struct fgt_channel *channel,
			 const struct fgt_web_cut *cut,
			 const struct fgt_sink *to, struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	uint64_t deadline_ns = fgt_clock_ns(CLOCK_MONOTONIC) +
			       fgt_range_wait_ns(&cut->range) + TIMEOUT_NS;
	int r = wait_for_reply(channel, cut->client_fd, deadline_ns);

	if (r == 0)
		r = fgt_channel_receive_reply(channel, deadline_ns, &reply,
					      why);
	if (r == -ENOTUNIQ && reply)
		return explain_choice(reply, why);
	if (r == -ESRCH)
		return explain_none(cut, why);
	if (r == 0)
		r = fgt_channel_receive_file(
			channel, to, TIMEOUT_NS,
			fgt_clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS, why);
	return r;
}

static int cut_slice(void *context, const struct fgt_web_cut *cut,
		     const struct fgt_sink *to, struct fgt_why *why)
{
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	int r = make_request(cut, &request);

	if (r == 0)
		r = connect_agent((int)(intptr_t)context, &channel, why);
	if (r == 0)
		r = fgt_channel_send(&channel, request, NULL, 0,
				     fgt_clock_ns(CLOCK_MONOTONIC) +
					     TIMEOUT_NS);
	if (r == 0)
		r = receive_slice(&channel, cut, to, why);
	return r < 0 && r != -EMSGSIZE ? explain(r, why) : r;
}

/* ---- Figures ------------------------------------------------------------- */

static int ask(void *context, const char *verb, struct fgt_message **ret_reply,
	       struct fgt_why *why)
{
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	int r = fgt_builder_new_request(verb, &request);

	if (r == 0)
		r = connect_agent((int)(intptr_t)context, &channel, why);
	if (r == 0)
		r = fgt_channel_call(&channel, request,
				     fgt_clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS,
				     &reply, why);
	if (r < 0)
		return explain(r, why);
	*ret_reply = FGT_TAKE(reply);
	return 0;
}

void fgt_agent_source_init(struct fgt_web_source *source, int socket_fd)
{
	*source = (struct fgt_web_source){
		.cut = cut_slice,
		.ask = ask,
		.context = (void *)(intptr_t)socket_fd,
	};
}
