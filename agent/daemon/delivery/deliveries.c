/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leads each delivery from its order to its end. Runs in the daemon's loop,
 * except run_cut(); must not wait for a process, nor log a destination.
 */
#include "agent/daemon/delivery/deliveries.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/daemon/delivery/delivery_limits.h"

#define SECOND_NS      UINT64_C(1000000000)
#define RETRY_S(tries) (UINT64_C(2) << 2 * ((tries)-1)) /* 2, 8, 32 … */
#define WAIT_MAX_S     600 /* a longer wait counts as a refusal */

enum delivery_state {
	JOB_WAITS, /* for its time */
	JOB_IS_CUT, /* on the thread */
	JOB_READY, /* for a process */
	JOB_SENDS,
};

struct delivery_job {
	struct fgt_deliveries *deliveries;
	TAILQ_ENTRY(delivery_job) link;
	enum delivery_state state;
	struct fgt_timer timer; /* its time; while it is sent: its end */
	struct fgt_job job;
	struct fgt_watch watch; /* of the child's socket */
	struct fgt_delivery_child child;
	struct fgt_delivery_head head;
	struct fgt_delivery_cut cut; /* target: a reference, until it is cut */
	struct fgt_delivery_fds fds;
	uint64_t bytes; /* of its descriptors */
	struct fgt_delivery_address address; /* whose limits it shares */
	/* Written on the thread, read when it is done. */
	int cut_result;
	uint64_t cut_bytes;
	uint8_t *body;
	size_t body_len;
	char name[FGT_TRANSACTION_NAME + 1];
	struct fgt_delivery_about about;
};

struct fgt_deliveries {
	struct fgt_loop *loop;
	struct fgt_jobs *jobs; /* their own thread: cuts */
	struct fgt_symbolizer *symbolizer;
	TAILQ_HEAD(, delivery_job) all; /* oldest first */
	struct fgt_delivery_limits limits;
	struct fgt_delivery_recent accepted;
	struct fgt_delivery_endings endings;
	struct fgt_deliveries_counters counters;
	uint64_t bytes;
	bool is_leaving; /* what is there is sent, once */
	bool is_ending; /* nothing is started any more */
};

static void free_job(struct delivery_job *job)
{
	fgt_target_put(job->cut.target);
	fgt_delivery_fds_close(&job->fds);
	if (job->body)
		explicit_bzero(job->body, job->body_len);
	free(job->body);
	free(job);
}

static void remove_job(struct delivery_job *job)
{
	struct fgt_deliveries *deliveries = job->deliveries;

	fgt_loop_disarm(deliveries->loop, &job->timer);
	TAILQ_REMOVE(&deliveries->all, job, link);
	deliveries->bytes -= job->bytes;
	free_job(job);
}

/* ---- Ends -------------------------------------------------------------- */

static void give_up(struct delivery_job *job, const char *where,
		    const char *why)
{
	job->deliveries->counters.failed++;
	fgt_delivery_log_given_up(&job->about, where, why);
	remove_job(job);
}

static void wait_until(struct delivery_job *job, uint64_t due_ns)
{
	job->state = JOB_WAITS;
	fgt_loop_arm(job->deliveries->loop, &job->timer, due_ns);
}

static void try_later(struct delivery_job *job,
		      const struct fgt_delivery_result *result)
{
	uint64_t seconds = RETRY_S(job->about.tries), due_ns;

	if (result->retry_after_s > seconds)
		seconds = result->retry_after_s;
	due_ns = fgt_loop_now() + seconds * SECOND_NS;
	if (result->retry_after_s > 0)
		fgt_delivery_limits_set(&job->deliveries->limits, &job->address,
					due_ns);
	if (job->about.tries >= FGT_DELIVERIES_TRIES || seconds > WAIT_MAX_S ||
	    job->deliveries->is_leaving) {
		give_up(job, result->where, result->why);
		return;
	}
	job->deliveries->counters.retried++;
	fgt_delivery_log_retry(&job->about, seconds, FGT_DELIVERIES_TRIES,
			       result->why);
	wait_until(job, due_ns);
}

static void settle(struct delivery_job *job,
		   const struct fgt_delivery_result *result)
{
	if (result->error == -EAGAIN) {
		try_later(job, result);
	} else if (result->error < 0) {
		give_up(job, result->where, result->why);
	} else {
		job->deliveries->counters.delivered++;
		fgt_delivery_log_done(&job->about, result);
		remove_job(job);
	}
}

/* ---- The process that uploads ------------------------------------------ */

static void start_ready(void *context);

static void end_child(struct delivery_job *job,
		      const struct fgt_delivery_result *result)
{
	struct fgt_deliveries *deliveries = job->deliveries;

	fgt_loop_unwatch(deliveries->loop, &job->watch);
	fgt_loop_disarm(deliveries->loop, &job->timer);
	fgt_delivery_endings_add(&deliveries->endings, &job->child,
				 job->head.uid);
	settle(job, result);
	start_ready(deliveries);
}

