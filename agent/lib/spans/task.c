/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks: begin, end, enter. Runs in the program's threads; must not hold the
 * lock while anything waits.
 */
#include <errno.h>
#include <string.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/settings.h"
#include "agent/lib/spans/spans.h"
#include "agent/lib/spans/task_names.h"

/* A chain of ended ancestors is no longer than this. */
#define ANCESTORS_MAX FGT_TASK_SLOTS

size_t fgt_name_len(const char *name)
{
	size_t len = fgt_settings_text_len(name, FGT_SPAN_NAME_MAX);

	return len && !memchr(name, '#', len) ? len : 0;
}

/* ---- Under the lock ----------------------------------------------------- */

/* A task, or its nearest ancestor that lives. 0: none. */
static uint64_t find_living(uint64_t task)
{
	for (uint32_t i = 0; task && i < ANCESTORS_MAX; i++) {
		struct fgt_task_slot *slot = fgt_task_slot(task);
		uint64_t word;

		if (fgt_task_find(task, &word))
			return task;
		/* Another task has its slot: the parent is unknown. */
		if (!slot || atomic_load_explicit(&slot->task,
						  memory_order_relaxed) != task)
			return 0;
		task = atomic_load_explicit(&slot->parent,
					    memory_order_relaxed);
	}
	return 0;
}

static struct fgt_task_body *body_of(uint64_t task)
{
	return atomic_load_explicit(&fgt_task_slot(task)->body,
				    memory_order_relaxed);
}

static void fill_body(struct fgt_task_body *body,
		      const struct fgt_task_name *name)
{
	uint64_t words[FGT_UNIQUE_NAME_WORDS] = { 0 };

	memcpy(words, name->text, name->len);
	for (uint32_t i = 0; i < FGT_UNIQUE_NAME_WORDS; i++)
		atomic_store_explicit(&body->name[i], words[i],
				      memory_order_relaxed);
	atomic_store_explicit(&body->about,
			      (uint64_t)name->track << 32 | name->len,
			      memory_order_relaxed);
	body->name_entry = name->entry;
	body->name_n = name->n;
	body->children = 0;
}

/* Makes the task alive. Returns its number. */
static uint64_t give_number(uint32_t index, uint64_t parent,
			    struct fgt_task_body *body)
{
	struct fgt_task_slot *slot = fgt_task_slot((uint64_t)index << 1);
	uint64_t serial =
		(atomic_load_explicit(&slot->word, memory_order_relaxed) &
		 FGT_NUMBER_SERIAL_MASK) +
		FGT_NUMBER_SERIAL_ONE;
	uint64_t task = serial | (uint64_t)index << 1;

	atomic_store_explicit(&slot->body, body, memory_order_relaxed);
	atomic_store_explicit(&slot->parent, parent, memory_order_relaxed);
	atomic_store_explicit(&slot->task, task, memory_order_release);
	/* Release: pairs with the acquire in fgt_task_find(). */
	atomic_store_explicit(&slot->word, serial | FGT_TASK_LIVE,
			      memory_order_release);
	return task;
}

static void fill_record(struct fgt_span_record *record, uint64_t task,
			const struct fgt_task_body *body, char *ret_name)
{
	uint64_t about =
		atomic_load_explicit(&body->about, memory_order_relaxed);

	fgt_task_read_name(body, ret_name);
	*record = (struct fgt_span_record){
		.kind = FGT_SPAN_TASK_BEGIN,
		.tid = body->tid,
		.number = task,
		.owner = atomic_load_explicit(&fgt_task_slot(task)->parent,
					      memory_order_relaxed),
		.track = (uint32_t)(about >> 32),
		.parent_track = body->parent_track,
		.begin_ns = body->begin_ns,
		.text = ret_name,
		.text_len = (uint8_t)about,
	};
}

static int begin(struct fgt_caller *self, const char *name, size_t len,
		 uint64_t parent, uint64_t *ret_task)
{
	struct fgt_task_name unique;
	struct fgt_task_body *body;
	uint32_t slot;
	int r = fgt_task_name_take(name, len, &unique);

	if (r < 0)
		return r;
	r = fgt_task_table_take(&slot, &body);
	if (r < 0) {
		fgt_task_name_release(unique.entry, unique.n);
		return r;
	}
	parent = find_living(parent ? parent : self->task);
	fill_body(body, &unique);
	body->tid = self->tid;
	body->previous = self->task;
	body->begin_ns = fgt_now();
	body->parent_track = 0;
	if (parent) {
		body->parent_track = fgt_task_track(body_of(parent));
		body_of(parent)->children++;
	}
	*ret_task = give_number(slot, parent, body);
	return 0;
}

/* 0: it has ended now; 1: it had ended before. */
static int end(uint64_t task, struct fgt_task_body **ret_body)
{
	uint64_t word = 0, parent;
	struct fgt_task_slot *slot;

	do {
		slot = fgt_task_find(task, &word);
		if (!slot)
			return fgt_number_was_given(task) ? 1 : -EINVAL;
		*ret_body = body_of(task);
		if (fgt_word_depth(word) || (*ret_body)->children)
			return -ENOTEMPTY;
		/* Fails if a span begins at this moment. */
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->word, &word, word & ~FGT_TASK_LIVE, memory_order_acq_rel,
		memory_order_relaxed));
	fgt_task_name_release((*ret_body)->name_entry, (*ret_body)->name_n);
	parent = atomic_load_explicit(&slot->parent, memory_order_relaxed);
	if (parent)
		body_of(parent)->children--;
	fgt_task_table_release(fgt_number_slot(task));
	return 0;
}

