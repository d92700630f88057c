/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What verbs ask of a daemon. Runs in the command line's main thread; every
 * wait is bounded, and so is every byte that the daemon may send.
 */
#include "agent/cli/verbs/fetch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent/cli/complaint.h"
#include "agent/cli/range/wall_clock.h"
#include "agent/config/config.h"
#include "agent/protocol/client.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice_codec.h"

#define TIMEOUT_MS	30000
#define SLICE_MAX_BYTES ((size_t)1 << 30)
#define SOCKET_PATH_MAX (FGT_SOCKET_PATH_SIZE - 1)

int fgt_fetch_socket(const struct fgt_arguments *arguments, char *ret_path,
		     size_t size, struct fgt_why *why)
{
	const char *path = fgt_options_get(arguments, "socket");
	int r = 0;

	if (path && strlen(path) < size && strlen(path) <= SOCKET_PATH_MAX)
		strcpy(ret_path, path);
	else
		r = path ? -ENAMETOOLONG : fgt_default_socket(ret_path, size);
	if (r < 0)
		return fgt_why_set(why, r,
				   "the socket's path is longer than %d bytes; "
				   "give a shorter one with --socket",
				   SOCKET_PATH_MAX);
	return 0;
}

/* Nobody there gets a number of its own: a reply may say -ENOENT, too. */
static int open_client(const char *socket_path, struct fgt_client **ret_client,
		       struct fgt_why *why)
{
	int r = fgt_client_open(socket_path, TIMEOUT_MS, ret_client, why);

	return r == -ENOENT || r == -ECONNREFUSED ? -EHOSTDOWN : r;
}

int fgt_fetch_put_target(struct fgt_builder *request, const char *text,
			 struct fgt_why *why)
{
	int64_t pid;
	int r = fgt_number_parse(text, &pid);

	if (r == -EINVAL) {
		fgt_builder_string(request, "name", text);
		return 0;
	}
	if (r < 0 || pid < 1 || pid > INT32_MAX)
		return fgt_why_set(why, -EINVAL,
				   "'%s' is not a process id; give a number "
				   "from 1 to %d or a name",
				   text, INT32_MAX);
	fgt_builder_int(request, "pid", pid);
	return 0;
}

static int make_request(const struct fgt_fetch *fetch,
			struct fgt_builder **ret_request)
{
	struct fgt_builder *request;
	int r = fgt_client_request_new("slice", &request);

	if (r < 0)
		return r;
	if (fetch->pid)
		fgt_builder_int(request, "pid", fetch->pid);
	else if (fetch->name)
		fgt_builder_string(request, "name", fetch->name);
	fgt_builder_uint(request, "from_ns", fetch->from_ns);
	fgt_builder_uint(request, "to_ns", fetch->to_ns);
	if (fetch->tid)
		fgt_builder_int(request, "tid", fetch->tid);
	*ret_request = request;
	return 0;
}

/* Until to_ns has come, and then as long as any request. */
static int timeout_for(const struct fgt_fetch *fetch)
{
	struct fgt_now now;
	uint64_t wait_ms = 0;

	fgt_now_read(&now);
	if (fetch->to_ns > now.mono_ns)
		wait_ms = (fetch->to_ns - now.mono_ns) / 1000000;
	return wait_ms > INT_MAX - TIMEOUT_MS ? INT_MAX
					      : (int)wait_ms + TIMEOUT_MS;
}

/* Names the targets among which the agent could not choose. */
static int explain_choice(const struct fgt_message *reply, struct fgt_why *why)
{
	char list[256] = "";
	size_t count = 0, len = 0;

	(void)fgt_message_get_array(reply, "targets", &count);
	for (size_t i = 0; i < count && len < sizeof(list) - 96; i++) {
		const struct fgt_message *target;
		const char *name = "?";
		int64_t pid = 0;

		if (fgt_message_get_array_map(reply, "targets", i, &target) < 0)
			break;
		(void)fgt_message_get_int(target, "pid", &pid);
		(void)fgt_message_get_string(target, "name", &name);
		len += (size_t)snprintf(list + len, sizeof(list) - len,
					"%s%lld %.40s", i ? ", " : "",
					(long long)pid, name);
	}
	return fgt_why_set(why, -ENOTUNIQ,
			   "several targets fit (%s%s); choose one with -p PID",
			   list, len >= sizeof(list) - 96 ? ", ..." : "");
}

