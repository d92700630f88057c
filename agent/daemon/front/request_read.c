/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a struct of a client's msgpack. Runs in a front; what it refuses, the
 * client gets to read.
 */
#include "agent/daemon/front/front.h"

#include <errno.h>
#include <string.h>

#include "agent/protocol/builder.h"
#include "agent/protocol/message.h"
#include "agent/protocol/protocol.h"
#include "agent/protocol/transaction_facts.h"

/* One request while it is read. */
struct reading_call {
	const struct fgt_request_frame *frame;
	const struct fgt_message *message;
	struct fgt_request *request; /* all zero at first */
	struct fgt_why why;
};

static int refuse(struct reading_call *call, const char *text)
{
	return fgt_why_set(&call->why, -EINVAL, "%s", text);
}

/* ---- Arguments of several verbs ---------------------------------------- */

/* ret_value stays if it is not there. */
static int get_truth(struct reading_call *call, const char *key,
		     uint32_t *ret_value)
{
	bool value;
	int r = fgt_message_get_bool(call->message, key, &value);

	if (r == 0)
		*ret_value = value;
	return r == 0 || r == -ENOENT
		       ? 0
		       : fgt_why_set(&call->why, -EINVAL,
				     "%s must be true or false", key);
}

static int get_text(struct reading_call *call, const char *key, char *to,
		    size_t size)
{
	const char *text;
	int r = fgt_message_get_string(call->message, key, &text);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || strlen(text) >= size)
		return fgt_why_set(&call->why, -EINVAL,
				   "%s must be a string of at most %zu bytes",
				   key, size - 1);
	strcpy(to, text);
	return 0;
}

static int get_pid(struct reading_call *call, int32_t *ret_pid)
{
	int64_t pid = 0;
	int r = fgt_message_get_int(call->message, "pid", &pid);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || pid < 1 || pid > INT32_MAX)
		return refuse(call,
			      "pid must be a number from 1 to 2147483647");
	*ret_pid = (int32_t)pid;
	return 0;
}

static int get_name(struct reading_call *call, char ret_name[])
{
	const char *name;
	int r = fgt_message_get_string(call->message, "name", &name);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || name[0] == '\0' || strlen(name) > FGT_REQUEST_NAME)
		return fgt_why_set(&call->why, -EINVAL,
				   "name must be a string of 1 to %d bytes",
				   FGT_REQUEST_NAME);
	strcpy(ret_name, name);
	return 0;
}

static int get_selector(struct reading_call *call,
			struct fgt_request_selector *selector)
{
	int r = get_pid(call, &selector->pid);

	if (r == 0)
		r = get_name(call, selector->name);
	if (r == 0)
		r = get_truth(call, "self", &selector->is_self);
	if (r == 0 && (selector->pid != 0) + (selector->name[0] != '\0') +
				      (selector->is_self != 0) >
			      1)
		return refuse(call, "pid, name and self exclude each other: "
				    "give one");
	return r;
}

/* -ENOENT: it is not there. */
static int get_ns(struct reading_call *call, const char *key, uint64_t *ret_ns)
{
	int r = fgt_message_get_uint(call->message, key, ret_ns);

	return r == 0 || r == -ENOENT
		       ? r
		       : fgt_why_set(&call->why, -EINVAL,
				     "%s must be a number of nanoseconds", key);
}

/* ---- attach, detach, slice --------------------------------------------- */

static int read_nothing(struct reading_call *call)
{
	(void)call;
	return 0;
}

static int read_target(struct reading_call *call)
{
	struct fgt_request_target *target = &call->request->target;
	int r = get_selector(call, &target->selector);

	return r < 0 ? r
		     : get_truth(call, "children", &target->is_with_children);
}

static int get_end(struct reading_call *call, const char *key,
		   const char *wall_key, struct fgt_request_end *end)
{
	int r = get_ns(call, key, &end->ns);
	int r_wall = get_ns(call, wall_key, &end->ns);

	if (r == 0 && r_wall == 0)
		return fgt_why_set(&call->why, -EINVAL,
				   "%s and %s exclude each other: give one",
				   key, wall_key);
	end->is_given = r == 0 || r_wall == 0;
	end->is_wall = r_wall == 0;
	return r == -EINVAL || r_wall == -EINVAL ? -EINVAL : 0;
}

