/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of the control socket. Runs in the daemon's loop; every value of a
 * request is checked here before it is used.
 */
#include "agent/daemon/socket/request.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/socket/permission.h"
#include "agent/daemon/socket/reply.h"
#include "agent/daemon/status_reply.h"
#include "agent/daemon/targets/selector.h"
#include "agent/daemon/targets/target_job.h"
#include "agent/daemon/targets/target_verb.h"
#include "agent/protocol/protocol.h"

#define NAME_MAX_BYTES 64
#define AHEAD_MAX_NS   (UINT64_C(3600) * 1000000000)

/* One request while it is handled. */
struct call {
	struct fgt_service *service;
	struct fgt_control_client *client;
	const struct fgt_message *request;
	struct fgt_selector selector;
	struct fgt_why why;
};

static void fail(struct call *call, int error)
{
	fgt_control_fail(call->client, error, call->why.text);
}

static int refuse(struct call *call, const char *text)
{
	return fgt_why_set(&call->why, -EINVAL, "%s", text);
}

/* ---- Arguments --------------------------------------------------------- */

static int get_pid(struct call *call)
{
	const struct fgt_peer *peer = fgt_control_peer(call->client);
	int64_t pid;
	int r = fgt_message_get_int(call->request, "pid", &pid);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || pid < 1 || pid > INT32_MAX)
		return refuse(call,
			      "pid must be a number from 1 to 2147483647");
	if (!fgt_pid_means_the_same_to(peer->pid, peer->uid))
		return refuse(call, "your pid namespace is not the agent's, or "
				    "it cannot be read: name the target by its "
				    "name");
	call->selector.pid = (int32_t)pid;
	return 0;
}

static int get_name(struct call *call)
{
	const char *name;
	int r = fgt_message_get_string(call->request, "name", &name);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || name[0] == 0 || strlen(name) > NAME_MAX_BYTES)
		return refuse(call, "name must be a string of 1 to 64 bytes");
	call->selector.name = name;
	return 0;
}

/* Who asks for itself need not know what it is called here. */
static int get_self(struct call *call)
{
	bool is_self = false;
	int r = fgt_message_get_bool(call->request, "self", &is_self);

	if (r < 0 && r != -ENOENT)
		return refuse(call, "self must be true or false");
	if (is_self && (call->selector.pid != 0 || call->selector.name))
		return refuse(call, "self excludes pid and name");
	if (is_self) {
		call->selector.pid = fgt_control_peer(call->client)->pid;
		call->selector.is_own =
			fgt_control_peer(call->client)->is_sender;
	}
	return 0;
}

static int get_selector(struct call *call, bool is_needed)
{
	int r = get_pid(call);

	if (r == 0)
		r = get_name(call);
	if (r == 0)
		r = get_self(call);
	if (r < 0)
		return r;
	if (call->selector.pid != 0 && call->selector.name)
		return refuse(call, "pid and name exclude each other");
	if (is_needed && call->selector.pid == 0 && !call->selector.name)
		return refuse(call, "pid or name is missing");
	return 0;
}

/* Absent: stays what it is. */
static int get_time(struct call *call, const char *key, uint64_t *ret_ns)
{
	int r = fgt_message_get_uint(call->request, key, ret_ns);

	return r == 0 || r == -ENOENT
		       ? 0
		       : refuse(call,
				"from_ns and to_ns must be CLOCK_MONOTONIC "
				"in ns");
}

static int get_slice(struct call *call, struct fgt_slice_request *ret_request)
{
	uint64_t now_ns = fgt_loop_now();
	struct fgt_slice_request request = { .to_ns = now_ns };
	int64_t tid = 0;
	int r = fgt_message_get_int(call->request, "tid", &tid);

	if ((r < 0 && r != -ENOENT) || tid < 0 || tid > INT32_MAX)
		return refuse(call,
			      "tid must be a number from 0 to 2147483647");
	request.tid = (int32_t)tid;
	r = get_time(call, "from_ns", &request.from_ns);
	if (r == 0)
		r = get_time(call, "to_ns", &request.to_ns);
	if (r < 0)
		return r;
	if (request.from_ns > request.to_ns)
		return refuse(call,
			      "the range ends before it begins: from must "
			      "lie before to");
	if (request.to_ns > now_ns + AHEAD_MAX_NS)
		return refuse(
			call,
			"the range ends more than an hour ahead; ask when it "
			"has come");
	/* Its own word holds for what it has been, not for the program that
	 * it may become. */
	if (call->selector.is_own && request.to_ns > now_ns)
		request.to_ns = now_ns;
	if (request.from_ns > request.to_ns)
		request.from_ns = request.to_ns;
	*ret_request = request;
	return 0;
}

