/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a delivery that its process does: whose turn it is, and what
 * becomes of the result. Runs in the daemon's loop; must not wait for a
 * process, nor log a destination.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "agent/daemon/delivery/delivery_job.h"
#include "ringbuf/base/hash.h"

#define SECOND_NS      UINT64_C(1000000000)
#define RETRY_S(tries) (UINT64_C(2) << 2 * ((tries)-1)) /* 2, 8, 32 … */
#define WAIT_MAX_S     600 /* a longer wait counts as a refusal */

/* Else what took too long would look like a process that died. */
_Static_assert(FGT_DELIVERY_ALARM_S > FGT_DELIVERY_MAX_S, "the agent is first");

static void remove_job(struct fgt_delivery_job *job)
{
	struct fgt_deliveries *deliveries = job->deliveries;

	fgt_loop_disarm(deliveries->loop, &job->timer);
	TAILQ_REMOVE(&deliveries->all, job, link);
	deliveries->bytes -= job->bytes;
	fgt_delivery_job_free(job);
}

/* ---- Ends -------------------------------------------------------------- */

/* NULL: the destination is the program's, or is configured no longer. */
static struct fgt_destination_entry *
entry_of(const struct fgt_delivery_job *job)
{
	return *job->configured
		       ? fgt_destinations_find(&job->deliveries->destinations,
					       job->configured)
		       : NULL;
}

/* What the server has taken a slice without. */
static void count_left_out(struct fgt_delivery_job *job,
			   const struct fgt_delivery_result *result)
{
	struct fgt_destination_entry *entry = entry_of(job);

	if (!entry || result->error != 0)
		return;
	for (uint32_t i = 0; i < FGT_CATEGORY_COUNT; i++)
		entry->dropped[FGT_DROP_LIMITED] += result->limited[i];
}

/* What the server wants, and what of the report has come to it. */
static void take_result(struct fgt_delivery_job *job,
			const struct fgt_delivery_result *result)
{
	fgt_delivery_limits_extend(&job->deliveries->limits, &job->address,
				   &result->limits, fgt_loop_now());
	if (!result->is_reported)
		fgt_delivery_job_put_back_discards(job);
	else
		memset(&job->head.discards, 0, sizeof(job->head.discards));
	fgt_delivery_job_count_discards(job, result);
	count_left_out(job, result);
}

static void end_settled(struct fgt_delivery_job *job,
			const struct fgt_delivery_result *result)
{
	void (*settled)(void *, const struct fgt_delivery_result *) =
		job->settled;
	void *context = job->settled_context;

	remove_job(job);
	settled(context, result);
}

void fgt_delivery_job_give_up(struct fgt_delivery_job *job,
			      enum fgt_drop_reason reason, const char *where,
			      const char *why)
{
	struct fgt_destination_entry *entry = entry_of(job);
	const struct fgt_delivery_result not_tried = { .error = -ECANCELED };

	if (job->settled) { /* the keeper has it still */
		end_settled(job, &not_tried);
		return;
	}
	if (entry)
		fgt_destination_entry_dropped(entry, reason, why);
	job->deliveries->counters.failed++;
	fgt_delivery_log_given_up(&job->about, where, why);
	remove_job(job);
}

void fgt_delivery_job_wait(struct fgt_delivery_job *job, uint64_t due_ns)
{
	job->state = FGT_JOB_WAITS;
	fgt_loop_arm(job->deliveries->loop, &job->timer, due_ns);
}

/* From one half of the pause to all of it, so that many agents do not come at
 * once. A server's own wish is kept. */
static uint64_t choose_pause_ns(const struct fgt_delivery_job *job,
				const struct fgt_delivery_result *result)
{
	uint64_t now_ns = fgt_loop_now();
	uint64_t half_ns = RETRY_S(job->about.tries) * SECOND_NS / 2;
	uint64_t pause_ns = half_ns + fgt_hash_number(now_ns) % half_ns;
	uint64_t wished_ns = result->retry_after_s * SECOND_NS;

	return wished_ns > pause_ns ? wished_ns : pause_ns;
}

