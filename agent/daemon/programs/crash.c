/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinguishes crashes from other ends and delivers the last seconds. Runs in
 * the daemon's loop, right after the end; must not wait. A process that calls
 * exec or closes its connection lives on and does not come here.
 */
#include "agent/daemon/programs/registration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/loop/log.h"
#include "agent/protocol/transaction_facts.h"
#include "upload/format/sentry/sentry_envelope.h"

#define LOOK_BACK_NS UINT64_C(30000000000)
#define SETTLE_NS    UINT64_C(50000000)
#define NAME_SIZE    64
#define FACTS_MAX    2048

static int make_ids(struct fgt_transaction_facts *facts)
{
	int r = fgt_sentry_make_id(facts->event_id, 16);

	if (r == 0)
		r = fgt_sentry_make_id(facts->trace_id, 16);
	return r == 0 ? fgt_sentry_make_id(facts->span_id, 8) : r;
}

/* The agent's own ring knows of a change. */
static void get_name(const struct fgt_registration *registration,
		     char name[NAME_SIZE])
{
	struct fgt_target_status status = { .name = "" };

	if (registration->target)
		fgt_target_get_status(registration->target, &status);
	snprintf(name, NAME_SIZE, "%.63s",
		 status.name[0] ? status.name : registration->name);
	if (!*name)
		snprintf(name, NAME_SIZE, "process %d", registration->pid);
}

static int copy_fd(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Its places as they were when it registered. */
static int copy_fds(const struct fgt_registration *registration,
		    struct fgt_delivery_fds *fds, struct fgt_why *why)
{
	fds->fd[FGT_DELIVERY_DATA] = copy_fd(registration->ring_fd);
	fds->fd[FGT_DELIVERY_SPANS] = copy_fd(registration->spans_fd);
	return fgt_delivery_places_copy(&registration->places, fds, why);
}

static int deliver(struct fgt_deliveries *deliveries,
		   const struct fgt_upload_limits *limits,
		   const struct fgt_registration *registration,
		   const struct fgt_transaction_facts *facts,
		   struct fgt_why *why)
{
	uint8_t packed[FACTS_MAX];
	uint64_t now_ns = fgt_loop_now();
	struct fgt_delivery_order order = {
		.pid = registration->pid,
		.uid = registration->uid,
		.gid = registration->gid,
		.target = registration->target,
		.gate = registration->gate,
		.kind = FGT_DELIVERY_RING,
		.fds = FGT_DELIVERY_FDS_NONE,
		.from_ns = now_ns > LOOK_BACK_NS ? now_ns - LOOK_BACK_NS : 0,
		.to_ns = now_ns,
		.not_before_ns = now_ns + SETTLE_NS,
		.limits = limits,
		.name = facts->name,
		.event_id = facts->event_id,
		.facts = packed,
		.is_last_word = true,
	};
	const struct fgt_delivery_asker asker = {
		.destination = registration->destination,
		.uid = registration->uid,
	};
	int r = fgt_facts_pack(facts, packed, sizeof(packed), &order.facts_len);

	if (r < 0)
		return fgt_why_set(why, r, "cannot pack its facts: %s",
				   strerror(-r));
	order.gate.asked_ns = now_ns;
	r = copy_fds(registration, &order.fds, why);
	if (r == 0 && (order.target || order.fds.fd[FGT_DELIVERY_DATA] >= 0))
		return fgt_deliveries_route(deliveries, &order, &asker, why);
	fgt_delivery_fds_close(&order.fds);
	if (r < 0)
		return r;
	return fgt_why_set(why, -ENODATA,
			   "it passed no ring to the agent: its last seconds "
			   "are unknown");
}

static void report(struct fgt_deliveries *deliveries,
		   const struct fgt_upload_limits *limits,
		   const struct fgt_registration *registration,
		   const char *name, const char *signal_name)
{
	const struct fgt_tag tag = { "signal", signal_name };
	/* Without times: they are the slice's own. */
	struct fgt_transaction_facts facts = {
		.name = name,
		.op = "crash",
		.status = "aborted",
		.level = "fatal",
		.release = registration->release,
		.environment = registration->environment,
		.tags = &tag,
		.tag_count = 1,
	};
	struct fgt_why why = { "cannot make its ids: the kernel gave no "
			       "random bytes" };
	int r = make_ids(&facts);

	if (r == 0)
		r = deliver(deliveries, limits, registration, &facts, &why);
	if (r < 0)
		fgt_log(FGT_LOG_WARNING, "undelivered", "pid %d, '%s': %s",
			registration->pid, name, why.text);
}

bool fgt_crash_examine(struct fgt_deliveries *deliveries,
		       const struct fgt_upload_limits *limits,
		       const struct fgt_registration *registration)
{
	char name[NAME_SIZE], signal_name[24];
	struct fgt_death death;

	fgt_death_look(registration->pid_fd, registration->pid,
		       registration->start_time, &death);
	if (death.kind == FGT_DEATH_EXIT || death.kind == FGT_DEATH_NOT_YET)
		return false;
	get_name(registration, name);
	fgt_death_name(&death, signal_name, sizeof(signal_name));
	if (fgt_death_is_asked_for(&death)) {
		fgt_log(FGT_LOG_INFO, "terminated",
			"pid %d, %s, was ended by %s", registration->pid, name,
			signal_name);
		return false;
	}
	fgt_log(FGT_LOG_WARNING, "crash", "pid %d, %s, was ended by %s",
		registration->pid, name, signal_name);
	if (registration->destination[0] ||
	    fgt_deliveries_has_default(deliveries))
		report(deliveries, limits, registration, name, signal_name);
	return true;
}
