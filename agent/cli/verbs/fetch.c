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
#include "agent/cli/range/range_request.h"
#include "agent/config/config.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice_codec.h"
#include "ringbuf/slice/wall_clock.h"

#define TIMEOUT_NS	UINT64_C(30000000000)
#define SILENT_NS	UINT64_C(2000000000) /* then the wait is announced */
#define SYSTEM_SOCKET	"/run/fgtrace/agent.sock"
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
	int r = fgt_builder_new_request("slice", &request);

	if (r < 0)
		return r;
	if (fetch->choice.pid)
		fgt_builder_int(request, "pid", fetch->choice.pid);
	else if (fetch->choice.name)
		fgt_builder_string(request, "name", fetch->choice.name);
	fgt_range_put(&fetch->range, request);
	if (fetch->tid)
		fgt_builder_int(request, "tid", fetch->tid);
	if (fetch->is_moment)
		fgt_builder_bool(request, "moment", true);
	*ret_request = request;
	return 0;
}

/* Names the targets among which the agent could not choose. */
static int explain_choice(const struct fgt_message *reply, struct fgt_why *why)
{
	struct fgt_message_array targets = { .count = 0 };
	struct fgt_message target;
	char list[256] = "";
	size_t len = 0;

	(void)fgt_message_get_array(reply, "targets", &targets);
	while (len < sizeof(list) - 96 &&
	       fgt_message_next(&targets, &target) == 0) {
		const char *name = "?";
		bool has_ended = false;
		int64_t pid = 0;

		(void)fgt_message_get_int(&target, "pid", &pid);
		(void)fgt_message_get_string(&target, "name", &name);
		(void)fgt_message_get_bool(&target, "ended", &has_ended);
		len += (size_t)snprintf(list + len, sizeof(list) - len,
					"%s%lld %.40s%s", len ? ", " : "",
					(long long)pid, name,
					has_ended ? ", ended" : "");
	}
	return fgt_why_set(why, -ENOTUNIQ,
			   "several targets fit (%s%s): choose one with -p "
			   "PID; 'fgtrace-agent targets' has their times",
			   list, len >= sizeof(list) - 96 ? ", ..." : "");
}

static void write_held(const struct fgt_message *reply,
		       const struct fgt_range *range, const char *key,
		       const char *wall_key, char *ret_text, size_t size)
{
	uint64_t mono_ns = 0, wall_ns = 0;
	struct fgt_now now;

	fgt_now_read(&now);
	(void)fgt_message_get_uint(reply, key, &mono_ns);
	(void)fgt_message_get_uint(reply, wall_key, &wall_ns);
	fgt_range_write(range, &now, mono_ns, wall_ns, ret_text, size);
}

/* What the ring holds, in the form in which it was asked for; the agent's own
 * text is relative to now. */
static int explain_no_data(const struct fgt_message *reply,
			   const struct fgt_range *range, struct fgt_why *why)
{
	char oldest[FGT_TIME_TEXT_SIZE], newest[FGT_TIME_TEXT_SIZE];
	bool is_outside = false;

	(void)fgt_message_get_bool(reply, "outside", &is_outside);
	if (!is_outside || fgt_range_form(range) == FGT_TIME_RELATIVE)
		return -ENODATA;
	write_held(reply, range, "oldest_ns", "oldest_wall_ns", oldest,
		   sizeof(oldest));
	write_held(reply, range, "newest_ns", "newest_wall_ns", newest,
		   sizeof(newest));
	return fgt_why_set(why, -ENODATA,
			   "no data in range: the ring holds %s to %s; ask "
			   "within that",
			   oldest, newest);
}

/* The agent of another user, or a directory of another user in the
 * environment, is the likely cause where an ordinary user finds no agent. */
static int explain_socket(int error, const char *socket_path,
			  struct fgt_why *why)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	size_t len = runtime ? strlen(runtime) : 0;

	if (len && strncmp(socket_path, runtime, len) == 0 &&
	    access(runtime, X_OK) < 0)
		return fgt_why_set(why, error,
				   "cannot use XDG_RUNTIME_DIR=%s (%m): set it "
				   "to your directory or name the agent's "
				   "socket with --socket",
				   runtime);
	if (error != -EACCES && geteuid() != 0 &&
	    access(SYSTEM_SOCKET, F_OK) == 0)
		return fgt_why_set(why, error,
				   "no agent listens on %s: start "
				   "'fgtrace-agent daemon' or use root's with "
				   "--socket " SYSTEM_SOCKET,
				   socket_path);
	return fgt_channel_explain(error, socket_path, why);
}

int fgt_fetch_open(const char *socket_path, struct fgt_channel *ret_channel,
		   struct fgt_why *why)
{
	int r = fgt_channel_open(socket_path, false,
				 fgt_clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS,
				 ret_channel);

	if (r == -ENOENT || r == -ECONNREFUSED || r == -EACCES)
		r = explain_socket(r, socket_path, why);
	else if (r < 0)
		r = fgt_channel_explain(r, socket_path, why);
	/* Another number: a reply may hold -ENOENT, too. */
	return r == -ENOENT || r == -ECONNREFUSED ? -EHOSTDOWN : r;
}

/* What the agent wrote is in why already. */
static int explain_reply(int error, const struct fgt_message *reply,
			 const struct fgt_range *range, struct fgt_why *why)
{
	if (error == -ENOTUNIQ)
		return explain_choice(reply, why);
	if (error == -ENODATA && range)
		return explain_no_data(reply, range, why);
	return error;
}

