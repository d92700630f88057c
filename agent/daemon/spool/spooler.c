/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leads what is in the spool to its destinations. Runs in the daemon's loop;
 * must not wait for the disk.
 */
#include "agent/daemon/spool/spool_task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/daemon/loop/log.h"
#include "ringbuf/base/clock.h"

#define SECOND_NS    UINT64_C(1000000000)
#define DAY_NS	     (86400 * SECOND_NS)
#define REOPEN_TICKS 10

/* ---- Tasks -------------------------------------------------------------- */

/* NULL without memory. */
struct fgt_spool_task *fgt_spool_task_new(struct fgt_spooler *spooler,
					  enum fgt_spool_work_kind kind)
{
	struct fgt_spool_task *task = calloc(1, sizeof(*task));

	if (!task)
		return NULL;
	task->spooler = spooler;
	fgt_spool_work_init(&task->work, &spooler->store, kind);
	task->work.job.done = fgt_spool_task_done;
	LIST_INSERT_HEAD(&spooler->tasks, task, link);
	return task;
}

void fgt_spool_task_free(struct fgt_spool_task *task)
{
	fgt_loop_disarm(task->spooler->loop, &task->timer);
	LIST_REMOVE(task, link);
	fgt_spool_work_done(&task->work);
	free(task);
}

void fgt_spool_task_submit(struct fgt_spool_task *task)
{
	task->spooler->at_work++;
	fgt_jobs_submit(task->spooler->jobs, &task->work.job);
}

/* The same entry, for something else. */
void fgt_spool_task_resubmit(struct fgt_spool_task *task,
			     enum fgt_spool_work_kind kind)
{
	task->work.kind = kind;
	task->work.result = -ECANCELED;
	task->work.why.text[0] = '\0';
	task->work.event_count = 0;
	fgt_spool_task_submit(task);
}

static void start(struct fgt_spooler *spooler, enum fgt_spool_work_kind kind)
{
	struct fgt_spool_task *task = fgt_spool_task_new(spooler, kind);

	if (task)
		fgt_spool_task_submit(task);
}

/* ---- What happened to entries ------------------------------------------- */

void fgt_spooler_note_error(struct fgt_spooler *spooler,
			    const struct fgt_why *why)
{
	spooler->last_error = *why;
	spooler->last_error_ns = fgt_clock_ns(CLOCK_REALTIME);
}

/* Logs the first of a reason, the second, the fourth and so on. */
static void note_drop(struct fgt_spooler *spooler, enum fgt_spool_drop reason)
{
	static const char *const remedies[FGT_SPOOL_DROPS] = {
		[FGT_SPOOL_FULL] = "raise upload.spool_mb or .spool_files",
		[FGT_SPOOL_DISK_FULL] = "make room on its disk",
		[FGT_SPOOL_OLD] = ("mend its destination, or raise "
				   "upload.spool_days"),
		[FGT_SPOOL_DAMAGED] = "check its disk; see bad/ in it",
	};
	uint64_t count = ++spooler->dropped[reason];
	struct fgt_why why;

	if (reason == FGT_SPOOL_TAKEN)
		return;
	(void)fgt_why_set(&why, 0,
			  "a delivery was dropped (%s, %llu so far): %s",
			  fgt_spool_drop_name(reason),
			  (unsigned long long)count, remedies[reason]);
	fgt_spooler_note_error(spooler, &why);
	if ((count & (count - 1)) == 0)
		fgt_log(FGT_LOG_WARNING, "spool_dropped", "%s: %s",
			spooler->path, why.text);
}

/* What other agents, or damage, took away is not counted. */
static void report_drop(struct fgt_spooler *spooler,
			const struct fgt_spool_event *event)
{
	const struct fgt_backlog_entry *entry =
		fgt_backlog_find(&spooler->backlog, &event->entry.id);

	if (entry && (event->reason == FGT_SPOOL_FULL ||
		      event->reason == FGT_SPOOL_DISK_FULL ||
		      event->reason == FGT_SPOOL_OLD))
		fgt_deliveries_discard(spooler->deliveries, entry->place->name,
				       FGT_DISCARD_CACHE, entry->category);
}

static void apply_events(struct fgt_spooler *spooler,
			 const struct fgt_spool_work *work)
{
	for (size_t i = 0; i < work->event_count; i++) {
		const struct fgt_spool_event *event = &work->events[i];

		if (!event->is_gone) {
			/* Without memory it waits for the next agent. */
			(void)fgt_backlog_add(&spooler->backlog, event->name,
					      &event->entry);
			continue;
		}
		report_drop(spooler, event);
		fgt_backlog_remove(&spooler->backlog, &event->entry.id);
		note_drop(spooler, event->reason);
	}
}