static void try_later(struct fgt_delivery_job *job,
		      const struct fgt_delivery_result *result)
{
	uint64_t pause_ns = choose_pause_ns(job, result);
	uint64_t due_ns = fgt_loop_now() + pause_ns;
	struct fgt_destination_entry *entry = entry_of(job);

	/* Other deliveries to this destination wait as long. */
	if (result->retry_after_s > 0 || entry)
		fgt_delivery_limits_set(&job->deliveries->limits, &job->address,
					due_ns);
	if (job->about.tries >= FGT_DELIVERIES_TRIES ||
	    pause_ns > WAIT_MAX_S * SECOND_NS || job->deliveries->is_leaving) {
		fgt_delivery_job_discard(job, FGT_DISCARD_NETWORK,
					 result->category);
		fgt_delivery_job_give_up(job, FGT_DROP_UNREACHABLE,
					 result->where, result->why);
		return;
	}
	if (entry)
		fgt_destination_entry_retried(entry, result->why, due_ns);
	job->deliveries->counters.retried++;
	fgt_delivery_log_retry(&job->about,
			       (pause_ns + SECOND_NS / 2) / SECOND_NS,
			       FGT_DELIVERIES_TRIES, result->why);
	fgt_delivery_job_wait(job, due_ns);
}

/* The destination is not to blame: its other deliveries do not wait. */
static void try_once_more(struct fgt_delivery_job *job,
			  const struct fgt_delivery_result *result)
{
	uint64_t pause_ns =
		job->deliveries->is_leaving ? 0 : choose_pause_ns(job, result);

	job->has_died = true;
	job->deliveries->counters.retried++;
	fgt_delivery_log_retry(&job->about,
			       (pause_ns + SECOND_NS / 2) / SECOND_NS,
			       job->about.tries + 1, result->why);
	fgt_delivery_job_wait(job, fgt_loop_now() + pause_ns);
}

static enum fgt_drop_reason reason_of(const struct fgt_delivery_result *result)
{
	if (result->is_refused)
		return FGT_DROP_REFUSED;
	if (result->error == -EBUSY)
		return FGT_DROP_LIMITED;
	return result->error == -EMSGSIZE ? FGT_DROP_TOO_LARGE
					  : FGT_DROP_REJECTED;
}

/* What the keeper had submitted. */
static void settle_payload(struct fgt_delivery_job *job,
			   const struct fgt_delivery_result *result)
{
	struct fgt_destination_entry *entry = entry_of(job);
	/* Also where its process has died. */
	bool is_retried = result->is_refused || result->error == -EAGAIN ||
			  result->error == -EPIPE ||
			  result->error == -ETIMEDOUT;

	if (result->error == 0) {
		job->deliveries->counters.delivered++;
		fgt_delivery_log_done(&job->about, result);
	} else if (!is_retried) {
		job->deliveries->counters.failed++;
		fgt_delivery_log_given_up(&job->about, result->where,
					  result->why);
	}
	if (entry && result->error == 0)
		fgt_destination_entry_delivered(entry, result->bytes);
	else if (entry && result->is_refused)
		fgt_destination_entry_refuse(entry, result->why);
	else if (entry && is_retried)
		fgt_destination_entry_retried(entry, result->why, 0);
	else if (entry)
		fgt_destination_entry_dropped(entry, reason_of(result),
					      result->why);
	end_settled(job, result);
}

/* The child has encoded it. */
static void hand_over(struct fgt_delivery_job *job)
{
	const struct fgt_delivery_keeper *keeper = job->deliveries->keeper;
	struct fgt_delivery_kept kept = {
		.fd = FGT_TAKE_FD(job->fds.fd[FGT_DELIVERY_OUTPUT]),
		.pid = job->about.pid,
		.uid = job->head.uid,
		.gid = job->head.gid,
		.is_chunk = job->cut.chunk.profiler_id[0],
	};

	strcpy(kept.name, job->name);
	strcpy(kept.configured, job->configured);
	remove_job(job);
	keeper->keep(keeper->context, &kept);
}

