/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leads encoded deliveries into the spool; what the disk does not take now is
 * kept in memory for about three minutes. Runs in the daemon's loop.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/spool/spool_task.h"

#define SECOND_NS     UINT64_C(1000000000)
#define KEPT_MAX      64 /* on their way to the disk */
#define KEPT_BYTES    ((uint64_t)128 << 20)
#define KEEP_TRIES    5 /* after 2, 8, 32, 128 s */
#define WAIT_S(tries) (UINT64_C(2) << 2 * ((tries)-1))

static void forget_kept(struct fgt_spool_task *task)
{
	task->spooler->kept--;
	task->spooler->kept_bytes -= task->bytes;
	fgt_spool_task_free(task);
}

/* Reported as if it had left the full spool. */
static void count_lost(struct fgt_spooler *spooler,
		       const struct fgt_delivery_kept *kept,
		       const struct fgt_why *why)
{
	fgt_log(FGT_LOG_WARNING, "undelivered", "pid %d, '%s' to %s: %s",
		kept->pid, kept->name, kept->configured, why->text);
	fgt_spooler_note_error(spooler, why);
	spooler->failed++;
	spooler->unwritten++;
	fgt_deliveries_discard_kept(spooler->deliveries, kept,
				    FGT_DISCARD_CACHE);
}

static void give_up(struct fgt_spool_task *task, const struct fgt_why *why)
{
	count_lost(task->spooler, &task->kept, why);
	forget_kept(task);
}

static void keep_again(void *context)
{
	struct fgt_spool_task *task = context;

	fgt_spool_task_resubmit(task, FGT_SPOOL_WORK_ADD);
}

void fgt_spooler_add_done(struct fgt_spool_task *task)
{
	struct fgt_spooler *spooler = task->spooler;
	uint64_t seconds;

	if (task->work.result == 0) {
		spooler->spooled++;
		fgt_log(FGT_LOG_INFO, "spooled", "pid %d, '%s' for %s",
			task->kept.pid, task->kept.name, task->kept.configured);
		forget_kept(task);
		return;
	}
	if (++task->tries >= KEEP_TRIES || spooler->is_leaving ||
	    task->work.result == -EBADMSG || task->work.result == -EMSGSIZE) {
		give_up(task, &task->work.why);
		return;
	}
	fgt_spooler_note_error(spooler, &task->work.why);
	seconds = WAIT_S(task->tries);
	fgt_log(FGT_LOG_WARNING, "spool_failed",
		"pid %d, '%s' in %llu s, try %u of %d failed: %s",
		task->kept.pid, task->kept.name, (unsigned long long)seconds,
		task->tries, KEEP_TRIES, task->work.why.text);
	fgt_loop_arm(spooler->loop, &task->timer,
		     fgt_loop_now() + seconds * SECOND_NS);
}

/* A delivery has been encoded. context: the spooler. */
void fgt_spooler_keep(void *context, const struct fgt_delivery_kept *kept)
{
	static const struct fgt_why too_much = {
		"too much waits for the spool's disk: check it"
	};
	static const struct fgt_why no_memory = { FGT_NO_MEMORY };
	struct fgt_spooler *spooler = context;
	struct fgt_spool_task *task =
		fgt_spool_task_new(spooler, FGT_SPOOL_WORK_ADD);

	if (!task) {
		count_lost(spooler, kept, &no_memory);
		fgt_fd_close(kept->fd);
		return;
	}
	task->kept = *kept;
	task->work.fd = kept->fd;
	task->work.uid = kept->uid;
	task->work.gid = kept->gid;
	snprintf(task->work.name, sizeof(task->work.name), "%s",
		 kept->configured);
	task->timer =
		(struct fgt_timer){ .expired = keep_again, .context = task };
	task->bytes = fgt_delivery_bytes(kept->fd);
	spooler->kept++;
	spooler->kept_bytes += task->bytes;
	if (spooler->kept > KEPT_MAX || spooler->kept_bytes > KEPT_BYTES)
		give_up(task, &too_much);
	else
		fgt_spool_task_submit(task);
}
