/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leads each delivery from its order to its end. Runs in the daemon's loop,
 * except run_cut(); must not wait for a process, nor log a destination.
 */
#include "agent/daemon/delivery/deliveries.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/daemon/delivery/delivery_job.h"

#define SECOND_NS    UINT64_C(1000000000)
#define TICK_LOOK_NS UINT64_C(100000000)

void fgt_delivery_job_free(struct fgt_delivery_job *job)
{
	fgt_target_put(job->cut.target);
	fgt_delivery_fds_close(&job->fds);
	if (job->body)
		explicit_bzero(job->body, job->body_len);
	free(job->body);
	free(job);
}

struct fgt_delivery_tally
fgt_delivery_job_tally(const struct fgt_deliveries *deliveries,
		       const struct fgt_delivery_address *address)
{
	struct fgt_delivery_tally tally = { .bytes = deliveries->bytes,
					    .is_shared = address->is_shared };
	const struct fgt_delivery_job *job;

	TAILQ_FOREACH(job, &deliveries->all, link) {
		bool is_of_kind = job->address.is_shared == address->is_shared;
		bool is_sent = job->state == FGT_JOB_SENDS && is_of_kind;
		bool is_users = job->address.uid == address->uid;
		bool is_there =
			fgt_delivery_address_is_same(&job->address, address);

		tally.all++;
		tally.of_user += is_users && is_of_kind && !address->is_shared;
		tally.to_destination += is_there && is_users;
		tally.to_shared += is_there && address->is_shared;
		tally.sent += is_sent;
		tally.sent_of_user += is_sent && is_users &&
				      !address->is_shared;
		tally.sent_to_destination += is_sent && is_there &&
					     !job->is_kept;
		tally.encoded += is_sent && job->is_kept;
		tally.encoded_for_destination += is_sent && is_there &&
						 job->is_kept;
		tally.bytes_of_user += is_users ? job->bytes : 0;
	}
	return tally;
}

/* ---- The cut ----------------------------------------------------------- */

static void run_cut(void *context)
{
	struct fgt_delivery_job *job = context;

	job->cut_result = fgt_delivery_cut(
		&job->cut, &job->fds.fd[FGT_DELIVERY_DATA], &job->cut_bytes);
}

static void drop_for_room(struct fgt_delivery_job *job)
{
	fgt_delivery_job_discard(job, FGT_DISCARD_QUEUE,
				 FGT_CATEGORY_TRANSACTION);
	fgt_delivery_job_give_up(
		job, FGT_DROP_QUEUE_FULL, "",
		"too much waits: are the destinations reachable?");
}

static void drop_uncut(struct fgt_delivery_job *job)
{
	const char *why = strerror(-job->cut_result);

	if (job->cut_result == -ENODATA)
		why = "the ring no longer has its time: raise ring.memory_mb";
	else if (job->cut_result == -EACCES)
		why = "its user may not see what it runs now";
	fgt_delivery_job_discard(job,
				 job->cut_result == -ENODATA
					 ? FGT_DISCARD_NO_DATA
					 : FGT_DISCARD_INTERNAL,
				 FGT_CATEGORY_TRANSACTION);
	fgt_delivery_job_give_up(job, FGT_DROP_NO_DATA, "", why);
}

static void cut_done(void *context)
{
	struct fgt_delivery_job *job = context;
	struct fgt_deliveries *deliveries = job->deliveries;
	struct fgt_delivery_tally tally;

	job->bytes += job->cut_bytes;
	deliveries->bytes += job->cut_bytes;
	tally = fgt_delivery_job_tally(deliveries, &job->address);
	fgt_target_put(FGT_TAKE(job->cut.target));
	job->state = FGT_JOB_READY;
	if (job->cut_result < 0)
		drop_uncut(job);
	else if (!fgt_delivery_tally_fits(&tally))
		drop_for_room(job);
	else
		fgt_deliveries_start_ready(deliveries);
}

