/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake agent: one thread that polls all its clients.
 */
#include "tests/unit/lib/fake_agent.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/protocol/builder.h"
#include "agent/protocol/message.h"
#include "agent/protocol/protocol.h"

/* An assertion that NDEBUG does not remove. */
static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void send_bytes(int fd, const void *bytes, size_t len)
{
	(void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

static int send_builder(int fd, struct fgt_builder *builder)
{
	const uint8_t *bytes;
	size_t len;

	if (fgt_builder_finish(builder, &bytes, &len) < 0)
		return 0;
	return send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static void send_error(int fd, int error)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)fgt_builder_new_error(error, "refused by the fake agent",
				    &builder);
	send_builder(fd, builder);
}

static void send_head(int fd, int behaviour)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)fgt_builder_new_reply(&builder);
	fgt_builder_int(builder, "pid", getpid());
	fgt_builder_uint(builder, "from_ns",
			 behaviour == FAKE_SLICE_REVERSED ? 300 : 100);
	fgt_builder_uint(builder, "to_ns", 200);
	fgt_builder_int(builder, "ticks",
			behaviour == FAKE_SLICE_NEGATIVE ? -11 : 11);
	fgt_builder_uint(builder, "threads", 3);
	send_builder(fd, builder);
}

static int send_data(int fd, const void *bytes, size_t len)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)fgt_builder_new(&builder);
	fgt_builder_bin(builder, "data", bytes, len);
	return send_builder(fd, builder);
}

static void send_end(int fd, uint64_t len)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)fgt_builder_new(&builder);
	fgt_builder_bool(builder, "end", true);
	fgt_builder_uint(builder, "len", len);
	send_builder(fd, builder);
}

static void drip(struct fake_agent *agent, int fd)
{
	static const char frame[] = "\0\0\0\x40\x81\xa1x";

	for (size_t i = 0; i < sizeof(frame) && !agent->shall_end; i++) {
		send_bytes(fd, frame + i, 1);
		usleep(50000);
	}
}

static void send_without_end(struct fake_agent *agent, int fd, size_t len)
{
	static char zeros[256 * 1024];

	memcpy(zeros, "FGT1", 4);
	while (!agent->shall_end && send_data(fd, zeros, len))
		;
}

/* A version and one unknown value, but whole. */
static void send_large(int fd)
{
	static const char head[] = "FGT1\x82\xa7version\x01\xa1x\xc6";
	static uint8_t bytes[256 * 1024];
	const uint32_t len =
		70 * sizeof(bytes) - (sizeof(head) - 1) - sizeof(uint32_t);

	memcpy(bytes, head, sizeof(head) - 1);
	for (size_t i = 0; i < sizeof(len); i++)
		bytes[sizeof(head) - 1 + i] = (uint8_t)(len >> (24 - 8 * i));
	for (int i = 0; i < 70; i++)
		send_data(fd, bytes, sizeof(bytes));
	send_end(fd, 70 * sizeof(bytes));
}

/* Complete, and no slice. */
static void send_no_slice(int fd, int behaviour)
{
	const char *bytes = behaviour == FAKE_SLICE_NO_MAGIC ? "ELF1" FAKE_SLICE
			    : behaviour == FAKE_SLICE_NO_VERSION
				    ? "FGT1\x81\xa1x\x01"
				    : "FGT1\xc1junk\x93";

	send_data(fd, bytes, strlen(bytes));
	send_end(fd, strlen(bytes));
}

