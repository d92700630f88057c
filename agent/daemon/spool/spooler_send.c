/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leads entries of the spool to their destinations. Runs in the daemon's loop.
 */
#include <errno.h>
#include <string.h>

#include "agent/daemon/spool/spool_task.h"
#include "ringbuf/base/hash.h"

#define DEATHS_MAX 5 /* of processes that sent an entry: it is damaged */

/* Its process has ended without a result. */
static bool is_death(const struct fgt_delivery_result *result)
{
	return result->error == -EPIPE || result->error == -ETIMEDOUT;
}

static enum fgt_backlog_end end_of(const struct fgt_delivery_result *result)
{
	if (result->is_refused)
		return FGT_BACKLOG_REFUSED;
	if (result->error == -EAGAIN || is_death(result))
		return FGT_BACKLOG_AGAIN;
	return result->error == -ECANCELED ? FGT_BACKLOG_BROKEN_OFF
					   : FGT_BACKLOG_ANSWERED;
}

/* From now on the entry is not sent; it may have gone meanwhile. */
static void end_sending(struct fgt_spool_task *task, enum fgt_backlog_end end,
			const struct fgt_delivery_result *result)
{
	struct fgt_spooler *spooler = task->spooler;
	struct fgt_backlog_entry *entry =
		fgt_backlog_find(&spooler->backlog, &task->work.id);
	uint64_t now_ns = fgt_loop_now();

	spooler->sent--;
	if (entry)
		fgt_backlog_end(entry, end, now_ns, result->retry_after_s,
				fgt_hash_number(now_ns), result->why);
	if (end == FGT_BACKLOG_BROKEN_OFF)
		spooler->is_paused = true;
}

static unsigned int count_death(const struct fgt_spool_task *task)
{
	struct fgt_backlog_entry *entry =
		fgt_backlog_find(&task->spooler->backlog, &task->work.id);

	return entry ? ++entry->deaths : 0;
}

/* Its process has ended. context: the task. */
static void settled(void *context, const struct fgt_delivery_result *result)
{
	struct fgt_spool_task *task = context;
	struct fgt_spooler *spooler = task->spooler;
	enum fgt_backlog_end end = end_of(result);

	bool is_damaged;

	end_sending(task, end, result);
	is_damaged = result->error == -EBADMSG ||
		     (is_death(result) && count_death(task) >= DEATHS_MAX);
	if (is_damaged) {
		fgt_backlog_remove(&spooler->backlog, &task->work.id);
		fgt_spool_task_resubmit(task, FGT_SPOOL_WORK_CONDEMN);
	} else if (end != FGT_BACKLOG_ANSWERED) {
		fgt_spool_task_resubmit(task, FGT_SPOOL_WORK_RELEASE);
	} else {
		spooler->delivered += result->error == 0;
		spooler->failed += result->error < 0;
		fgt_backlog_remove(&spooler->backlog, &task->work.id);
		fgt_spool_task_resubmit(task, FGT_SPOOL_WORK_REMOVE);
	}
	fgt_spooler_send_next(spooler);
}

static enum fgt_backlog_end end_of_unsent(int error)
{
	switch (error) {
	case -EBUSY: /* the queue is full */
	case -ESHUTDOWN:
		return FGT_BACKLOG_BROKEN_OFF;
	case -ENOENT: /* the destination cannot be used: a secret is missing */
		return FGT_BACKLOG_AGAIN;
	default:
		return FGT_BACKLOG_REFUSED;
	}
}

/* Its file is open. */
static void send_held(struct fgt_spool_task *task)
{
	struct fgt_spooler *spooler = task->spooler;
	struct fgt_backlog_entry *entry =
		fgt_backlog_find(&spooler->backlog, &task->work.id);
	struct fgt_delivery_order order = {
		.kind = FGT_DELIVERY_PAYLOAD,
		.fds = FGT_DELIVERY_FDS_NONE,
		.settled = settled,
		.settled_context = task,
	};
	struct fgt_delivery_result failed = { .error = -ECANCELED };
	struct fgt_why why = { "" };
	int r = entry ? 0 : -ENOENT;

	if (r == 0) {
		order.uid = entry->uid;
		order.gid = entry->gid;
		order.configured = entry->place->name;
		order.pid = task->work.head.pid;
		order.name = task->work.head.name;
		order.fds.fd[FGT_DELIVERY_DATA] = FGT_TAKE_FD(task->work.fd);
		r = fgt_deliveries_submit(spooler->deliveries, &order, &why);
	}
	if (r == 0)
		return;
	memcpy(failed.why, why.text, sizeof(failed.why));
	end_sending(task, end_of_unsent(r), &failed);
	fgt_spool_task_resubmit(task, FGT_SPOOL_WORK_RELEASE);
}

void fgt_spooler_hold_done(struct fgt_spool_task *task)
{
	struct fgt_spooler *spooler = task->spooler;
	struct fgt_delivery_result failed = { .error = -EAGAIN };

	if (task->work.result == 0 && !spooler->is_leaving) {
		send_held(task);
		return;
	}
	memcpy(failed.why, task->work.why.text, sizeof(failed.why));
	end_sending(task,
		    task->work.result == -EIO ? FGT_BACKLOG_AGAIN
					      : FGT_BACKLOG_BROKEN_OFF,
		    &failed);
	if (task->work.result == -ENOENT)
		fgt_backlog_remove(&spooler->backlog, &task->work.id);
	fgt_spool_task_free(task);
}

void fgt_spooler_send_next(struct fgt_spooler *spooler)
{
	struct fgt_backlog_entry *entry;
	struct fgt_spool_task *task;
	uint64_t due_ns; /* the next tick is soon enough */

	while (spooler->is_open && !spooler->is_leaving &&
	       !spooler->is_paused &&
	       (entry = fgt_backlog_next(&spooler->backlog, fgt_loop_now(),
					 &due_ns))) {
		task = fgt_spool_task_new(spooler, FGT_SPOOL_WORK_HOLD);
		if (!task)
			return;
		task->work.id = entry->id;
		fgt_backlog_begin(entry);
		spooler->sent++;
		fgt_spool_task_submit(task);
	}
}