/* The tick after the end of a chunk may be late: the rate is lowered. */
static bool is_early(const struct fgt_delivery_job *job)
{
	struct fgt_target_status status;

	if (!job->cut.target || job->deliveries->is_leaving ||
	    fgt_loop_now() >= job->cut.chunk.wait_until_ns)
		return false;
	fgt_target_get_status(job->cut.target, &status);
	return status.is_alive && !status.is_stopped &&
	       status.checked_ns < job->cut.to_ns;
}

static void time_has_come(void *context)
{
	struct fgt_delivery_job *job = context;
	struct fgt_deliveries *deliveries = job->deliveries;

	if (job->state == FGT_JOB_SENDS) {
		fgt_delivery_job_overrun(job);
	} else if (is_early(job)) {
		fgt_delivery_job_wait(job, fgt_loop_now() + TICK_LOOK_NS);
	} else if (job->cut.target) {
		job->state = FGT_JOB_IS_CUT;
		fgt_jobs_submit(deliveries->jobs, &job->job);
	} else {
		job->state = FGT_JOB_READY;
		fgt_deliveries_start_ready(deliveries);
	}
}

/* ---- Orders ------------------------------------------------------------ */

static int check_room(struct fgt_delivery_job *job,
		      const struct fgt_delivery_order *order,
		      struct fgt_why *why)
{
	struct fgt_deliveries *deliveries = job->deliveries;
	const struct fgt_delivery_tally tally =
		fgt_delivery_job_tally(deliveries, &job->address);
	int r;

	if (deliveries->is_leaving && !order->is_last_word)
		return fgt_why_set(why, -ESHUTDOWN, FGT_AGENT_IS_LEAVING);
	r = fgt_delivery_tally_check(&tally, job->bytes, order->is_last_word,
				     why);
	if (order->is_repeated)
		return r;
	deliveries->counters.refused += r < 0;
	if (r < 0 && !job->settled) /* else the keeper has it still */
		fgt_delivery_job_discard(job, FGT_DISCARD_QUEUE,
					 FGT_CATEGORY_TRANSACTION);
	return r;
}

static void fill_job(struct fgt_delivery_job *job,
		     struct fgt_deliveries *deliveries,
		     const struct fgt_delivery_order *order)
{
	job->deliveries = deliveries;
	job->fds = FGT_DELIVERY_FDS_NONE;
	job->timer =
		(struct fgt_timer){ .expired = time_has_come, .context = job };
	job->job = (struct fgt_job){ .run = run_cut,
				     .done = cut_done,
				     .context = job };
	job->watch = (struct fgt_watch){ .fd = -1,
					 .ready = fgt_delivery_job_ready,
					 .context = job };
	job->child = FGT_DELIVERY_CHILD_NONE;
	job->head = (struct fgt_delivery_head){
		.uid = order->uid,
		.gid = order->gid,
		.kind = order->target ? FGT_DELIVERY_FILE : order->kind,
		.from_ns = order->from_ns,
		.to_ns = order->to_ns,
	};
	job->cut = (struct fgt_delivery_cut){
		.target = order->target ? fgt_target_get(order->target) : NULL,
		.symbolizer = deliveries->symbolizer,
		.gate = order->gate,
		.from_ns = order->from_ns,
		.to_ns = order->to_ns,
		.is_transaction = order->is_transaction,
		.trigger = order->trigger,
		.chunk = order->chunk,
	};
	job->about = (struct fgt_delivery_about){ .pid = order->pid,
						  .name = job->name };
	job->address = order->configured
			       ? fgt_delivery_address_of_name(order->uid,
							      order->configured)
			       : fgt_delivery_address_of(order->uid,
							 order->destination);
	job->settled = order->settled;
	job->settled_context = order->settled_context;
	job->is_kept = order->configured && !order->settled &&
		       fgt_delivery_is_kept(deliveries);
	snprintf(job->configured, sizeof(job->configured), "%s",
		 order->configured ? order->configured : "");
	if (order->kind != FGT_DELIVERY_PAYLOAD) /* a file on disk */
		job->bytes =
			fgt_delivery_bytes(order->fds.fd[FGT_DELIVERY_DATA]) +
			fgt_delivery_bytes(order->fds.fd[FGT_DELIVERY_SPANS]);
	snprintf(job->name, sizeof(job->name), "%s",
		 order->name ? order->name : "slice");
}