static int read_slice(struct reading_call *call)
{
	struct fgt_request_slice *slice = &call->request->slice;
	int64_t tid = 0;
	int r = get_selector(call, &slice->selector);

	if (r < 0)
		return r;
	r = fgt_message_get_int(call->message, "tid", &tid);
	if ((r < 0 && r != -ENOENT) || tid < 0 || tid > INT32_MAX)
		return refuse(call,
			      "tid must be a number from 0 to 2147483647");
	slice->tid = (int32_t)tid;
	r = get_truth(call, "moment", &slice->is_moment);
	if (r == 0 && slice->is_moment && tid)
		return refuse(call, "tid and moment exclude each other: give "
				    "one");
	if (r == 0)
		r = get_end(call, "from_ns", "from_wall_ns", &slice->from);
	if (r == 0)
		r = get_end(call, "to_ns", "to_wall_ns", &slice->to);
	if (r == 0)
		r = get_ns(call, "last_ns", &slice->last_ns);
	if (r == 0 && slice->from.is_given)
		return refuse(call, "from and last_ns exclude each other: "
				    "give one");
	return r == -ENOENT ? 0 : r;
}

static int read_triggers(struct reading_call *call)
{
	return get_text(call, "try", call->request->triggers.name,
			sizeof(call->request->triggers.name));
}

/* ---- register ---------------------------------------------------------- */

static int read_registration(struct reading_call *call)
{
	struct fgt_request_register *to = &call->request->registration;
	const char *mode;
	int r;

	if (fgt_message_get_string(call->message, "mode", &mode) < 0 ||
	    (strcmp(mode, "agent") != 0 && strcmp(mode, "embedded") != 0))
		return refuse(call, "unknown mode: it must be agent or "
				    "embedded");
	to->is_embedded = strcmp(mode, "embedded") == 0;
	r = get_text(call, "destination", to->destination,
		     sizeof(to->destination));
	if (r == 0)
		r = get_text(call, "release", to->release, sizeof(to->release));
	if (r == 0)
		r = get_text(call, "environment", to->environment,
			     sizeof(to->environment));
	if (r == 0 && (get_truth(call, "spans", &to->has_spans) < 0 ||
		       get_truth(call, "ring", &to->has_ring) < 0))
		return refuse(call, "spans and ring must be true or false");
	return r;
}

/* ---- deliver ----------------------------------------------------------- */

/* For the process that delivers, and what the daemon's log and queue use. */
static int put_facts(struct reading_call *call,
		     const struct fgt_transaction_facts *facts)
{
	struct fgt_request_deliver *deliver = &call->request->deliver;
	size_t len;
	int r = fgt_facts_pack(facts, deliver->facts, sizeof(deliver->facts),
			       &len);

	if (r < 0)
		return fgt_why_set(&call->why, r,
				   "cannot queue the delivery: %s",
				   strerror(-r));
	deliver->facts_len = (uint32_t)len;
	deliver->has_times = facts->begin_ns && facts->end_ns;
	if (facts->name)
		strcpy(deliver->name, facts->name);
	memcpy(deliver->event_id, facts->event_id, sizeof(deliver->event_id));
	return 0;
}

static int get_facts(struct reading_call *call)
{
	static struct fgt_facts_room room;
	int r = fgt_facts_read(call->message, &room, &call->why);

	return r == 0 ? put_facts(call, &room.facts) : r == -ENOENT ? 0 : r;
}

/* Where the data stand in the frame: the message is a copy of it. */
static void find_data(struct reading_call *call)
{
	struct fgt_request_deliver *deliver = &call->request->deliver;
	struct fgt_msgpack_cursor cursor;
	struct fgt_msgpack_text text;
	uint32_t count;

	fgt_msgpack_cursor_init(&cursor, call->frame->bytes, call->frame->len);
	count = fgt_msgpack_read_map(&cursor);
	for (uint32_t i = 0; i < count && deliver->data_len == 0; i++) {
		text = fgt_msgpack_read_str(&cursor);
		if (text.len != 4 || memcmp(text.bytes, "data", 4) != 0) {
			fgt_msgpack_skip(&cursor);
			continue;
		}
		text = fgt_msgpack_read_bin(&cursor);
		deliver->data_at = (uint32_t)((const uint8_t *)text.bytes -
					      call->frame->bytes);
		deliver->data_len = (uint32_t)text.len;
	}
}