/* ---- Verbs ------------------------------------------------------------- */

static void reply_or_close(struct call *call, struct fgt_builder *builder)
{
	if (builder)
		fgt_control_reply(call->client, builder);
	else
		fgt_control_fail(call->client, -ENOMEM, "out of memory");
}

/* attach and detach differ only in what they call. */
static void change_targets(struct call *call, bool is_attach)
{
	struct fgt_target_order order = { .is_attach = is_attach };
	int r = get_selector(call, true);

	if (r == 0 && is_attach &&
	    fgt_message_get_bool(call->request, "children",
				 &order.is_with_children) == -EINVAL)
		r = refuse(call, "children must be true or false");
	order.selector = call->selector;
	if (r < 0)
		fail(call, r);
	else
		fgt_target_job_submit(call->service, call->client, &order);
}

static void attach(struct call *call)
{
	change_targets(call, true);
}

static void detach(struct call *call)
{
	change_targets(call, false);
}

/* The error names those that there are to choose from. */
static void fail_with_choice(struct call *call, int error)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	if (fgt_reply_new_error(error, call->why.text, &builder) == 0) {
		fgt_builder_array_begin(builder, "targets");
		(void)fgt_target_verb_for_each(
			call->service->targets, fgt_control_peer(call->client),
			&call->selector, fgt_status_reply_add_name, builder);
		fgt_builder_array_end(builder);
	}
	reply_or_close(call, builder);
}

static void slice(struct call *call)
{
	FGT_AUTO(fgt_target_put) struct fgt_target *target = NULL;
	struct fgt_slice_request request;
	int r = get_selector(call, false);

	if (r == 0)
		r = get_slice(call, &request);
	if (r == 0)
		r = fgt_target_verb_find(call->service->targets,
					 fgt_control_peer(call->client),
					 &call->selector, &target, &call->why);
	if (r == -ENOTUNIQ)
		fail_with_choice(call, r);
	else if (r < 0)
		fail(call, r);
	else
		fgt_slices_submit(call->service->slices, call->client, target,
				  &request, fgt_slices_grace_ns(target));
}

static void status(struct call *call)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	if (fgt_reply_new(&builder) == 0) {
		fgt_status_reply_add(builder, call->service,
				     fgt_control_peer(call->client));
		fgt_status_reply_add_targets(builder, call->service,
					     fgt_control_peer(call->client));
	}
	reply_or_close(call, builder);
}

static void targets(struct call *call)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	if (fgt_reply_new(&builder) == 0)
		fgt_status_reply_add_targets(builder, call->service,
					     fgt_control_peer(call->client));
	reply_or_close(call, builder);
}

static void register_peer(struct call *call)
{
	fgt_registrations_submit(call->service->registrations, call->client,
				 call->request);
}

static const struct {
	const char *name;
	void (*run)(struct call *call);
} verbs[] = {
	{ "attach", attach },	{ "detach", detach },
	{ "slice", slice },	{ "status", status },
	{ "targets", targets }, { "register", register_peer },
};

static int check_version(struct call *call)
{
	int64_t version;

	if (fgt_message_get_int(call->request, "v", &version) < 0)
		return fgt_why_set(&call->why, -EBADMSG,
				   "the request has no v (protocol version)");
	return fgt_protocol_check_versions(FGT_PROTOCOL_VERSION, version,
					   &call->why);
}

void fgt_request_handle(void *context, struct fgt_control_client *client,
			const struct fgt_message *request)
{
	struct call call = { .service = context,
			     .client = client,
			     .request = request };
	const char *verb;
	int r = check_version(&call);

	if (r == 0 && fgt_message_get_string(request, "verb", &verb) < 0)
		r = fgt_why_set(&call.why, -EBADMSG, "the request has no verb");
	if (r < 0) {
		fail(&call, r);
		return;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verb, verbs[i].name) == 0) {
			verbs[i].run(&call);
			return;
		}
	fail(&call, fgt_why_set(&call.why, -EPROTONOSUPPORT,
				"the agent (%s) does not know the verb %.40s",
				FGT_VERSION, verb));
}