static void end_failed_child(struct delivery_job *job, int error,
			     const char *why)
{
	struct fgt_delivery_result result = { .error = error };

	strcpy(result.why, why);
	end_child(job, &result);
}

static void child_ready(void *context, uint32_t events)
{
	struct fgt_delivery_result result;
	struct delivery_job *job = context;
	int r = fgt_delivery_child_receive(&job->child, &result);

	(void)events;
	if (r == 0)
		end_child(job, &result);
	else if (r != -EAGAIN)
		end_failed_child(job, r,
				 "the delivering process died: out of memory?");
}

static int start_child(struct delivery_job *job)
{
	struct fgt_deliveries *deliveries = job->deliveries;
	int r = fgt_delivery_child_start(&job->child, &job->head, job->body,
					 job->body_len, &job->fds);

	if (r < 0)
		return r;
	job->watch.fd = job->child.fd;
	r = fgt_loop_watch(deliveries->loop, &job->watch, EPOLLIN);
	if (r < 0) {
		fgt_delivery_endings_add(&deliveries->endings, &job->child,
					 job->head.uid);
		return r;
	}
	job->about.tries++;
	job->state = JOB_SENDS;
	fgt_loop_arm(deliveries->loop, &job->timer,
		     fgt_loop_now() + (FGT_DELIVERY_MAX_S + 1) * SECOND_NS);
	return 0;
}

/* Counts what waits or is sent: all, and the user's and destination's of that
 * address. */
static struct fgt_delivery_tally
take_tally(const struct fgt_deliveries *deliveries,
	   const struct fgt_delivery_address *address)
{
	struct fgt_delivery_tally tally = { .bytes = deliveries->bytes };
	const struct delivery_job *job;

	TAILQ_FOREACH(job, &deliveries->all, link) {
		bool is_sent = job->state == JOB_SENDS;
		bool is_users = job->address.uid == address->uid;
		bool is_there = is_users && job->address.hash == address->hash;

		tally.all++;
		tally.of_user += is_users;
		tally.to_destination += is_there;
		tally.sent += is_sent;
		tally.sent_of_user += is_sent && is_users;
		tally.sent_to_destination += is_sent && is_there;
		tally.bytes_of_user += is_users ? job->bytes : 0;
	}
	return tally;
}

/* A slow server, or a process that does not end, holds up only its own user and
 * destination. */
static bool is_its_turn(const struct delivery_job *job)
{
	const struct fgt_deliveries *deliveries = job->deliveries;
	struct fgt_delivery_tally tally = take_tally(deliveries, &job->address);

	return fgt_delivery_tally_may_send(&tally) &&
	       !fgt_delivery_endings_has(&deliveries->endings, job->head.uid);
}

static void start_one(struct delivery_job *job)
{
	uint64_t until_ns = fgt_delivery_limits_until(&job->deliveries->limits,
						      &job->address);
	bool is_paused = until_ns > fgt_loop_now();

	if (is_paused && job->deliveries->is_leaving)
		give_up(job, "",
			"the server wants a pause, and the agent is leaving");
	else if (is_paused)
		wait_until(job, until_ns);
	else if (start_child(job) < 0)
		give_up(job, "",
			"no process could be started: raise TasksMax=");
}

/* context: struct fgt_deliveries. */
static void start_ready(void *context)
{
	struct fgt_deliveries *deliveries = context;
	struct delivery_job *job = TAILQ_FIRST(&deliveries->all);

	while (job && !deliveries->is_ending) {
		struct delivery_job *next = TAILQ_NEXT(job, link);

		if (job->state == JOB_READY && is_its_turn(job))
			start_one(job);
		job = next;
	}
}

/* ---- The cut ----------------------------------------------------------- */

static void run_cut(void *context)
{
	struct delivery_job *job = context;

	job->cut_result = fgt_delivery_cut(
		&job->cut, &job->fds.fd[FGT_DELIVERY_DATA], &job->cut_bytes);
}

static void cut_done(void *context)
{
	struct delivery_job *job = context;
	struct fgt_deliveries *deliveries = job->deliveries;
	struct fgt_delivery_tally tally;

	job->bytes += job->cut_bytes;
	deliveries->bytes += job->cut_bytes;
	tally = take_tally(deliveries, &job->address);
	fgt_target_put(FGT_TAKE(job->cut.target));
	job->state = JOB_READY;
	if (job->cut_result == -ENODATA)
		give_up(job, "",
			"the ring no longer has its time: raise ring.memory_mb");
	else if (job->cut_result == -EACCES)
		give_up(job, "", "its user may not see what it runs now");
	else if (job->cut_result < 0)
		give_up(job, "", strerror(-job->cut_result));
	else if (!fgt_delivery_tally_fits(&tally))
		give_up(job, "",
			"too much waits: are the destinations reachable?");
	else
		start_ready(deliveries);
}

static void time_has_come(void *context)
{
	struct delivery_job *job = context;
	struct fgt_deliveries *deliveries = job->deliveries;

	if (job->state == JOB_SENDS) {
		end_failed_child(job, -ETIMEDOUT,
				 "it took too long: server or network is slow");
	} else if (job->cut.target) {
		job->state = JOB_IS_CUT;
		fgt_jobs_submit(deliveries->jobs, &job->job);
	} else {
		job->state = JOB_READY;
		start_ready(deliveries);
	}
}

