/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the requests of programs; every value of them is checked here. Runs in
 * the daemon's loop. A process gets its own stacks delivered, as its own user,
 * never another's.
 */
#include "agent/daemon/programs/registration.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/slices/slices.h"
#include "agent/daemon/socket/permission.h"
#include "agent/protocol/transaction_facts.h"

#define AHEAD_MAX_NS (UINT64_C(60) * 1000000000)

/* ---- register ---------------------------------------------------------- */

static int get_own_text(const struct fgt_message *request, const char *key,
			char *to, size_t size, struct fgt_why *why)
{
	const char *text;
	int r = fgt_message_get_string(request, key, &text);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || strlen(text) >= size)
		return fgt_why_set(why, -EINVAL,
				   "%s must be a string of at most %zu bytes",
				   key, size - 1);
	strcpy(to, text);
	return 0;
}

static int get_mode(struct fgt_registration *facts,
		    const struct fgt_message *request, struct fgt_why *why)
{
	const char *mode;

	if (fgt_message_get_string(request, "mode", &mode) < 0 ||
	    (strcmp(mode, "agent") != 0 && strcmp(mode, "embedded") != 0))
		return fgt_why_set(why, -EINVAL,
				   "unknown mode: it must be agent or "
				   "embedded");
	facts->is_embedded = strcmp(mode, "embedded") == 0;
	return 0;
}

/* The flags name the descriptors that came, in this order. */
static int take_fds(struct fgt_registration *facts,
		    struct fgt_control_client *client,
		    const struct fgt_message *request, struct fgt_why *why)
{
	bool has_spans = false, has_ring = false;

	if (fgt_message_get_bool(request, "spans", &has_spans) == -EINVAL ||
	    fgt_message_get_bool(request, "ring", &has_ring) == -EINVAL)
		return fgt_why_set(why, -EINVAL,
				   "spans and ring must be true or false");
	if (has_spans)
		facts->spans_fd = fgt_control_take_fd(client);
	if (has_ring)
		facts->ring_fd = fgt_control_take_fd(client);
	if ((has_spans && facts->spans_fd < 0) ||
	    (has_ring && facts->ring_fd < 0))
		return fgt_why_set(why, -EINVAL,
				   "spans and ring need a descriptor each: a "
				   "memfd sealed against shrinking");
	return 0;
}

int fgt_registration_read(struct fgt_registration *facts,
			  struct fgt_control_client *client,
			  const struct fgt_message *request,
			  struct fgt_why *why)
{
	int r = get_mode(facts, request, why);

	if (r == 0)
		r = get_own_text(request, "destination", facts->destination,
				 sizeof(facts->destination), why);
	if (r == 0)
		r = get_own_text(request, "release", facts->release,
				 sizeof(facts->release), why);
	if (r == 0)
		r = get_own_text(request, "environment", facts->environment,
				 sizeof(facts->environment), why);
	return r < 0 ? r : take_fds(facts, client, request, why);
}

/* ---- deliver ----------------------------------------------------------- */

struct fgt_gate
fgt_registration_gate(const struct fgt_registration *registration,
		      const struct fgt_control_client *client)
{
	struct fgt_gate gate = registration->gate;

	gate.asked_ns = fgt_loop_now();
	if (!fgt_control_peer(client)->is_sender)
		gate.program = 0;
	return gate;
}

/* One request while it is handled. */
struct deliver_call {
	const struct fgt_registration *registration;
	const struct fgt_control_client *client;
	const struct fgt_message *request;
	struct fgt_delivery_order order;
	struct fgt_facts_room room;
	struct fgt_why why;
};

static int refuse(struct deliver_call *call, const char *text)
{
	return fgt_why_set(&call->why, -EINVAL, "%s", text);
}