static bool is_ready(void *context)
{
	const struct fgt_spooler *spooler = context;

	return spooler->is_open;
}

static void count(void *context, const char *name,
		  struct fgt_delivery_kept_count *ret_count)
{
	const struct fgt_spooler *spooler = context;
	const struct fgt_backlog_place *place;

	*ret_count = (struct fgt_delivery_kept_count){ .entries = 0 };
	LIST_FOREACH(place, &spooler->backlog.places, link)
		if (strcmp(place->name, name) == 0)
			*ret_count = (struct fgt_delivery_kept_count){
				.entries = place->count,
				.bytes = place->bytes,
				.next_try_ns = place->due_ns,
			};
}

/* ---- Work that is done --------------------------------------------------- */

/* One log line each time the reason changes. */
static void note_state(struct fgt_spooler *spooler,
		       const struct fgt_spool_work *work)
{
	struct fgt_why why = { "" };

	if (work->result < 0 && work->result != -ECANCELED)
		why = work->why;
	if (*why.text)
		fgt_spooler_note_error(spooler, &why);
	if (*why.text && strcmp(why.text, spooler->why.text) != 0)
		fgt_log(FGT_LOG_WARNING, "spool_unusable", "%s", why.text);
	spooler->why = why;
}

static void open_done(struct fgt_spool_task *task)
{
	struct fgt_spooler *spooler = task->spooler;

	note_state(spooler, &task->work);
	if (task->work.result < 0)
		return;
	spooler->is_open = true;
	fgt_log(FGT_LOG_INFO, "spool", "%s: %zu %s", spooler->path,
		task->work.event_count,
		task->work.event_count == 1 ? "delivery waits"
					    : "deliveries wait");
}

static void look_done(struct fgt_spool_task *task)
{
	struct fgt_spooler *spooler = task->spooler;

	note_state(spooler, &task->work);
	if (!task->work.is_flush_wanted)
		return;
	fgt_log(FGT_LOG_INFO, "spool_flush", "%s: all that waits is sent now",
		spooler->path);
	fgt_backlog_flush(&spooler->backlog);
}

void fgt_spool_task_done(void *context)
{
	struct fgt_spool_task *task = context;
	struct fgt_spooler *spooler = task->spooler;

	spooler->at_work--;
	apply_events(spooler, &task->work);
	switch (task->work.kind) {
	case FGT_SPOOL_WORK_ADD:
		fgt_spooler_add_done(task);
		break;
	case FGT_SPOOL_WORK_HOLD:
		fgt_spooler_hold_done(task);
		break;
	case FGT_SPOOL_WORK_OPEN:
		open_done(task);
		fgt_spool_task_free(task);
		break;
	case FGT_SPOOL_WORK_LOOK:
		look_done(task);
		fgt_spool_task_free(task);
		break;
	default:
		if (task->work.result < 0 && task->work.result != -ENOENT)
			note_state(spooler, &task->work);
		fgt_spool_task_free(task);
	}
	fgt_spooler_send_next(spooler);
}

static void tick(void *context)
{
	struct fgt_spooler *spooler = context;

	spooler->is_paused = false;
	if (!spooler->is_open && spooler->ticks++ % REOPEN_TICKS == 0)
		start(spooler, FGT_SPOOL_WORK_OPEN);
	else if (spooler->is_open && spooler->at_work == 0)
		start(spooler, FGT_SPOOL_WORK_LOOK);
	fgt_spooler_send_next(spooler);
	fgt_loop_arm(spooler->loop, &spooler->tick, fgt_loop_now() + SECOND_NS);
}

/* ---- All of it ---------------------------------------------------------- */

static int set_up(struct fgt_spooler *spooler, const struct fgt_config *config)
{
	spooler->path = strdup(config->upload.spool_dir);
	if (!spooler->path)
		return -ENOMEM;
	spooler->store.options = (struct fgt_spool_options){
		.path = spooler->path,
		.max_bytes = (uint64_t)config->upload.spool_mb << 20,
		.max_entries = (size_t)config->upload.spool_files,
		.max_age_ns = (uint64_t)config->upload.spool_days * DAY_NS,
	};
	return fgt_jobs_new(spooler->loop, &spooler->jobs);
}

int fgt_spooler_new(struct fgt_loop *loop, struct fgt_deliveries *deliveries,
		    const struct fgt_config *config,
		    struct fgt_spooler **ret_spooler)
{
	struct fgt_spooler *spooler = calloc(1, sizeof(*spooler));
	int r = 0;

