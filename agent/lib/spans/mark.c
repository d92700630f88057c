/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks, counters and labels, and the part of the library that holds the span
 * log. Runs in the program's threads; work on the worker.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/library.h"
#include "agent/lib/settings.h"
#include "agent/lib/spans/spans.h"

/* ---- Records ----------------------------------------------------------- */

static int put(struct fgt_caller *self, struct fgt_span_record *record)
{
	record->tid = self->tid;
	record->begin_ns = fgt_now();
	fgt_journal_put(self, record);
	return 0;
}

int fgt_mark(const char *name)
{
	size_t len = fgt_settings_text_len(name, FGT_SPAN_NAME_MAX);
	struct fgt_span_record record = { .kind = FGT_SPAN_MARK };
	struct fgt_caller *self;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	if (!len)
		return fgt_misuse(-EINVAL, name);
	record.owner = self->task;
	record.text = name;
	record.text_len = (uint8_t)len;
	return put(self, &record);
}

int fgt_counter(const char *name, double value)
{
	size_t len = fgt_settings_text_len(name, FGT_SPAN_NAME_MAX);
	struct fgt_span_record record = { .kind = FGT_SPAN_COUNTER };
	struct fgt_caller *self;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	if (!len || !isfinite(value))
		return fgt_misuse(-EINVAL, name);
	record.value = value;
	record.text = name;
	record.text_len = (uint8_t)len;
	return put(self, &record);
}

int fgt_label(const char *key, const char *value)
{
	size_t key_len = fgt_settings_text_len(key, FGT_LABEL_KEY_MAX);
	struct fgt_span_record record = { .kind = FGT_SPAN_LABEL };
	struct fgt_caller *self;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	if (!key_len || !value)
		return fgt_misuse(-EINVAL, key);
	record.number = fgt_span_innermost(self, &record.track);
	if (!record.number)
		return fgt_misuse(-ENOTCONN, key);
	record.owner = self->task;
	record.key = key;
	record.key_len = (uint8_t)key_len;
	record.text = value;
	record.text_len =
		(uint8_t)fgt_settings_text_len(value, FGT_LABEL_VALUE_MAX);
	return put(self, &record);
}

/* ---- The part ----------------------------------------------------------- */

/* Without a log samples are still recorded. */
static int start(const struct fgt_options *options)
{
	(void)options;
	fgt_journal_resume();
	(void)fgt_journal_open();
	fgt_misuse_started();
	return 0;
}

static void stop(void)
{
	fgt_misuse_stopped();
	fgt_journal_unshare();
}

static uint64_t work(uint64_t now_ns)
{
	(void)now_ns;
	fgt_tasks_rewrite();
	return UINT64_MAX;
}

static void add_status(struct fgt_status *status)
{
	struct fgt_span_log *log = fgt_journal_log();
	struct fgt_span_log_counts counts = { 0 };

	if (log)
		fgt_span_log_get_counts(log, &counts);
	status->spans += fgt_task_table_spans();
	status->spans_lost += counts.lost;
	status->misuses += fgt_misuse_count();
	pthread_mutex_lock(&fgt_task_lock);
	status->active_tasks = fgt_task_table_live();
	pthread_mutex_unlock(&fgt_task_lock);
}

static void forked(void)
{
	fgt_spans_forked();
	fgt_misuse_stopped();
}

const struct fgt_part fgt_span_part = {
	.start = start,
	.stop = stop,
	.work = work,
	.add_status = add_status,
	.forked = forked,
};