static void settle(struct fgt_delivery_job *job,
		   const struct fgt_delivery_result *result)
{
	struct fgt_destination_entry *entry = entry_of(job);

	take_result(job, result);
	if (job->settled) {
		settle_payload(job, result);
	} else if (job->is_kept && result->error == 0) {
		hand_over(job);
	} else if (result->error == -EAGAIN) {
		try_later(job, result);
	} else if (fgt_delivery_job_has_died_first(job, result)) {
		try_once_more(job, result);
	} else if (result->error < 0) {
		fgt_delivery_job_give_up(job, reason_of(result), result->where,
					 result->why);
	} else {
		if (entry)
			fgt_destination_entry_delivered(entry, result->bytes);
		job->deliveries->counters.delivered++;
		fgt_delivery_log_done(&job->about, result);
		remove_job(job);
	}
}

/* ---- The process that uploads ------------------------------------------ */

static void end_child(struct fgt_delivery_job *job,
		      const struct fgt_delivery_result *result)
{
	struct fgt_deliveries *deliveries = job->deliveries;

	fgt_loop_unwatch(deliveries->loop, &job->watch);
	fgt_loop_disarm(deliveries->loop, &job->timer);
	fgt_delivery_endings_add(&deliveries->endings, &job->child,
				 job->head.uid);
	settle(job, result);
	fgt_deliveries_start_ready(deliveries);
}

static void end_failed_child(struct fgt_delivery_job *job, int error,
			     const char *why)
{
	struct fgt_delivery_result result = { .error = error };

	strcpy(result.why, why);
	end_child(job, &result);
}

void fgt_delivery_job_ready(void *context, uint32_t events)
{
	struct fgt_delivery_result result;
	struct fgt_delivery_job *job = context;
	int r = fgt_delivery_child_receive(&job->child, &result);

	(void)events;
	if (r == 0)
		end_child(job, &result);
	else if (r != -EAGAIN)
		end_failed_child(job, r,
				 "the delivering process died: out of memory?");
}

void fgt_delivery_job_overrun(struct fgt_delivery_job *job)
{
	end_failed_child(job, -ETIMEDOUT,
			 "it took too long: server or network is slow");
}

/* Where the child puts what it encodes: none of an earlier try. */
static int open_output(struct fgt_delivery_job *job)
{
	int *fd = &job->fds.fd[FGT_DELIVERY_OUTPUT];

	fgt_fd_close(FGT_TAKE_FD(*fd));
	if (!job->is_kept)
		return 0;
	*fd = memfd_create("fgtrace-payloads", MFD_CLOEXEC);
	return *fd < 0 ? -errno : 0;
}

static int start_child(struct fgt_delivery_job *job)
{
	struct fgt_deliveries *deliveries = job->deliveries;
	int r = open_output(job);

	if (r < 0)
		return r;
	job->head.is_sentry_v1 = deliveries->is_sentry_v1;
	job->head.limited = fgt_delivery_limits_mask(
		&deliveries->limits, &job->address, fgt_loop_now());
	job->head.discards =
		fgt_delivery_limits_take(&deliveries->limits, &job->address);
	r = fgt_delivery_child_start(&job->child, &job->head, job->body,
				     job->body_len, &job->fds);
	job->watch.fd = job->child.fd;
	if (r == 0) {
		r = fgt_loop_watch(deliveries->loop, &job->watch, EPOLLIN);
		if (r < 0)
			fgt_delivery_endings_add(&deliveries->endings,
						 &job->child, job->head.uid);
	}
	if (r < 0) {
		fgt_delivery_job_put_back_discards(job);
		return r;
	}
	job->about.tries++;
	job->state = FGT_JOB_SENDS;
	fgt_loop_arm(deliveries->loop, &job->timer,
		     fgt_loop_now() + FGT_DELIVERY_MAX_S * SECOND_NS);
	return 0;
}