	if (!spooler)
		return -ENOMEM;
	spooler->loop = loop;
	spooler->deliveries = deliveries;
	spooler->tick =
		(struct fgt_timer){ .expired = tick, .context = spooler };
	spooler->keeper =
		(struct fgt_delivery_keeper){ .is_ready = is_ready,
					      .keep = fgt_spooler_keep,
					      .count = count,
					      .context = spooler };
	LIST_INIT(&spooler->tasks);
	fgt_backlog_init(&spooler->backlog);
	if (config->upload.spool_dir)
		r = set_up(spooler, config);
	if (r < 0) {
		fgt_spooler_free(spooler);
		return r;
	}
	if (spooler->jobs) {
		fgt_deliveries_set_keeper(deliveries, &spooler->keeper);
		fgt_spooler_configure(spooler, config);
		tick(spooler);
	}
	*ret_spooler = spooler;
	return 0;
}

void fgt_spooler_free(struct fgt_spooler *spooler)
{
	if (!spooler)
		return;
	spooler->is_leaving = true;
	spooler->is_open = false;
	fgt_loop_disarm(spooler->loop, &spooler->tick);
	fgt_jobs_free(spooler->jobs);
	while (!LIST_EMPTY(&spooler->tasks))
		fgt_spool_task_free(LIST_FIRST(&spooler->tasks));
	fgt_backlog_done(&spooler->backlog);
	fgt_spool_close(spooler->store.spool);
	free(spooler->path);
	free(spooler);
}

void fgt_spooler_configure(struct fgt_spooler *spooler,
			   const struct fgt_config *config)
{
	fgt_backlog_know_none(&spooler->backlog);
	for (size_t i = 0; i < config->upload.destination_count; i++)
		if (fgt_backlog_know(&spooler->backlog,
				     config->upload.destinations[i].name) < 0)
			fgt_log(FGT_LOG_ERROR, "spool", "%s", FGT_NO_MEMORY);
	fgt_spooler_send_next(spooler);
}

void fgt_spooler_leave(struct fgt_spooler *spooler)
{
	struct fgt_spool_task *task, *next;

	spooler->is_leaving = true;
	fgt_loop_disarm(spooler->loop, &spooler->tick);
	for (task = LIST_FIRST(&spooler->tasks); task; task = next) {
		next = LIST_NEXT(task, link);
		if (task->timer.is_armed) {
			fgt_loop_disarm(spooler->loop, &task->timer);
			fgt_spool_task_resubmit(task, FGT_SPOOL_WORK_ADD);
		}
	}
}

bool fgt_spooler_is_idle(const struct fgt_spooler *spooler)
{
	return spooler->at_work == 0;
}

/* ---- Status -------------------------------------------------------------- */

static uint64_t oldest_ns(const struct fgt_spooler *spooler)
{
	uint64_t oldest = UINT64_MAX, now_ns = fgt_clock_ns(CLOCK_REALTIME);
	const struct fgt_backlog_place *place;

	LIST_FOREACH(place, &spooler->backlog.places, link) {
		const struct fgt_backlog_entry *entry;

		TAILQ_FOREACH(entry, &place->entries, link)
			if (entry->created_ns < oldest)
				oldest = entry->created_ns;
	}
	return oldest < now_ns ? now_ns - oldest : 0;
}

void fgt_spooler_put(const struct fgt_spooler *spooler,
		     struct fgt_builder *builder)
{
	const struct fgt_backlog_place *place;
	uint64_t entries = 0, bytes = 0;
	char key[40];

	LIST_FOREACH(place, &spooler->backlog.places, link) {
		entries += place->count;
		bytes += place->bytes;
	}
	fgt_builder_string(builder, "spool_dir",
			   spooler->path ? spooler->path : "");
	fgt_builder_string(builder, "spool_unusable", spooler->why.text);
	fgt_builder_uint(builder, "spool_entries", entries);
	fgt_builder_uint(builder, "spool_bytes", bytes);
	fgt_builder_uint(builder, "spool_oldest_ns", oldest_ns(spooler));
	fgt_builder_uint(builder, "spool_spooled", spooler->spooled);
	fgt_builder_uint(builder, "spool_delivered", spooler->delivered);
	fgt_builder_uint(builder, "spool_failed", spooler->failed);
	fgt_builder_uint(builder, "spool_unwritten", spooler->kept);
	fgt_builder_string(builder, "spool_last_error",
			   spooler->last_error.text);
	fgt_builder_uint(builder, "spool_last_error_ns",
			 spooler->last_error_ns);
	fgt_builder_uint(builder, "spool_dropped_unwritten",
			 spooler->unwritten);
	for (int i = 0; i < FGT_SPOOL_DROPS; i++) {
		snprintf(key, sizeof(key), "spool_dropped_%s",
			 fgt_spool_drop_name((enum fgt_spool_drop)i));
		fgt_builder_uint(builder, key, spooler->dropped[i]);
	}
}