static int get_content(struct reading_call *call)
{
	struct fgt_request_deliver *deliver = &call->request->deliver;
	const uint8_t *bytes;
	size_t len;
	int r = fgt_message_get_bin(call->message, "data", &bytes, &len);

	if (r == 0 && len > 0) {
		find_data(call);
		return 0;
	}
	if (r != -ENOENT)
		return refuse(call, "data must be a .fgt file");
	if (fgt_message_get_uint(call->message, "from_ns", &deliver->from_ns) <
		    0 ||
	    fgt_message_get_uint(call->message, "to_ns", &deliver->to_ns) < 0 ||
	    deliver->from_ns > deliver->to_ns)
		return refuse(call, "from_ns and to_ns must be CLOCK_MONOTONIC "
				    "in ns, in order");
	return 0;
}

static int read_delivery(struct reading_call *call)
{
	struct fgt_request_deliver *deliver = &call->request->deliver;
	const char *destination;
	int r;

	if (fgt_message_get_string(call->message, "destination", &destination) <
	    0)
		return refuse(call, "destination must be a string");
	r = get_text(call, "destination", deliver->destination,
		     sizeof(deliver->destination));
	if (r == 0)
		r = get_facts(call);
	return r < 0 ? r : get_content(call);
}

/* ---- Any request ------------------------------------------------------- */

static const struct {
	const char *name;
	int (*read)(struct reading_call *call);
} verbs[FGT_REQUEST_VERBS] = {
	[FGT_REQUEST_ATTACH] = { "attach", read_target },
	[FGT_REQUEST_DETACH] = { "detach", read_target },
	[FGT_REQUEST_TARGETS] = { "targets", read_nothing },
	[FGT_REQUEST_SLICE] = { "slice", read_slice },
	[FGT_REQUEST_STATUS] = { "status", read_nothing },
	[FGT_REQUEST_REGISTER] = { "register", read_registration },
	[FGT_REQUEST_TRIGGERS] = { "triggers", read_triggers },
	[FGT_REQUEST_CONFIRM] = { "confirm", read_nothing },
	[FGT_REQUEST_DELIVER] = { "deliver", read_delivery },
	[FGT_REQUEST_BYE] = { "bye", read_nothing },
};

static int find_verb(struct reading_call *call)
{
	bool is_kept = call->frame->is_kept;
	uint32_t verb = is_kept ? FGT_REQUEST_CONFIRM : FGT_REQUEST_ATTACH;
	const uint32_t end = is_kept ? FGT_REQUEST_VERBS : FGT_REQUEST_CONFIRM;
	const char *name = "";
	int r = is_kept ? 0
			: fgt_message_check_request(call->message, &call->why);

	if (r == 0 &&
	    fgt_message_get_string(call->message, "verb", &name) < 0 &&
	    !is_kept)
		r = fgt_why_set(&call->why, -EBADMSG,
				"the request has no verb");
	if (r < 0)
		return r;
	while (verb < end && strcmp(verbs[verb].name, name) != 0)
		verb++;
	call->request->verb = verb;
	if (verb < end)
		return 0;
	return is_kept ? fgt_why_set(&call->why, -EPROTONOSUPPORT,
				     "unknown verb: registered connections "
				     "have confirm, deliver and bye")
		       : fgt_why_set(&call->why, -EPROTONOSUPPORT,
				     "the agent (%s) has no verb %.40s: use "
				     "the same release",
				     FGT_VERSION, name);
}

static int decode(struct reading_call *call, struct fgt_message **ret_message)
{
	int r = fgt_message_decode(call->frame->bytes, call->frame->len,
				   ret_message);

	call->message = *ret_message;
	if (r == -ENOMEM)
		return fgt_why_set(&call->why, r,
				   "the agent is " FGT_NO_MEMORY);
	return r < 0 ? fgt_why_set(&call->why, r,
				   "malformed request: not one msgpack map as "
				   "the protocol has")
		     : 0;
}

void fgt_request_read(const struct fgt_request_frame *frame,
		      struct fgt_request *ret_request)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	struct reading_call call = { .frame = frame, .request = ret_request };
	bool is_malformed;
	int r;

	memset(ret_request, 0, sizeof(*ret_request));
	r = decode(&call, &message);
	is_malformed = r < 0 && r != -ENOMEM;
	if (r == 0)
		r = find_verb(&call);
	if (r == 0)
		r = verbs[ret_request->verb].read(&call);
	if (r == 0)
		return;
	ret_request->verb = FGT_REQUEST_REFUSED;
	ret_request->refusal.error = r;
	ret_request->refusal.is_malformed = is_malformed;
	ret_request->refusal.why = call.why;
}
