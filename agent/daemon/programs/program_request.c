/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the requests of programs. Runs in the daemon's loop. A process gets
 * its own stacks delivered, as its own user, never another's.
 */
#include "agent/daemon/programs/registration.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/slices/slices.h"
#include "agent/daemon/socket/permission.h"

#define AHEAD_MAX_NS (UINT64_C(60) * 1000000000)

/* ---- register ---------------------------------------------------------- */

/* The flags name the descriptors that came, in this order. */
static int take_fds(struct fgt_registration *facts,
		    struct fgt_control_client *client,
		    const struct fgt_request_register *asked,
		    struct fgt_why *why)
{
	if (asked->has_spans)
		facts->spans_fd = fgt_control_take_fd(client);
	if (asked->has_ring)
		facts->ring_fd = fgt_control_take_fd(client);
	if ((asked->has_spans && facts->spans_fd < 0) ||
	    (asked->has_ring && facts->ring_fd < 0))
		return fgt_why_set(why, -EINVAL,
				   "spans and ring need a descriptor each: a "
				   "memfd of ordinary pages, sealed against "
				   "shrinking");
	return 0;
}

int fgt_registration_take(struct fgt_registration *facts,
			  struct fgt_control_client *client,
			  const struct fgt_request_register *asked,
			  struct fgt_why *why)
{
	facts->is_embedded = asked->is_embedded;
	strcpy(facts->destination, asked->destination);
	strcpy(facts->release, asked->release);
	strcpy(facts->environment, asked->environment);
	return take_fds(facts, client, asked, why);
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
	const struct fgt_request_deliver *asked;
	struct fgt_delivery_order order;
	struct fgt_why why;
};

static int refuse(struct deliver_call *call, const char *text)
{
	return fgt_why_set(&call->why, -EINVAL, "%s", text);
}

static int get_range(struct deliver_call *call)
{
	struct fgt_delivery_order *order = &call->order;
	uint64_t now_ns = fgt_loop_now();
	struct fgt_gate_range range;

	order->from_ns = call->asked->from_ns;
	order->to_ns = call->asked->to_ns;
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
	order->is_transaction = call->asked->has_times;
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

static int take_order(struct deliver_call *call)
{
	const struct fgt_registration *registration = call->registration;
	const struct fgt_request_deliver *asked = call->asked;

	call->order = (struct fgt_delivery_order){
		.pid = registration->pid,
		.uid = registration->uid,
		.gid = registration->gid,
		.kind = FGT_DELIVERY_FILE,
		.fds = FGT_DELIVERY_FDS_NONE,
		.name = asked->name[0] ? asked->name : NULL,
		.event_id = asked->event_id,
		.facts = asked->facts_len ? asked->facts : NULL,
		.facts_len = asked->facts_len,
	};
	return asked->data_len ? keep_data(call,
					   fgt_control_frame(call->client) +
						   asked->data_at,
					   asked->data_len)
			       : get_range(call);
}

static bool has_ended(const struct fgt_registration *registration)
{
	struct pollfd end = { .fd = registration->pid_fd, .events = POLLIN };

	return poll(&end, 1, 0) != 0;
}

/*
 * Now: it may have moved since it registered. A program that its user may not
 * see has been started in it maybe: where that one is, its user need not get.
 * A process that has ended is nowhere: its last word goes where its crash would,
 * since what ran in it may have been locked out of there.
 */
static int find_places(struct deliver_call *call)
{
	const struct fgt_registration *registration = call->registration;
	struct fgt_delivery_fds *fds = &call->order.fds;
	struct fgt_owner owner;
	int r = fgt_delivery_places_open(registration->pid,
					 registration->pid_fd,
					 registration->uid, fds, &call->why);

	if (r < 0 &&
	    (!has_ended(registration) ||
	     strcmp(call->asked->destination, registration->destination) != 0))
		return r;
	/* Read afterwards: a program that was started before is seen. */
	if (r == 0 &&
	    fgt_gate_read_owner(registration->pid, registration->start_time,
				registration->uid, &owner) == 0 &&
	    fgt_owner_is_visible_to(&owner, &registration->gate.peer))
		return 0;
	return fgt_delivery_places_copy(&registration->places, fds, &call->why);
}

int fgt_program_deliver(struct fgt_deliveries *deliveries,
			const struct fgt_upload_limits *limits,
			const struct fgt_registration *registration,
			struct fgt_control_client *client,
			const struct fgt_request_deliver *asked)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const struct fgt_delivery_asker asker = {
		.destination = asked->destination, .uid = registration->uid
	};
	struct deliver_call call = { .registration = registration,
				     .client = client,
				     .asked = asked };
	int r = take_order(&call);

	call.order.limits = limits;
	if (r == 0)
		r = find_places(&call);
	if (r == 0)
		r = fgt_deliveries_route(deliveries, &call.order, &asker,
					 &call.why);
	else
		fgt_delivery_fds_close(&call.order.fds);
	if (r < 0) {
		fgt_control_fail(client, r, call.why.text);
		return r;
	}
	(void)fgt_builder_new_reply(&builder);
	fgt_control_reply(client, builder);
	return 0;
}