/* range: of a slice, or NULL. */
static int call(const struct fgt_channel *channel, const char *socket_path,
		struct fgt_builder *request, const struct fgt_range *range,
		struct fgt_message **ret_reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	uint64_t ready_ns = fgt_clock_ns(CLOCK_MONOTONIC) +
			    (range ? fgt_range_wait_ns(range) : 0);
	uint64_t deadline_ns = ready_ns + TIMEOUT_NS;
	int r = fgt_channel_send(channel, request, NULL, 0, deadline_ns);

	if (r == 0 &&
	    fgt_channel_wait(channel, ready_ns + SILENT_NS) == -ETIMEDOUT)
		fgt_note(NULL,
			 "waiting for the agent on %s, which has not answered "
			 "yet",
			 socket_path);
	if (r == 0)
		r = fgt_channel_receive_reply(channel, deadline_ns, &reply,
					      why);
	if (r < 0)
		return reply ? explain_reply(r, reply, range, why)
			     : fgt_channel_explain(r, socket_path, why);
	*ret_reply = FGT_TAKE(reply);
	return 0;
}

int fgt_fetch_reply(const char *socket_path, struct fgt_builder *request,
		    struct fgt_message **ret_reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	int r = fgt_fetch_open(socket_path, &channel, why);

	return r < 0 ? r
		     : call(&channel, socket_path, request, NULL, ret_reply,
			    why);
}

static int receive_slice(const struct fgt_fetch *fetch,
			 const struct fgt_channel *channel,
			 struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	struct fgt_memory_sink download; /* the .fgt bytes as they arrive */
	struct fgt_why agent_why = { "" };
	int r;

	fgt_memory_sink_init(&download, SLICE_MAX_BYTES);
	r = fgt_channel_receive_file(channel, &download.sink, TIMEOUT_NS,
				     UINT64_MAX, &agent_why);
	if (r == 0)
		r = fgt_slice_decode(download.bytes, download.len_bytes,
				     ret_slice, why);
	else if (agent_why.text[0])
		*why = agent_why;
	else if (r == -EMSGSIZE || r == -ENOMEM)
		(void)fgt_why_set(why, r,
				  "the slice does not fit into memory; ask "
				  "for a shorter time");
	else
		(void)fgt_channel_explain(r, fetch->socket_path, why);
	fgt_memory_sink_done(&download);
	return r;
}

int fgt_fetch_slice(const struct fgt_fetch *fetch,
		    const struct fgt_channel *channel,
		    struct fgt_ring_slice **ret_slice, bool *ret_is_clock_set,
		    struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	int r = make_request(fetch, &request);

	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	r = call(channel, fetch->socket_path, request, &fetch->range, &reply,
		 why);
	if (r < 0)
		return r;
	*ret_is_clock_set = false;
	(void)fgt_message_get_bool(reply, "wall_clock_set", ret_is_clock_set);
	return receive_slice(fetch, channel, ret_slice, why);
}

int fgt_fetch_read_target(const struct fgt_arguments *arguments,
			  struct fgt_fetch *fetch, struct fgt_why *why)
{
	int64_t pid;
	int r = fgt_options_get_number(arguments, "pid", 1, INT32_MAX, 0, &pid,
				       why);

	if (r < 0)
		return r;
	fetch->choice.pid = (int32_t)pid;
	fetch->choice.name = fgt_options_get(arguments, "name");
	fetch->choice.is_all = fgt_options_has(arguments, "all");
	fetch->choice.with_children = fgt_options_has(arguments, "children");
	if (fetch->choice.with_children && !fetch->choice.pid)
		return fgt_why_set(why, -EINVAL,
				   "--children is for a process: name it with "
				   "-p PID");
	return 0;
}

int fgt_fetch_refuse_target(const struct fgt_arguments *arguments,
			    struct fgt_why *why)
{
	static const char *const flags[] = { "pid", "name", "children", "all" };

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (fgt_options_has(arguments, flags[i]))
			return fgt_why_set(why, -EINVAL,
					   "--%s chooses targets of a daemon, "
					   "not of %s: leave one out (--tid "
					   "and --thread choose in a file)",
					   flags[i], arguments->operands[0]);
	return 0;
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

/* The daemon fills in that end, or its own now, which is later than this one. */
void fgt_fetch_now(const char *verb, const struct fgt_ring_slice *slice,
		   struct fgt_now *now)
{
	if (slice->requested_to_ns >= now->mono_ns)
		return;
	if (*slice->ended_by)
		fgt_note(verb,
			 "the target was ended by %s %.1f s ago: now is its "
			 "end",
			 slice->ended_by,
			 (double)(now->mono_ns - slice->requested_to_ns) / 1e9);
	else
		fgt_note(verb, "the target has ended: now is its end");
	fgt_now_at_end(slice, now);
}

int fgt_fetch_ring(const struct fgt_arguments *arguments,
		   struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	char socket_path[FGT_SOCKET_PATH_SIZE];
	struct fgt_fetch fetch = { .socket_path = socket_path };
	bool is_clock_set;
	int r = fgt_fetch_read_target(arguments, &fetch, why);

	if (r == 0)
		r = fgt_fetch_socket(arguments, socket_path,
				     sizeof(socket_path), why);
	if (r == 0)
		r = fgt_fetch_slices(&fetch, ret_slice, &is_clock_set, why);
	return r;
}