/* True: the connection is to end. */
static bool answer_slice(struct fake_agent *agent, int fd)
{
	int behaviour = agent->behaviour;

	if (behaviour == FAKE_SLICE_SILENT)
		return false;
	if (behaviour == FAKE_SLICE_BUSY || behaviour == FAKE_SLICE_NO_DATA ||
	    behaviour == FAKE_SLICE_UNKNOWN) {
		send_error(fd, behaviour == FAKE_SLICE_BUSY	 ? -EBUSY
			       : behaviour == FAKE_SLICE_NO_DATA ? -ENODATA
								 : -ESRCH);
		return true;
	}
	if (behaviour == FAKE_SLICE_DRIPS) {
		drip(agent, fd);
		return true;
	}
	send_head(fd, behaviour);
	switch (behaviour) {
	case FAKE_SLICE_GIANT:
		send_bytes(fd, "\xff\xff\xff\xff", 4);
		return false;
	case FAKE_SLICE_TRUNCATED:
		send_bytes(fd,
			   "\0\0\0\x20\x81\xa4"
			   "data\xc4",
			   11);
		return true;
	case FAKE_SLICE_GARBAGE:
		send_bytes(fd, "\0\0\0\3\xc1\xc1\xc1", 7);
		return true;
	case FAKE_SLICE_ENDLESS:
		send_without_end(agent, fd, 0);
		return true;
	case FAKE_SLICE_FLOOD:
		send_without_end(agent, fd, 256 * 1024);
		return true;
	case FAKE_SLICE_BREAKS_OFF:
		send_data(fd, "FGT1x", 5);
		send_error(fd, -ENOMEM);
		return true;
	case FAKE_SLICE_LARGE:
		send_large(fd);
		return true;
	case FAKE_SLICE_NO_MAGIC:
	case FAKE_SLICE_NO_VERSION:
	case FAKE_SLICE_JUNK:
		send_no_slice(fd, behaviour);
		return true;
	default:
		break;
	}
	send_data(fd, FAKE_SLICE, 4);
	send_data(fd, FAKE_SLICE + 4, FAKE_SLICE_LEN - 4);
	send_end(fd, FAKE_SLICE_LEN + (behaviour == FAKE_SLICE_SHORT));
	return true;
}

/* The answer of a daemon of another release to every request. */
static void refuse_version(int fd, int version)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)fgt_builder_new(&builder);
	fgt_builder_int(builder, "v", version);
	fgt_builder_bool(builder, "ok", false);
	fgt_builder_int(builder, "error", -EPROTONOSUPPORT);
	fgt_builder_string(builder, "why", "the words of another release");
	send_builder(fd, builder);
}

static void put_hz(struct fgt_builder *builder, int behaviour)
{
	if (behaviour == FAKE_HZ_TEXT)
		fgt_builder_string(builder, "hz", "101");
	else
		fgt_builder_double(builder, "hz",
				   behaviour == FAKE_HZ_NAN	   ? NAN
				   : behaviour == FAKE_HZ_NEGATIVE ? -1
				   : behaviour == FAKE_HZ_HUGE	   ? 1e7
								   : 101);
}

static bool answer_register(struct fake_agent *agent, int fd)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	int behaviour = agent->behaviour;

	agent->registers++;
	if (behaviour == FAKE_REFUSES) {
		send_error(fd, -ENOSPC);
		return true;
	}
	if (behaviour == FAKE_NEWER || behaviour == FAKE_OLDER) {
		refuse_version(fd, FGT_PROTOCOL_VERSION +
					   (behaviour == FAKE_NEWER ? 1 : -1));
		return true;
	}
	(void)fgt_builder_new_reply(&builder);
	fgt_builder_int(builder, "pid", getpid());
	put_hz(builder, behaviour);
	fgt_builder_int(builder, "ring_seconds", 30);
	fgt_builder_string(builder, "limitation", "none of note");
	send_builder(fd, builder);
	return false;
}

static bool answer(struct fake_agent *agent, int fd,
		   const struct fgt_message *request)
{
	const char *verb = "";

	(void)fgt_message_get_string(request, "verb", &verb);
	if (agent->behaviour == FAKE_SILENT)
		return false;
	if (agent->behaviour == FAKE_CLOSES) {
		agent->hang_ups++;
		return true;
	}
	if (strcmp(verb, "register") == 0)
		return answer_register(agent, fd);
	if (strcmp(verb, "slice") == 0) {
		agent->slices++;
		return answer_slice(agent, fd);
	}
	if (strcmp(verb, "bye") == 0)
		agent->byes++;
	return true;
}