/* ---- Orders ------------------------------------------------------------ */

static int check_room(const struct delivery_job *job, bool is_last_word,
		      struct fgt_why *why)
{
	struct fgt_deliveries *deliveries = job->deliveries;
	const struct fgt_delivery_tally tally =
		take_tally(deliveries, &job->address);
	int r;

	if (deliveries->is_leaving && !is_last_word)
		return fgt_why_set(why, -ESHUTDOWN, FGT_AGENT_IS_LEAVING);
	r = fgt_delivery_tally_check(&tally, job->bytes, is_last_word, why);
	deliveries->counters.refused += r < 0;
	return r;
}

static void fill_job(struct delivery_job *job,
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
					 .ready = child_ready,
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
	};
	job->about = (struct fgt_delivery_about){ .pid = order->pid,
						  .name = job->name };
	job->address = fgt_delivery_address_of(order->uid, order->destination);
	job->bytes = fgt_delivery_bytes(order->fds.fd[FGT_DELIVERY_DATA]) +
		     fgt_delivery_bytes(order->fds.fd[FGT_DELIVERY_SPANS]);
	snprintf(job->name, sizeof(job->name), "%s",
		 order->name ? order->name : "slice");
}

static int queue(struct fgt_deliveries *deliveries,
		 const struct fgt_delivery_order *order, struct fgt_why *why)
{
	struct delivery_job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	fill_job(job, deliveries, order);
	r = check_room(job, order->is_last_word, why);
	if (r == 0) {
		r = fgt_delivery_body_new(order->destination, order->limits,
					  order->facts, order->facts_len,
					  &job->body, &job->body_len);
		if (r < 0)
			(void)fgt_why_set(why, r,
					  "cannot queue the delivery: %s",
					  strerror(-r));
	}
	if (r < 0) {
		free_job(job);
		return r;
	}
	job->fds = order->fds;
	TAILQ_INSERT_TAIL(&deliveries->all, job, link);
	deliveries->bytes += job->bytes;
	wait_until(job, order->not_before_ns);
	return 0;
}

int fgt_deliveries_submit(struct fgt_deliveries *deliveries,
			  const struct fgt_delivery_order *order,
			  struct fgt_why *why)
{
	/* Its id, if it is a transaction's; "" is never found. */
	const char *id = order->event_id ? order->event_id : "";
	bool is_known =
		fgt_delivery_recent_has(&deliveries->accepted, order->pid, id);
	struct fgt_delivery_fds fds = order->fds;
	int r = 0;

	if (!order->destination || !*order->destination)
		r = fgt_why_set(why, -EINVAL,
				"no destination: see upload.destinations");
	if (r == 0 && !is_known)
		r = queue(deliveries, order, why);
	if (r < 0 || is_known) {
		fgt_delivery_fds_close(&fds);
		return r;
	}
	fgt_delivery_recent_add(&deliveries->accepted, order->pid, id);
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
		.gone = start_ready,
		.context = deliveries,
	};
	r = fgt_jobs_new(loop, &deliveries->jobs);
	if (r < 0)
		return r;
	*ret_deliveries = FGT_TAKE(deliveries);
	return 0;
}

/* Deliveries that wait for another try, or for more than a second, are tried
 * now; the others become due by themselves. */
void fgt_deliveries_leave(struct fgt_deliveries *deliveries)
{
	uint64_t soon_ns = fgt_loop_now() + SECOND_NS;
	struct delivery_job *job;

	deliveries->is_leaving = true;
	TAILQ_FOREACH(job, &deliveries->all, link)
		if (job->state == JOB_WAITS &&
		    (job->about.tries > 0 || job->timer.due_ns > soon_ns))
			wait_until(job, fgt_loop_now());
}

void fgt_deliveries_free(struct fgt_deliveries *deliveries)
{
	if (!deliveries)
		return;
	deliveries->is_leaving = deliveries->is_ending = true;
	/* Those that are cut become ready, or are given up. */
	fgt_jobs_free(deliveries->jobs);
	while (!TAILQ_EMPTY(&deliveries->all)) {
		struct delivery_job *job = TAILQ_FIRST(&deliveries->all);

		if (job->state == JOB_SENDS) {
			fgt_loop_unwatch(deliveries->loop, &job->watch);
			fgt_delivery_endings_add(&deliveries->endings,
						 &job->child, job->head.uid);
		}
		give_up(job, "", FGT_AGENT_IS_LEAVING);
	}
	fgt_delivery_endings_done(&deliveries->endings);
	free(deliveries);
}

void fgt_deliveries_get_counters(const struct fgt_deliveries *deliveries,
				 struct fgt_deliveries_counters *ret_counters)
{
	const struct delivery_job *job;

	*ret_counters = deliveries->counters;
	TAILQ_FOREACH(job, &deliveries->all, link)
		if (job->state == JOB_SENDS)
			ret_counters->active++;
		else
			ret_counters->waiting++;
}
