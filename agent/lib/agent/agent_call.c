/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the agent. Runs in the program's threads and on the worker; must
 * not wait beyond a deadline, must not believe the agent.
 */
#include "agent/lib/agent/agent_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/msgpack_check.h"
#include "ringbuf/base/msgpack_cursor.h"
#include "ringbuf/base/sink.h"

#define SYSTEM_SOCKET "/run/fgtrace/agent.sock"
#define SOCKET_SIZE   108
#define REPLY_MAX     ((size_t)64 << 10)
#define DATA_MAX      ((size_t)1 << 20) /* one frame of a slice */
#define SLICE_MAX     ((size_t)256 << 20)
#define MAGIC	      "FGT1" /* of a .fgt file */
#define MAGIC_LEN     4
#define NESTING_MAX   16 /* as whoever decodes it has it */

/* False: the path would be too long. */
static bool user_socket(char *path, size_t size)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int len;

	if (runtime && *runtime == '/')
		len = snprintf(path, size, "%s/fgtrace/agent.sock", runtime);
	else
		len = snprintf(path, size, "/tmp/fgtrace-%u/agent.sock",
			       geteuid());
	return len > 0 && (size_t)len < size;
}

/*
 * Where nobody said which socket, an agent of another user could only be one
 * that was put in its way: folders in /tmp belong to whoever comes first.
 */
int fgt_agent_connect(const struct fgt_options *options, uint64_t deadline_ns,
		      struct fgt_channel *ret_channel)
{
	char path[SOCKET_SIZE];

	if (options->socket)
		return fgt_channel_open(options->socket, false, deadline_ns,
					ret_channel);
	if (geteuid() != 0 && user_socket(path, sizeof(path)) &&
	    fgt_channel_open(path, true, deadline_ns, ret_channel) == 0)
		return 0;
	return fgt_channel_open(SYSTEM_SOCKET, true, deadline_ns, ret_channel);
}

static int receive(const struct fgt_channel *channel,
		   struct fgt_channel_frame *frame, size_t max_bytes,
		   uint64_t deadline_ns, struct fgt_answer *ret_answer)
{
	int r = fgt_channel_receive(channel, frame, max_bytes, deadline_ns);

	return r < 0 ? r
		     : fgt_answer_parse(frame->bytes, frame->len, ret_answer);
}