/* What the child gets: it may hold secrets. */
static int make_body(struct fgt_delivery_job *job,
		     const struct fgt_delivery_order *order,
		     struct fgt_why *why)
{
	struct fgt_destinations *destinations = &job->deliveries->destinations;
	struct fgt_destination_entry *entry =
		order->configured
			? fgt_destinations_find(destinations, order->configured)
			: NULL;
	const struct fgt_delivery_content content = {
		.destination = order->destination,
		.configured = entry ? entry->destination : NULL,
		.limits = order->limits,
		.facts = order->facts,
		.facts_len = order->facts_len,
	};
	int r;

	if (entry && entry->destination)
		entry->destination->sequence =
			fgt_destination_entry_next_sequence(entry);
	r = fgt_delivery_body_new(&content, &job->body, &job->body_len);
	return r < 0 ? fgt_why_set(why, r, "cannot queue the delivery: %s",
				   strerror(-r))
		     : 0;
}

static int queue(struct fgt_deliveries *deliveries,
		 const struct fgt_delivery_order *order, struct fgt_why *why)
{
	struct fgt_delivery_job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	fill_job(job, deliveries, order);
	r = check_room(job, order, why);
	if (r == 0)
		r = make_body(job, order, why);
	if (r < 0) {
		fgt_delivery_job_free(job);
		return r;
	}
	job->fds = order->fds;
	TAILQ_INSERT_TAIL(&deliveries->all, job, link);
	deliveries->bytes += job->bytes;
	fgt_delivery_job_wait(job, order->not_before_ns);
	return 0;
}

/* Is there a destination, and may it be used? */
static int check_destination(struct fgt_deliveries *deliveries,
			     const struct fgt_delivery_order *order,
			     struct fgt_why *why)
{
	struct fgt_destinations *destinations = &deliveries->destinations;
	struct fgt_destination_entry *entry;

	if (order->configured) {
		entry = fgt_destinations_find(destinations, order->configured);
		/* The keeper has it until the destination can be used. */
		if (entry && entry->destination && !order->settled &&
		    fgt_delivery_is_kept(deliveries))
			return 0;
		return entry ? fgt_destination_entry_check(destinations, entry,
							   why)
			     : fgt_why_set(why, -ENOENT,
					   "no destination is called '%s'",
					   order->configured);
	}
	if (order->destination && *order->destination)
		return 0;
	return fgt_why_set(why, -EINVAL,
			   "no destination: see upload.destinations");
}

int fgt_deliveries_submit(struct fgt_deliveries *deliveries,
			  const struct fgt_delivery_order *order,
			  struct fgt_why *why)
{
	/* Its id, if it is a transaction's; "" is never found. */
	const struct fgt_delivery_mark mark = {
		.pid = order->pid,
		.event_id = order->event_id ? order->event_id : "",
		.configured = order->configured ? order->configured : "",
	};
	bool is_known = fgt_delivery_recent_has(&deliveries->accepted, &mark);
	struct fgt_delivery_fds fds = order->fds;
	int r = check_destination(deliveries, order, why);

	if (r == 0 && !is_known)
		r = queue(deliveries, order, why);
	if (r < 0 || is_known) {
		fgt_delivery_fds_close(&fds);
		return r;
	}
	fgt_delivery_recent_add(&deliveries->accepted, &mark);
	return 0;
}

/* ---- All of them ------------------------------------------------------- */

