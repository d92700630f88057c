/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps registered processes and notices their end. Runs in the daemon's loop,
 * except attach() and detach(), which are jobs.
 */
#include "agent/daemon/programs/registration.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>

#include "agent/config/config.h"
#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/loop/assert.h"
#include "agent/daemon/loop/log.h"
#include "agent/daemon/targets/targets.h"
#include "agent/files/open_file.h"

#define MS	UINT64_C(1000000)
#define DEAD_MS 2000 /* the end of a process comes so late after its socket's */

/* A registration from its request until nothing of it is left. */
struct registered {
	struct fgt_registration facts;
	struct fgt_registrations *registrations;
	LIST_ENTRY(registered) link; /* once it is registered */
	struct fgt_control_client *client; /* NULL: it has gone */
	int peer_fd; /* pidfd of what connected, until attach() is done */
	/* Attaches, then detaches: one after the other. */
	struct fgt_job job;
	struct fgt_watch death; /* of pid_fd, once the connection has ended */
	struct fgt_timer lag;
	bool has_sent_bye;
	/* Written by attach(), read when it is done. */
	int result;
	struct fgt_why why;
};

struct fgt_registrations {
	struct fgt_loop *loop;
	struct fgt_jobs *jobs;
	struct fgt_targets *targets;
	struct fgt_deliveries *deliveries;
	struct fgt_config *const *config;
	LIST_HEAD(, registered) all;
	size_t count;
	uint64_t crashes; /* registered processes ended by a signal */
	bool is_leaving;
	void (*finished)(void *context, struct fgt_target *target,
			 const char *name, uint64_t begin_ns, uint64_t end_ns);
	void *finished_context;
};

static void free_entry(void *context)
{
	struct registered *entry = context;

	/* Gigabytes of memory take a second to be given back. */
	fgt_file_close_of(entry->facts.spans_fd, entry->facts.uid);
	fgt_file_close_of(entry->facts.ring_fd, entry->facts.uid);
	fgt_fd_close(entry->facts.pid_fd);
	fgt_fd_close(entry->peer_fd);
	fgt_delivery_fds_close(&entry->facts.places);
	fgt_target_put(entry->facts.target);
	free(entry);
}

/* ---- The end ----------------------------------------------------------- */

static void detach(void *context)
{
	struct registered *entry = context;

	fgt_targets_unregister(
		entry->registrations->targets, entry->facts.target,
		entry->has_sent_bye ? "by its fgt_stop()"
				    : "it runs another program now, or has "
				      "closed its connection");
}

/* No longer registered; it has been unlinked. */
static void let_go(struct registered *entry)
{
	struct fgt_registrations *registrations = entry->registrations;

	if (!entry->facts.target || registrations->is_leaving) {
		free_entry(entry);
		return;
	}
	entry->job = (struct fgt_job){ .run = detach,
				       .done = free_entry,
				       .context = entry };
	fgt_jobs_submit(registrations->jobs, &entry->job);
}

static void stop_waiting(struct registered *entry)
{
	struct fgt_loop *loop = entry->registrations->loop;

	fgt_loop_unwatch(loop, &entry->death);
	fgt_loop_disarm(loop, &entry->lag);
	LIST_REMOVE(entry, link);
	entry->registrations->count--;
}

/* A child that was made without the library's fork handler holds a copy of the
 * connection. Continues in connection_gone(). */
static void is_outlived(void *context)
{
	struct registered *entry = context;

	fgt_control_close(entry->client);
}

/* Limits of the configuration in force. */
static struct fgt_upload_limits limits_of(const struct registered *entry)
{
	const struct fgt_config *config = *entry->registrations->config;

	return (struct fgt_upload_limits){
		.ca_file = config->upload.ca_file,
		.is_http_allowed = config->upload.is_http_allowed,
	};
}

/* Its ring stays as that of any target that has ended. */
static void has_died(void *context, uint32_t events)
{
	struct registered *entry = context;
	struct fgt_loop *loop = entry->registrations->loop;
	const struct fgt_upload_limits limits = limits_of(entry);

	(void)events;
	if (entry->client) { /* its last request may not be read yet */
		fgt_loop_unwatch(loop, &entry->death);
		entry->lag.expired = is_outlived;
		fgt_loop_arm(loop, &entry->lag, fgt_loop_now() + DEAD_MS * MS);
		return;
	}
	stop_waiting(entry);
	fgt_log(FGT_LOG_INFO, "registered_ended",
		"pid %d has ended without bye", entry->facts.pid);
	entry->registrations->crashes += fgt_crash_examine(
		entry->registrations->deliveries, &limits, &entry->facts);
	free_entry(entry);
}

/* It is still alive: another program runs in it now, or it has closed the
 * library's descriptors. */
static void lives_on(void *context)
{
	struct registered *entry = context;

	stop_waiting(entry);
	fgt_log(FGT_LOG_INFO, "registered_left",
		"pid %d has closed its connection", entry->facts.pid);
	let_go(entry);
}