static int send_request(const struct fgt_channel *channel,
			struct fgt_wire *request, const int *fds,
			unsigned int fd_count, uint64_t deadline_ns)
{
	const uint8_t *bytes;
	size_t len;
	int r = fgt_wire_finish(request, &bytes, &len);

	if (r == 0)
		r = fgt_channel_send(channel, bytes, len, fds, fd_count,
				     deadline_ns);
	/* An agent that sends a client away at once has answered already. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static int check(const struct fgt_answer *answer)
{
	if (!answer->has_ok)
		return -EBADMSG;
	if (answer->is_ok)
		return 0;
	return answer->error < 0 ? answer->error : -EBADMSG;
}

int fgt_agent_call(const struct fgt_channel *channel, struct fgt_wire *request,
		   const int *fds, unsigned int fd_count, uint64_t deadline_ns,
		   struct fgt_answer *ret_answer)
{
	struct fgt_channel_frame frame = { 0 };
	int r = send_request(channel, request, fds, fd_count, deadline_ns);

	memset(ret_answer, 0, sizeof(*ret_answer));
	if (r == 0)
		r = receive(channel, &frame, REPLY_MAX, deadline_ns,
			    ret_answer);
	free(frame.bytes);
	ret_answer->data = NULL;
	ret_answer->data_len = 0;
	return r < 0 ? r : check(ret_answer);
}

/* ---- Slices ------------------------------------------------------------ */

struct download {
	const struct fgt_channel *channel;
	uint64_t deadline_ns;
	struct fgt_channel_frame frame;
	struct fgt_memory_sink memory;
};

static int append(struct download *download, const struct fgt_answer *answer)
{
	int r = fgt_sink_write(&download->memory.sink, answer->data,
			       answer->data_len);

	/* No slice is that large. */
	return r == -EMSGSIZE ? -EBADMSG : r;
}

/*
 * One msgpack map that tells its version first, whole and with nothing after
 * it. What its tables say whoever decodes them looks at: that needs as much
 * memory again, and a program may only want to keep the bytes.
 */
static bool is_slice(const uint8_t *bytes, size_t len)
{
	struct fgt_msgpack_cursor cursor;
	struct fgt_msgpack_text key;

	if (len <= MAGIC_LEN || memcmp(bytes, MAGIC, MAGIC_LEN) != 0)
		return false;
	bytes += MAGIC_LEN;
	len -= MAGIC_LEN;
	if (fgt_msgpack_check(bytes, len, NESTING_MAX) < 0)
		return false;
	fgt_msgpack_cursor_init(&cursor, bytes, len);
	if (fgt_msgpack_read_map(&cursor) == 0)
		return false;
	key = fgt_msgpack_read_str(&cursor);
	(void)fgt_msgpack_read_uint(&cursor, UINT64_MAX);
	return !cursor.error && fgt_msgpack_text_is(key, "version");
}

/* The frames after the first, up to the end. */
static int receive_data(struct download *download)
{
	struct fgt_answer answer;
	int r;

	do {
		r = receive(download->channel, &download->frame, DATA_MAX,
			    download->deadline_ns, &answer);
		if (r == 0 && answer.has_ok)
			r = answer.is_ok ? -EBADMSG : check(&answer);
		if (r == 0 && !answer.is_end && !answer.data)
			r = -EBADMSG;
		if (r == 0 && !answer.is_end)
			r = append(download, &answer);
	} while (r == 0 && !answer.is_end);
	if (r == 0 &&
	    (answer.len != download->memory.len_bytes ||
	     !is_slice(download->memory.bytes, download->memory.len_bytes)))
		r = -EBADMSG;
	return r;
}

static int receive_slice(struct download *download,
			 struct fgt_slice **ret_slice)
{
	struct fgt_slice *slice;
	struct fgt_answer head;
	int r = receive(download->channel, &download->frame, REPLY_MAX,
			download->deadline_ns, &head);

	if (r == 0)
		r = check(&head);
	if (r == 0 && (head.from_ns > head.to_ns || head.ticks < 2 ||
		       head.threads > UINT32_MAX))
		r = -EBADMSG;
	if (r == 0)
		r = receive_data(download);
	if (r < 0)
		return r;
	slice = calloc(1, sizeof(*slice));
	if (!slice)
		return -ENOMEM;
	slice->bytes = FGT_TAKE(download->memory.bytes);
	slice->len_bytes = download->memory.len_bytes;
	slice->from_ns = head.from_ns;
	slice->to_ns = head.to_ns;
	slice->ticks = head.ticks;
	slice->threads = (unsigned int)head.threads;
	*ret_slice = slice;
	return 0;
}

/* What the agent or the system said, as fgt_get_slice() says it. */
static int translate(int error)
{
	switch (error) {
	case 0:
	case -ENODATA:
	case -ETIMEDOUT:
	case -EBADMSG:
	case -EBUSY:
	case -ENOMEM:
		return error;
	case -EAGAIN: /* no thread, or the ring was faster */
	case -EUSERS:
		return -EBUSY;
	case -ESRCH: /* it does not know us (yet): it has been restarted */
	case -ESHUTDOWN: /* it is leaving */
	default:
		return -ENOTCONN;
	}
}

int fgt_agent_cut(const struct fgt_options *options, uint64_t from_ns,
		  uint64_t to_ns, uint64_t deadline_ns, int *ret_way,
		  struct fgt_slice **ret_slice)
{
	struct fgt_channel channel = { .fd = -1 };
	struct download download = { .channel = &channel,
				     .deadline_ns = deadline_ns };
	struct fgt_wire request;
	int r = fgt_agent_connect(options, deadline_ns, &channel);

	*ret_way = r;
	if (r < 0)
		return translate(r);
	fgt_memory_sink_init(&download.memory, SLICE_MAX);
	fgt_wire_init(&request, "slice");
	fgt_wire_bool(&request, "self", true);
	fgt_wire_uint(&request, "from_ns", from_ns);
	fgt_wire_uint(&request, "to_ns", to_ns);
	r = send_request(&channel, &request, NULL, 0, deadline_ns);
	if (r == 0)
		r = receive_slice(&download, ret_slice);
	fgt_wire_done(&request);
	free(download.frame.bytes);
	fgt_memory_sink_done(&download.memory);
	fgt_channel_close(&channel);
	return translate(r);
}