static int get_range(struct deliver_call *call)
{
	const struct fgt_transaction_facts *facts = call->order.facts;
	struct fgt_delivery_order *order = &call->order;
	uint64_t now_ns = fgt_loop_now();
	struct fgt_gate_range range;

	if (fgt_message_get_uint(call->request, "from_ns", &order->from_ns) <
		    0 ||
	    fgt_message_get_uint(call->request, "to_ns", &order->to_ns) < 0 ||
	    order->from_ns > order->to_ns)
		return refuse(call, "from_ns and to_ns must be CLOCK_MONOTONIC "
				    "in ns, in order");
	if (order->to_ns > now_ns + AHEAD_MAX_NS)
		return refuse(call, "the range ends more than a minute "
				    "ahead: ask when it has come");
	if (!call->registration->target)
		return refuse(call, "data is missing: a process that samples "
				    "itself must send its slice");
	order->target = call->registration->target;
	order->gate = fgt_registration_gate(call->registration, call->client);
	/* And once more when it is cut. */
	if (fgt_gate_ask(&order->gate, order->target, &range) < 0)
		return fgt_why_set(&call->why, -EPERM,
				   "not permitted: the process runs a program "
				   "now that this user may not see");
	order->is_transaction = facts && facts->begin_ns && facts->end_ns;
	order->not_before_ns =
		order->to_ns + fgt_slices_grace_ns(order->target);
	return 0;
}

/* Into a memfd, not looked at: the process of its user reads it. */
static int keep_data(struct deliver_call *call, const uint8_t *bytes,
		     size_t len)
{
	FGT_AUTO(fgt_fd_close)
	int fd = memfd_create("fgtrace-delivery", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		return fgt_why_set(&call->why, -ENOMEM, FGT_NO_MEMORY);
	call->order.fds.fd[FGT_DELIVERY_DATA] = FGT_TAKE_FD(fd);
	return 0;
}

static int get_content(struct deliver_call *call)
{
	const uint8_t *bytes;
	size_t len;
	int r = fgt_message_get_bin(call->request, "data", &bytes, &len);

	if (r == -ENOENT)
		return get_range(call);
	return r < 0 || len == 0 ? refuse(call, "data must be a .fgt file")
				 : keep_data(call, bytes, len);
}

static int read_order(struct deliver_call *call)
{
	const struct fgt_registration *registration = call->registration;
	int r;

	call->order = (struct fgt_delivery_order){
		.pid = registration->pid,
		.uid = registration->uid,
		.gid = registration->gid,
		.kind = FGT_DELIVERY_FILE,
		.fds = FGT_DELIVERY_FDS_NONE,
	};
	if (fgt_message_get_string(call->request, "destination",
				   &call->order.destination) < 0)
		return refuse(call, "destination must be a string");
	r = fgt_facts_read(call->request, &call->room, &call->why);
	if (r == 0)
		call->order.facts = &call->room.facts;
	return r < 0 && r != -ENOENT ? r : get_content(call);
}

/*
 * Now: it may have moved since it registered. A program that its user may not
 * see has been started in it maybe: where that one is, its user need not get.
 */
static int find_places(struct deliver_call *call)
{
	const struct fgt_registration *registration = call->registration;
	struct fgt_delivery_fds *fds = &call->order.fds;
	struct fgt_owner owner;
	int r = fgt_delivery_places_open(registration->pid,
					 registration->pid_fd, fds, &call->why);

	if (r < 0)
		return r;
	/* Read afterwards: a program that was started before is seen. */
	if (fgt_owner_read(registration->pid, registration->start_time,
			   &owner) == 0 &&
	    fgt_owner_is_visible_to(&owner, &registration->gate.peer))
		return 0;
	return fgt_delivery_places_copy(&registration->places, fds, &call->why);
}

void fgt_program_deliver(struct fgt_deliveries *deliveries,
			 const struct fgt_upload_limits *limits,
			 const struct fgt_registration *registration,
			 struct fgt_control_client *client,
			 const struct fgt_message *request)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	struct deliver_call call = { .registration = registration,
				     .client = client,
				     .request = request };
	int r = read_order(&call);

	call.order.limits = limits;
	if (r == 0)
		r = find_places(&call);
	if (r == 0)
		r = fgt_deliveries_submit(deliveries, &call.order, &call.why);
	else
		fgt_delivery_fds_close(&call.order.fds);
	if (r < 0) {
		fgt_control_fail(client, r, call.why.text);
		return;
	}
	(void)fgt_builder_new_reply(&builder);
	fgt_control_reply(client, builder);
}