static bool is_dead(const struct registered *entry)
{
	struct pollfd death = { .fd = entry->death.fd, .events = POLLIN };

	return !entry->has_sent_bye && poll(&death, 1, 0) > 0;
}

static void connection_gone(void *context)
{
	struct registered *entry = context;
	struct fgt_registrations *registrations = entry->registrations;
	struct fgt_loop *loop = registrations->loop;

	entry->client = NULL;
	if (registrations->is_leaving && is_dead(entry)) {
		has_died(entry, POLLIN);
		return;
	}
	if (entry->has_sent_bye || registrations->is_leaving) {
		stop_waiting(entry);
		let_go(entry);
		return;
	}
	entry->lag.expired = lives_on;
	(void)fgt_loop_watch(loop, &entry->death, EPOLLIN);
	fgt_loop_arm(loop, &entry->lag, fgt_loop_now() + DEAD_MS * MS);
}

/* ---- Later requests ---------------------------------------------------- */

static void bye(struct registered *entry, struct fgt_control_client *client)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	entry->has_sent_bye = true;
	(void)fgt_builder_new_reply(&builder);
	fgt_control_reply(client, builder);
}

static void confirm(struct fgt_control_client *client)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)fgt_builder_new_reply(&builder);
	fgt_control_reply(client, builder);
}

static void deliver(struct registered *entry, struct fgt_control_client *client,
		    const struct fgt_request_deliver *asked)
{
	struct fgt_registrations *registrations = entry->registrations;
	const struct fgt_upload_limits limits = limits_of(entry);
	int r = fgt_program_deliver(registrations->deliveries, &limits,
				    &entry->facts, client, asked);

	if (r == 0 && asked->has_times && entry->facts.target &&
	    registrations->finished)
		registrations->finished(registrations->finished_context,
					entry->facts.target, asked->name,
					asked->from_ns, asked->to_ns);
}

static void handle(void *context, struct fgt_control_client *client,
		   const struct fgt_request *request)
{
	struct registered *entry = context;

	/* All of it was sent after the reply: what the process was before it
	 * was attached cannot have begun it. */
	if (fgt_control_peer(client)->is_sender)
		entry->facts.gate.program = entry->facts.program;
	if (request->verb == FGT_REQUEST_BYE)
		bye(entry, client);
	else if (request->verb == FGT_REQUEST_DELIVER)
		deliver(entry, client, &request->deliver);
	else
		confirm(client);
}

/* ---- The job -------------------------------------------------------- */

static void attach(void *context)
{
	struct registered *entry = context;

	entry->result = fgt_registration_attach(&entry->facts,
						entry->registrations->targets,
						entry->peer_fd, &entry->why);
}

static void answer(struct registered *entry)
{
	const struct fgt_config *config = *entry->registrations->config;
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	struct fgt_target_status status = { .rate_hz = 0 };

	if (entry->facts.target)
		fgt_target_get_status(entry->facts.target, &status);
	/* Of a program that was there before the one that was attached. */
	if (fgt_control_has_unread(entry->client))
		entry->facts.program = 0;
	if (fgt_builder_new_reply(&builder) == 0) {
		fgt_builder_int(builder, "pid", entry->facts.pid);
		fgt_builder_double(builder, "hz", config->sampling.hz);
		fgt_builder_int(builder, "ring_seconds", config->ring.seconds);
		fgt_builder_string(builder, "limitation", status.limitation);
		fgt_builder_bool(builder, "has_default",
				 fgt_deliveries_has_default(
					 entry->registrations->deliveries));
		fgt_builder_bool(builder, "confirm",
				 entry->facts.needs_confirmation &&
					 entry->facts.program != 0);
	}
	fgt_control_reply(entry->client, builder);
}

/* Those whose end is being looked into hold descriptors, too: as many of them
 * as may be registered. */
static bool has_room(const struct registered *entry)
{
	const struct registered *other;
	size_t ending = 0, of_user = 0;

	LIST_FOREACH(other, &entry->registrations->all, link) {
		ending += !other->client;
		of_user += !other->client &&
			   other->facts.uid == entry->facts.uid;
	}
	return ending < FGT_CONTROL_KEPT_MAX &&
	       (entry->facts.uid == 0 || of_user < FGT_CONTROL_KEPT_PER_USER);
}

/*
 * Before the job: those that wait for it are many where many programs start
 * at once, and must not be in the way of clients, nor clients in theirs.
 */
static int reserve(struct registered *entry)
{
	if (has_room(entry) && fgt_control_reserve(entry->client) == 0)
		return 0;
	return fgt_why_set(&entry->why, -EUSERS,
			   "too many registered processes: %d of one user, %d "
			   "in all, is the most; end one, or let some record "
			   "themselves (FGT_EMBEDDED, no destination)",
			   FGT_CONTROL_KEPT_PER_USER, FGT_CONTROL_KEPT_MAX);
}

