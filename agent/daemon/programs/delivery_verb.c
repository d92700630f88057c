/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns requests of registered processes into orders. Runs in the daemon's
 * loop; a process gets its own stacks delivered, as its own user, never
 * another's.
 */
#include "agent/daemon/programs/delivery_verb.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/programs/crash.h"
#include "agent/daemon/service.h"
#include "agent/daemon/socket/reply.h"
#include "agent/protocol/transaction_facts.h"

#define AHEAD_MAX_NS (UINT64_C(60) * 1000000000)

/* One request while it is handled. */
struct call {
	const struct fgt_registration *registration;
	const struct fgt_message *request;
	struct fgt_delivery_order order;
	struct fgt_facts_room room;
	struct fgt_why why;
};

static int refuse(struct call *call, const char *text)
{
	return fgt_why_set(&call->why, -EINVAL, "%s", text);
}

static int get_range(struct call *call)
{
	const struct fgt_transaction_facts *facts = call->order.facts;
	struct fgt_delivery_order *order = &call->order;
	uint64_t now_ns = fgt_loop_now();

	if (fgt_message_get_uint(call->request, "from_ns", &order->from_ns) <
		    0 ||
	    fgt_message_get_uint(call->request, "to_ns", &order->to_ns) < 0 ||
	    order->from_ns > order->to_ns)
		return refuse(call, "from_ns and to_ns must be CLOCK_MONOTONIC "
				    "in ns, in order");
	if (order->to_ns > now_ns + AHEAD_MAX_NS)
		return refuse(call, "the range ends more than a minute ahead");
	if (!call->registration->target)
		return refuse(call, "a process that samples itself must send "
				    "its slice as data");
	order->target = call->registration->target;
	order->is_transaction = facts && facts->begin_ns && facts->end_ns;
	order->not_before_ns =
		order->to_ns + fgt_slices_grace_ns(order->target);
	return 0;
}

/* Into a memfd, not looked at: what it holds is its user's business. */
static int keep_data(struct call *call, const uint8_t *bytes, size_t len)
{
	FGT_AUTO(fgt_fd_close)
	int fd = memfd_create("fgtrace-delivery", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		return fgt_why_set(&call->why, -ENOMEM, "out of memory");
	call->order.data_fd = FGT_TAKE_FD(fd);
	return 0;
}

static int get_content(struct call *call)
{
	const uint8_t *bytes;
	size_t len;
	int r = fgt_message_get_bin(call->request, "data", &bytes, &len);

	if (r == -ENOENT)
		return get_range(call);
	return r < 0 || len == 0 ? refuse(call, "data must be a .fgt file")
				 : keep_data(call, bytes, len);
}

static int read_order(struct call *call)
{
	const struct fgt_registration *registration = call->registration;
	int r;

	call->order = (struct fgt_delivery_order){
		.pid = registration->pid,
		.uid = registration->uid,
		.gid = registration->gid,
		.data_fd = -1,
		.kind = FGT_DELIVERY_FILE,
		.spans_fd = -1,
	};
	if (fgt_message_get_string(call->request, "destination",
				   &call->order.destination) < 0)
		return refuse(call, "destination must be a string");
	r = fgt_facts_read(call->request, &call->room, &call->why);
	if (r == 0)
		call->order.facts = &call->room.facts;
	return r < 0 && r != -ENOENT ? r : get_content(call);
}

/* As the configuration in force has it. */
static struct fgt_upload_limits limits_of(const struct fgt_service *service)
{
	return (struct fgt_upload_limits){
		.ca_file = service->config->upload.ca_file,
		.is_http_allowed = service->config->upload.is_http_allowed,
	};
}

/* Its id, if it is a transaction's; "": nobody can tell it from others. */
static const char *id_of(const struct fgt_delivery_order *order)
{
	return order->facts ? order->facts->event_id : "";
}

static int submit(struct fgt_service *service, struct call *call)
{
	struct fgt_delivery_order *order = &call->order;
	int r;

	if (fgt_delivery_recent_has(&service->accepted, order->pid,
				    id_of(order))) {
		fgt_fd_close(order->data_fd);
		return 0;
	}
	r = fgt_deliveries_submit(service->deliveries, order, &call->why);
	if (r == 0)
		fgt_delivery_recent_add(&service->accepted, order->pid,
					id_of(order));
	return r;
}

static void deliver(void *context, const struct fgt_registration *registration,
		    struct fgt_control_client *client,
		    const struct fgt_message *request)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	struct fgt_service *service = context;
	const struct fgt_upload_limits limits = limits_of(service);
	struct call call = { .registration = registration, .request = request };
	int r = read_order(&call);

	call.order.limits = &limits;
	if (r == 0)
		r = submit(service, &call);
	if (r < 0)
		fgt_control_fail(client, r, call.why.text);
	else if (fgt_reply_new(&builder) < 0)
		fgt_control_fail(client, -ENOMEM, "out of memory");
	else
		fgt_control_reply(client, builder);
}

static void died(void *context, const struct fgt_registration *registration)
{
	struct fgt_service *service = context;
	const struct fgt_upload_limits limits = limits_of(service);

	service->crashes +=
		fgt_crash_examine(service->deliveries, &limits, registration);
}

struct fgt_registration_calls
fgt_delivery_verb_calls(struct fgt_service *service)
{
	return (struct fgt_registration_calls){ .deliver = deliver,
						.died = died,
						.context = service };
}