/* A slow server holds up only its own user and destination, and not what is only
 * encoded; a process that does not end, its user. */
static bool is_its_turn(const struct fgt_delivery_job *job)
{
	const struct fgt_deliveries *deliveries = job->deliveries;
	const struct fgt_destination_entry *entry = entry_of(job);
	struct fgt_delivery_tally tally =
		fgt_delivery_job_tally(deliveries, &job->address);

	if (fgt_delivery_endings_has(&deliveries->endings, job->head.uid))
		return false;
	/* Only encoded: it is not safe before it is in the spool. */
	if (job->is_kept)
		return tally.encoded < FGT_DELIVERIES_AT_WORK &&
		       tally.encoded_for_destination <
			       FGT_DELIVERIES_ENCODED_PER_DESTINATION;
	if (entry && !entry->is_proven && tally.sent_to_destination > 0)
		return false;
	return fgt_delivery_tally_may_send(&tally);
}

/* What is queued when a destination begins to refuse is not sent. */
static bool is_refused(const struct fgt_delivery_job *job, struct fgt_why *why)
{
	struct fgt_destination_entry *entry = entry_of(job);

	return entry && !job->is_kept &&
	       fgt_destination_entry_check(&job->deliveries->destinations,
					   entry, why) < 0;
}

/* The server wants nothing until then. The keeper has its part itself. */
static void wait_or_give_up(struct fgt_delivery_job *job, uint64_t until_ns)
{
	static const char why[] = "the server wants a pause";
	uint64_t pause_ns = until_ns - fgt_loop_now();
	struct fgt_delivery_result later = {
		.error = -EAGAIN,
		.retry_after_s = (uint32_t)(pause_ns / SECOND_NS) + 1,
	};

	if (pause_ns <= WAIT_MAX_S * SECOND_NS) {
		fgt_delivery_job_wait(job, until_ns);
	} else if (job->settled) {
		strcpy(later.why, why);
		end_settled(job, &later);
	} else {
		fgt_delivery_job_discard(job, FGT_DISCARD_LIMITED,
					 FGT_CATEGORY_TRANSACTION);
		fgt_delivery_job_give_up(job, FGT_DROP_LIMITED, "", why);
	}
}

static void drop_unstarted(struct fgt_delivery_job *job)
{
	if (!job->settled) /* else the keeper has it still */
		fgt_delivery_job_discard(job, FGT_DISCARD_INTERNAL,
					 FGT_CATEGORY_TRANSACTION);
	fgt_delivery_job_give_up(
		job, FGT_DROP_REJECTED, "",
		"no process could be started: raise TasksMax=");
}

static void start_one(struct fgt_delivery_job *job)
{
	uint64_t until_ns = fgt_delivery_limits_until(&job->deliveries->limits,
						      &job->address);
	bool is_paused = !job->is_kept && until_ns > fgt_loop_now();
	struct fgt_why why;

	if (is_refused(job, &why))
		fgt_delivery_job_give_up(job, FGT_DROP_REFUSED, "", why.text);
	else if (is_paused && job->deliveries->is_leaving)
		fgt_delivery_job_give_up(
			job, FGT_DROP_LEAVING, "",
			"the server wants a pause, and the agent is leaving");
	else if (is_paused)
		wait_or_give_up(job, until_ns);
	else if (start_child(job) < 0)
		drop_unstarted(job);
}

/* context: struct fgt_deliveries. */
void fgt_deliveries_start_ready(void *context)
{
	struct fgt_deliveries *deliveries = context;
	struct fgt_delivery_job *job = TAILQ_FIRST(&deliveries->all);

	while (job && !deliveries->is_ending) {
		struct fgt_delivery_job *next = TAILQ_NEXT(job, link);

		if (job->state == FGT_JOB_READY && is_its_turn(job))
			start_one(job);
		job = next;
	}
}