/* From here on the connection carries the registration. */
static void take_in(struct registered *entry)
{
	const struct fgt_control_keeper keeper = { .handle = handle,
						   .gone = connection_gone,
						   .context = entry };

	fgt_control_keep(entry->client, &keeper);
	LIST_INSERT_HEAD(&entry->registrations->all, entry, link);
	entry->registrations->count++;
	entry->death = (struct fgt_watch){ .fd = entry->facts.pid_fd,
					   .ready = has_died,
					   .context = entry };
	entry->lag.context = entry;
	(void)fgt_loop_watch(entry->registrations->loop, &entry->death,
			     EPOLLIN);
	fgt_log(FGT_LOG_INFO, "registered", "pid %d, %s", entry->facts.pid,
		entry->facts.is_embedded ? "samples itself" : "sampled");
	answer(entry);
}

static void attached(void *context)
{
	struct registered *entry = context;

	fgt_fd_close(FGT_TAKE_FD(entry->peer_fd));
	if (entry->job.is_lost)
		entry->result =
			fgt_why_set(&entry->why, -EAGAIN, FGT_JOB_IS_LOST);
	if (!entry->client) {
		let_go(entry);
	} else if (entry->result < 0) {
		fgt_control_fail(entry->client, entry->result, entry->why.text);
		free_entry(entry);
	} else {
		take_in(entry);
	}
}

static void client_gone(void *context)
{
	struct registered *entry = context;

	entry->client = NULL;
	if (fgt_jobs_withdraw(entry->registrations->jobs, &entry->job))
		free_entry(entry);
}

void fgt_registrations_handle(void *context, struct fgt_control_client *client,
			      const struct fgt_request *request)
{
	struct fgt_registrations *registrations = context;
	struct registered *entry = calloc(1, sizeof(*entry));
	int r;

	if (!entry) {
		fgt_control_reply(client, NULL);
		return;
	}
	entry->registrations = registrations;
	entry->client = client;
	entry->facts.gate.peer = *fgt_control_peer(client);
	entry->facts.gate.asked_ns = fgt_loop_now();
	entry->facts.uid = entry->facts.gate.peer.uid;
	entry->facts.gid = entry->facts.gate.peer.gid;
	entry->facts.spans_fd = entry->facts.ring_fd = entry->facts.pid_fd = -1;
	entry->facts.places = FGT_DELIVERY_FDS_NONE;
	entry->peer_fd = fgt_control_open_peer(client);
	entry->result = fgt_why_set(&entry->why, -ESHUTDOWN,
				    FGT_AGENT_IS_LEAVING); /* if not run */
	entry->job = (struct fgt_job){ .run = attach,
				       .done = attached,
				       .context = entry };
	r = fgt_registration_take(&entry->facts, client, &request->registration,
				  &entry->why);
	if (r == 0)
		r = reserve(entry);
	if (r < 0) {
		fgt_control_fail(client, r, entry->why.text);
		free_entry(entry);
		return;
	}
	fgt_control_park(client, client_gone, entry);
	fgt_jobs_submit(registrations->jobs, &entry->job);
}

/* ---- All of them ------------------------------------------------------- */

int fgt_registrations_new(struct fgt_loop *loop, struct fgt_jobs *jobs,
			  struct fgt_targets *targets,
			  struct fgt_deliveries *deliveries,
			  struct fgt_config *const *config,
			  struct fgt_registrations **ret_registrations)
{
	struct fgt_registrations *registrations =
		calloc(1, sizeof(*registrations));

	if (!registrations)
		return -ENOMEM;
	registrations->loop = loop;
	registrations->jobs = jobs;
	registrations->targets = targets;
	registrations->deliveries = deliveries;
	registrations->config = config;
	*ret_registrations = registrations;
	return 0;
}

void fgt_registrations_watch(
	struct fgt_registrations *registrations,
	void (*finished)(void *context, struct fgt_target *target,
			 const char *name, uint64_t begin_ns, uint64_t end_ns),
	void *context)
{
	registrations->finished = finished;
	registrations->finished_context = context;
}

void fgt_registrations_leave(struct fgt_registrations *registrations)
{
	struct registered *entry = LIST_FIRST(&registrations->all);

	registrations->is_leaving = true;
	while (entry) {
		struct registered *next = LIST_NEXT(entry, link);
		bool is_ended = is_dead(entry);

		if (is_ended && entry->client)
			fgt_control_close(entry->client);
		else if (is_ended)
			has_died(entry, POLLIN);
		entry = next;
	}
}

size_t fgt_registrations_count(const struct fgt_registrations *registrations)
{
	return registrations->count;
}

uint64_t
fgt_registrations_crashes(const struct fgt_registrations *registrations)
{
	return registrations->crashes;
}

void fgt_registrations_free(struct fgt_registrations *registrations)
{
	if (!registrations)
		return;
	while (!LIST_EMPTY(&registrations->all)) {
		struct registered *entry = LIST_FIRST(&registrations->all);

		stop_waiting(entry);
		free_entry(entry);
	}
	free(registrations);
}