/* Descriptors that came with it are counted and closed. */
static ssize_t receive(struct fake_agent *agent, int fd, uint8_t *bytes,
		       size_t len)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec piece = { .iov_base = bytes, .iov_len = len };
	struct msghdr message = { .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int passed;

	if (!header)
		return n;
	agent->passed = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	for (int i = 0; i < agent->passed; i++) {
		memcpy(&passed, CMSG_DATA(header) + (size_t)i * sizeof(int),
		       sizeof(int));
		close(passed);
	}
	return n;
}

/* Reads one frame, which the library sends at once. True: the end. */
static bool serve(struct fake_agent *agent, int fd)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *request = NULL;
	static uint8_t bytes[65536];
	size_t len = 0, want = 4;

	while (len < want) {
		ssize_t n = receive(agent, fd, bytes + len, want - len);

		if (n <= 0)
			return true;
		len += (size_t)n;
		if (len == 4)
			want = 4 + ((size_t)bytes[2] << 8 | bytes[3]);
	}
	if (fgt_message_decode(bytes + 4, len - 4, &request) < 0)
		return true;
	return answer(agent, fd, request);
}

static void accept_client(struct fake_agent *agent)
{
	int fd = accept4(agent->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	for (int i = 0; i < FAKE_CLIENTS; i++)
		if (agent->clients[i] < 0) {
			agent->clients[i] = fd;
			return;
		}
	close(fd);
}

static void *run(void *context)
{
	struct fake_agent *agent = context;

	while (!agent->shall_end) {
		struct pollfd fds[FAKE_CLIENTS + 1] = {
			{ .fd = agent->listen_fd, .events = POLLIN },
		};

		for (int i = 0; i < FAKE_CLIENTS; i++)
			fds[i + 1] = (struct pollfd){ .fd = agent->clients[i],
						      .events = POLLIN };
		if (poll(fds, FAKE_CLIENTS + 1, 10) <= 0)
			continue;
		for (int i = 0; i < FAKE_CLIENTS; i++)
			if (fds[i + 1].revents &&
			    serve(agent, agent->clients[i])) {
				close(agent->clients[i]);
				agent->clients[i] = -1;
			}
		if (fds[0].revents)
			accept_client(agent);
	}
	return NULL;
}

void fake_agent_init(struct fake_agent *agent)
{
	memset(agent, 0, sizeof(*agent));
	strcpy(agent->folder, "/tmp/fgt-fake-XXXXXX");
	must(mkdtemp(agent->folder));
	snprintf(agent->path, sizeof(agent->path), "%s/agent.sock",
		 agent->folder);
}

void fake_agent_start(struct fake_agent *agent)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, agent->path);
	(void)unlink(agent->path);
	for (int i = 0; i < FAKE_CLIENTS; i++)
		agent->clients[i] = -1;
	agent->shall_end = false;
	agent->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(agent->listen_fd >= 0);
	must(bind(agent->listen_fd, (struct sockaddr *)&address,
		  sizeof(address)) == 0);
	must(listen(agent->listen_fd, 16) == 0);
	must(pthread_create(&agent->thread, NULL, run, agent) == 0);
	agent->is_running = true;
}

void fake_agent_kill(struct fake_agent *agent)
{
	if (!agent->is_running)
		return;
	agent->shall_end = true;
	pthread_join(agent->thread, NULL);
	agent->is_running = false;
	close(agent->listen_fd);
	for (int i = 0; i < FAKE_CLIENTS; i++)
		if (agent->clients[i] >= 0)
			close(agent->clients[i]);
}

void fake_agent_done(struct fake_agent *agent)
{
	fake_agent_kill(agent);
	(void)unlink(agent->path);
	(void)rmdir(agent->folder);
}
