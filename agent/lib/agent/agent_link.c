/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a backend: it samples this process from outside. cut and the
 * getters run in any thread, all else on the worker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/agent/registrar.h"
#include "agent/lib/library.h"
#include "agent/protocol/transaction_facts.h"
#include "ringbuf/base/msgpack_cursor.h"

#define SLICE_MAX   ((size_t)256 << 20)
#define MAGIC	    "FGT1" /* of a .fgt file */
#define MAGIC_LEN   4
#define NESTING_MAX 16 /* as the decoder of .fgt files has it */

int fgt_agent_link_open(bool is_needed)
{
	int r;

	fgt_registrar_begin(-1);
	/* An absent agent is not logged where another backend follows. */
	r = fgt_registrar_register(is_needed);
	if (r == 0 || !is_needed)
		return 0;
	fgt_registrar_end();
	return r;
}

/* ---- Slices ------------------------------------------------------------ */

/*
 * True for one whole msgpack map whose first key is its version. The tables in
 * it are not checked: that takes as much memory again, and their decoder does
 * it anyway.
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

/* The range and the counts of the slice that follows. */
static int read_head(const struct fgt_message *reply,
		     struct fgt_slice_file *ret_file)
{
	uint64_t threads;

	if (fgt_message_get_uint(reply, "from_ns", &ret_file->from_ns) < 0 ||
	    fgt_message_get_uint(reply, "to_ns", &ret_file->to_ns) < 0 ||
	    fgt_message_get_uint(reply, "ticks", &ret_file->ticks) < 0 ||
	    fgt_message_get_uint(reply, "threads", &threads) < 0)
		return -EBADMSG;
	if (ret_file->from_ns > ret_file->to_ns || ret_file->ticks < 2 ||
	    threads > UINT32_MAX)
		return -EBADMSG;
	ret_file->threads = (unsigned int)threads;
	return 0;
}

static int receive_file(const struct fgt_channel *channel, uint64_t deadline_ns,
			struct fgt_slice_file *file)
{
	struct fgt_memory_sink memory;
	int r;

	fgt_memory_sink_init(&memory, SLICE_MAX);
	r = fgt_channel_receive_file(channel, &memory.sink, 0, deadline_ns,
				     NULL);
	/* No slice is larger than SLICE_MAX. */
	if (r == -EMSGSIZE ||
	    (r == 0 && !is_slice(memory.bytes, memory.len_bytes)))
		r = -EBADMSG;
	if (r == 0) {
		file->len_bytes = memory.len_bytes;
		file->bytes = FGT_TAKE(memory.bytes);
	}
	fgt_memory_sink_done(&memory);
	return r;
}

/* A slice of this process. */
static int request_slice(const struct fgt_channel *channel, uint64_t from_ns,
			 uint64_t to_ns, uint64_t deadline_ns,
			 struct fgt_slice_file *file)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	int r = fgt_builder_new_request("slice", &request);

	if (r < 0)
		return r;
	fgt_builder_bool(request, "self", true);
	fgt_builder_uint(request, "from_ns", from_ns);
	fgt_builder_uint(request, "to_ns", to_ns);
	r = fgt_channel_call(channel, request, deadline_ns, &reply, NULL);
	if (r == 0)
		r = read_head(reply, file);
	return r < 0 ? r : receive_file(channel, deadline_ns, file);
}

/* The error of the agent or of the system as that of fgt_get_slice(). */
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
	case -EAGAIN: /* no thread, or the ring was overwritten meanwhile */
	case -EUSERS:
		return -EBUSY;
	default: /* -ESRCH: it has been restarted; -ESHUTDOWN: it is leaving */
		return -ENOTCONN;
	}
}

/* Over a second connection: the worker uses the registered one. */
static int cut_slice(uint64_t from_ns, uint64_t to_ns,
		     struct fgt_slice **ret_slice)
{
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	uint64_t deadline_ns = fgt_registrar_deadline();
	struct fgt_slice *slice = calloc(1, sizeof(*slice));
	int r = slice ? fgt_registrar_connect(deadline_ns, &channel) : -ENOMEM;

	if (r == 0)
		r = request_slice(&channel, from_ns, to_ns, deadline_ns,
				  &slice->file);
	if (r < 0) {
		free(slice);
		return translate(r);
	}
	*ret_slice = slice;
	return 0;
}

static int cut(uint64_t from_ns, uint64_t to_ns, struct fgt_slice **ret_slice)
{
	int r = -ENOTCONN;

	if (fgt_registrar_is_registered())
		r = cut_slice(from_ns, to_ns, ret_slice);
	if (r == -ENOTCONN)
		fgt_library_wake(); /* to look for the agent again */
	return r;
}

/* ---- Deliveries -------------------------------------------------------- */

static int make_request(const struct fgt_delivery *delivery,
			struct fgt_builder **ret_request)
{
	const struct fgt_transaction_facts *facts = delivery->facts;
	struct fgt_builder *request;
	int r = fgt_builder_new_request("deliver", &request);

	if (r < 0)
		return r;
	fgt_builder_string(request, "destination", delivery->destination);
	if (delivery->slice) {
		fgt_builder_bin(request, "data", delivery->slice->file.bytes,
				delivery->slice->file.len_bytes);
	} else {
		fgt_builder_uint(request, "from_ns", facts->begin_ns);
		fgt_builder_uint(request, "to_ns", facts->end_ns);
	}
	if (facts)
		fgt_facts_put(request, facts);
	*ret_request = request;
	return 0;
}

/* The cause in why, and -EAGAIN if the next try may succeed. */
static int explain(int error, struct fgt_why *why)
{
	bool is_answered = why->text[0];

	if (error == -EMSGSIZE && !is_answered)
		return fgt_why_set(why, error,
				   "a slice is larger than the 16 MiB that an "
				   "agent takes: upload a shorter range");
	/* The registrar logs why the agent is away. */
	if (!is_answered)
		(void)fgt_why_set(why, error,
				  "the agent does not take deliveries now: "
				  "they are tried again, at most 8 times");
	return !is_answered || error == -EBUSY || error == -ESHUTDOWN ? -EAGAIN
								      : error;
}

static int deliver(const struct fgt_delivery *delivery, struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	int r = make_request(delivery, &request);

	if (r == 0)
		r = fgt_registrar_call(request, why);
	return r < 0 ? explain(r, why) : 0;
}

const struct fgt_backend fgt_agent_link = {
	.mode = FGT_AGENT,
	.cut = cut,
	.deliver = deliver,
	.refresh = fgt_registrar_refresh,
	.is_recording = fgt_registrar_is_registered,
	.hz = fgt_registrar_hz,
	.get_limitation = fgt_registrar_get_limitation,
	.forked = fgt_registrar_forked,
	.close = fgt_registrar_end,
};