/* ---- The interface ------------------------------------------------------ */

int fgt_task_begin(const char *name, uint64_t parent, uint64_t *ret_task)
{
	size_t len = fgt_name_len(name);
	struct fgt_span_record record = { 0 };
	char unique[FGT_SPAN_UNIQUE_MAX];
	struct fgt_caller *self;
	uint64_t task = 0;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	if (!len || !ret_task || fgt_number_is_span(parent) ||
	    (parent && !fgt_number_was_given(parent)))
		return fgt_misuse(-EINVAL, name);
	pthread_mutex_lock(&fgt_task_lock);
	r = begin(self, name, len, parent, &task);
	if (r == 0)
		fill_record(&record, task, body_of(task), unique);
	pthread_mutex_unlock(&fgt_task_lock);
	if (r < 0)
		return r;
	fgt_journal_put(self, &record);
	self->task = task;
	*ret_task = task;
	return 0;
}

int fgt_task_end(uint64_t task)
{
	struct fgt_span_record record = { 0 };
	char unique[FGT_SPAN_UNIQUE_MAX];
	struct fgt_task_body *body;
	struct fgt_caller *self;
	uint64_t previous = 0;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	if (fgt_number_is_span(task))
		return fgt_misuse(-EINVAL, NULL);
	pthread_mutex_lock(&fgt_task_lock);
	r = end(task, &body);
	if (r == 0) {
		fill_record(&record, task, body, unique);
		previous = find_living(body->previous);
	}
	pthread_mutex_unlock(&fgt_task_lock);
	if (r != 0)
		return r > 0 ? 0 : fgt_misuse(r, NULL);
	record.kind = FGT_SPAN_TASK_END;
	record.end_ns = fgt_now();
	fgt_journal_put(self, &record);
	if (self->task == task)
		self->task = previous;
	return 0;
}

int fgt_task_enter(uint64_t task)
{
	struct fgt_caller *self;
	uint64_t word;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	if (task && (fgt_number_is_span(task) || !fgt_task_find(task, &word)))
		return fgt_misuse(-EINVAL, NULL);
	self->task = task;
	return 0;
}

/* ---- Rewriting ------------------------------------------------------ */

/* One span of a task. False if the spans of the task change meanwhile. */
static bool copy_span(struct fgt_task_slot *slot, struct fgt_task_body *body,
		      uint32_t depth, struct fgt_span_record *ret_record,
		      uint64_t ret_name[FGT_SPAN_NAME_WORDS])
{
	struct fgt_span_place *place = &body->places[depth];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
	uint64_t about;

	if (fgt_word_depth(word) <= depth)
		return false;
	*ret_record = (struct fgt_span_record){
		.kind = FGT_SPAN_BEGIN,
		.number = atomic_load_explicit(&place->number,
					       memory_order_acquire),
		.begin_ns = atomic_load_explicit(&place->begin_ns,
						 memory_order_acquire),
		.text = (const char *)ret_name,
		.track = fgt_task_track(body),
	};
	about = atomic_load_explicit(&place->about, memory_order_acquire);
	ret_record->tid = (int32_t)(uint32_t)about;
	ret_record->text_len = (uint8_t)(about >> 32);
	for (uint32_t i = 0; i < FGT_SPAN_NAME_WORDS; i++)
		ret_name[i] = atomic_load_explicit(&place->name[i],
						   memory_order_acquire);
	/* A place whose span has just begun may still hold the span before,
	 * which has ended. That is harmless: its end is in the log. */
	return fgt_number_is_span(ret_record->number) &&
	       fgt_number_depth(ret_record->number) == depth &&
	       fgt_task_slot(ret_record->number) == slot &&
	       atomic_load_explicit(&slot->word, memory_order_acquire) == word;
}

static void rewrite_one(struct fgt_caller *self, uint32_t index)
{
	struct fgt_span_record record;
	uint64_t span_name[FGT_SPAN_NAME_WORDS];
	char name[FGT_SPAN_UNIQUE_MAX];
	struct fgt_task_body *body;
	struct fgt_task_slot *slot;
	uint64_t task;
	uint32_t at;

	body = fgt_task_table_at(index, &at);
	if (!body)
		return;
	slot = fgt_task_slot((uint64_t)at << 1);
	task = atomic_load_explicit(&slot->task, memory_order_relaxed);
	fill_record(&record, task, body, name);
	record.is_again = true;
	fgt_journal_put(self, &record);
	for (uint32_t depth = 0; depth < FGT_SPAN_DEPTH_MAX; depth++) {
		if (!copy_span(slot, body, depth, &record, span_name))
			break;
		record.owner = task;
		record.is_again = true;
		fgt_journal_put(self, &record);
	}
}

void fgt_tasks_rewrite(void)
{
	static uint64_t written;
	struct fgt_span_log *log = fgt_journal_log();
	struct fgt_caller *self;
	uint64_t halves;

	if (!log || fgt_caller_get(&self) < 0)
		return;
	halves = fgt_span_log_halves(log) + 1;
	if (halves == written)
		return;
	written = halves;
	/* The lock is held for one task at a time. */
	for (uint32_t i = 0; i < FGT_TASKS_MAX; i++) {
		pthread_mutex_lock(&fgt_task_lock);
		rewrite_one(self, i);
		pthread_mutex_unlock(&fgt_task_lock);
	}
}