/* What the agent said is in why already. */
static int explain_reply(int error, const struct fgt_message *reply,
			 struct fgt_why *why)
{
	return reply && error == -ENOTUNIQ ? explain_choice(reply, why) : error;
}

int fgt_fetch_reply(const char *socket_path, struct fgt_builder *request,
		    struct fgt_message **ret_reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_client_close) struct fgt_client *client = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	int r = open_client(socket_path, &client, why);

	if (r == 0)
		r = fgt_client_call(client, request, &reply, why);
	if (r < 0)
		return explain_reply(r, reply, why);
	*ret_reply = FGT_TAKE(reply);
	return 0;
}

/* One frame of data: 1 at the end, 0 if there is more. */
static int take_frame(struct fgt_memory_sink *download,
		      const struct fgt_message *frame, struct fgt_why *why)
{
	const uint8_t *bytes;
	bool is_end = false;
	uint64_t total;
	size_t len;
	int r;

	if (fgt_message_get_bool(frame, "end", &is_end) == 0 && is_end) {
		if (fgt_message_get_uint(frame, "len", &total) < 0 ||
		    total != download->len_bytes)
			return fgt_why_set(why, -EBADMSG,
					   "the slice arrived incomplete; try "
					   "again");
		return 1;
	}
	/* An error may still come after the first data. */
	if (fgt_message_get_bin(frame, "data", &bytes, &len) < 0) {
		r = fgt_client_check(frame, why);
		return r < 0 ? r
			     : fgt_why_set(why, -EBADMSG,
					   "the agent sent a frame without "
					   "data; use the same release");
	}
	r = fgt_sink_write(&download->sink, bytes, len);
	if (r < 0)
		return fgt_why_set(why, r,
				   "the slice does not fit into memory; ask "
				   "for a shorter time");
	return 0;
}

static int receive_data(struct fgt_client *client,
			struct fgt_memory_sink *download, struct fgt_why *why)
{
	int r;

	do {
		FGT_AUTO(fgt_message_free) struct fgt_message *frame = NULL;

		r = fgt_client_receive(client, &frame, why);
		if (r == 0)
			r = take_frame(download, frame, why);
	} while (r == 0);
	return r < 0 ? r : 0;
}

int fgt_fetch_slice(const struct fgt_fetch *fetch,
		    struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_client_close) struct fgt_client *client = NULL;
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	struct fgt_memory_sink download; /* the .fgt bytes as they arrive */
	int r = make_request(fetch, &request);

	if (r < 0)
		return fgt_why_set(why, r, "out of memory; free some");
	r = open_client(fetch->socket_path, &client, why);
	if (r < 0)
		return r;
	fgt_client_set_timeout(client, timeout_for(fetch));
	r = fgt_client_call(client, request, &reply, why);
	if (r < 0)
		return explain_reply(r, reply, why);
	fgt_memory_sink_init(&download, SLICE_MAX_BYTES);
	r = receive_data(client, &download, why);
	if (r == 0)
		r = fgt_slice_decode(download.bytes, download.len_bytes,
				     ret_slice, why);
	fgt_memory_sink_done(&download);
	return r;
}

enum fgt_exit fgt_fetch_exit(int error)
{
	switch (error) {
	case -EHOSTDOWN:
		return FGT_EXIT_NO_AGENT;
	case -EINVAL:
	case -ENAMETOOLONG:
	case -ENOTUNIQ:
		return FGT_EXIT_USAGE;
	default:
		return fgt_exit_of(error);
	}
}