int fgt_deliveries_new(struct fgt_loop *loop, struct fgt_symbolizer *symbolizer,
		       struct fgt_deliveries **ret_deliveries)
{
	FGT_AUTO(fgt_deliveries_free) struct fgt_deliveries *deliveries = NULL;
	int r;

	deliveries = calloc(1, sizeof(*deliveries));
	if (!deliveries)
		return -ENOMEM;
	TAILQ_INIT(&deliveries->all);
	deliveries->loop = loop;
	deliveries->symbolizer = symbolizer;
	deliveries->endings = (struct fgt_delivery_endings){
		.loop = loop,
		.gone = fgt_deliveries_start_ready,
		.context = deliveries,
	};
	r = fgt_jobs_new(loop, &deliveries->jobs);
	if (r < 0)
		return r;
	*ret_deliveries = FGT_TAKE(deliveries);
	return 0;
}

void fgt_deliveries_discard(struct fgt_deliveries *deliveries, const char *name,
			    enum fgt_discard_reason reason,
			    enum fgt_sentry_category category)
{
	const struct fgt_delivery_address address =
		fgt_delivery_address_of_name(0, name);

	fgt_delivery_limits_discard(&deliveries->limits, &address, reason,
				    category);
	if (deliveries->is_sentry_v1 && category == FGT_CATEGORY_TRANSACTION)
		fgt_delivery_limits_discard(&deliveries->limits, &address,
					    reason, FGT_CATEGORY_PROFILE);
}

void fgt_deliveries_discard_kept(struct fgt_deliveries *deliveries,
				 const struct fgt_delivery_kept *kept,
				 enum fgt_discard_reason reason)
{
	if (!kept->is_chunk)
		fgt_deliveries_discard(deliveries, kept->configured, reason,
				       FGT_CATEGORY_TRANSACTION);
	if (kept->is_chunk || !deliveries->is_sentry_v1)
		fgt_deliveries_discard(deliveries, kept->configured, reason,
				       FGT_CATEGORY_CHUNK);
}

/* Deliveries that wait for another try, or for more than a second, are tried
 * now; the others become due by themselves. */
void fgt_deliveries_leave(struct fgt_deliveries *deliveries)
{
	uint64_t soon_ns = fgt_loop_now() + SECOND_NS;
	struct fgt_delivery_job *job;

	deliveries->is_leaving = true;
	TAILQ_FOREACH(job, &deliveries->all, link)
		if (job->state == FGT_JOB_WAITS &&
		    (job->about.tries > 0 || job->timer.due_ns > soon_ns))
			fgt_delivery_job_wait(job, fgt_loop_now());
}

void fgt_deliveries_free(struct fgt_deliveries *deliveries)
{
	if (!deliveries)
		return;
	deliveries->is_leaving = deliveries->is_ending = true;
	/* Those that are cut become ready, or are given up. */
	fgt_jobs_free(deliveries->jobs);
	while (!TAILQ_EMPTY(&deliveries->all)) {
		struct fgt_delivery_job *job = TAILQ_FIRST(&deliveries->all);

		if (job->state == FGT_JOB_SENDS) {
			fgt_loop_unwatch(deliveries->loop, &job->watch);
			fgt_delivery_endings_add(&deliveries->endings,
						 &job->child, job->head.uid);
		}
		fgt_delivery_job_give_up(job, FGT_DROP_LEAVING, "",
					 FGT_AGENT_IS_LEAVING);
	}
	fgt_delivery_endings_done(&deliveries->endings);
	fgt_destinations_done(&deliveries->destinations);
	free(deliveries);
}

void fgt_deliveries_get_counters(const struct fgt_deliveries *deliveries,
				 struct fgt_deliveries_counters *ret_counters)
{
	const struct fgt_delivery_job *job;

	*ret_counters = deliveries->counters;
	TAILQ_FOREACH(job, &deliveries->all, link)
		if (job->state == FGT_JOB_SENDS)
			ret_counters->active++;
		else
			ret_counters->waiting++;
}
