/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans: begin, end, ids for log lines. Runs in the program's threads. Must not
 * take a lock or make a system call. task_table.h describes the ownership.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/spans/spans.h"

#define CALLS_MAX 8

/* Tasks in a line of ids; the nearest ancestors are kept. */
#define IDS_MAX 64

struct end_call {
	void (*call)(void *context, const struct fgt_span_end *end);
	void *context;
};

static struct {
	pthread_mutex_t lock; /* of threads that add. Innermost */
	struct end_call calls[CALLS_MAX];
	/* Release after the call is written, acquire before it is used. */
	_Atomic uint32_t count;
} at_end = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The task in which a span begins or ends, while the word is unchanged. */
struct where {
	struct fgt_task_slot *slot;
	uint64_t word;
	struct fgt_task_body *body;
	uint64_t task;
};

/* Copy of a span's place. */
struct span {
	uint64_t number, begin_ns, about;
	uint64_t name[FGT_SPAN_NAME_WORDS];
};

static uint64_t load(const _Atomic uint64_t *word)
{
	/* Acquire: the slot's word is read again after this. */
	return atomic_load_explicit((_Atomic uint64_t *)word,
				    memory_order_acquire);
}

static void set_where(struct where *where, struct fgt_task_slot *slot,
		      uint64_t word)
{
	where->slot = slot;
	where->word = word;
	where->body = atomic_load_explicit(&slot->body, memory_order_acquire);
	where->task = load(&slot->task);
}

/* The task of an active span. False: it has ended or never existed. */
static bool find_span(uint64_t number, struct where *ret_where)
{
	struct fgt_task_slot *slot = fgt_task_slot(number);
	uint32_t depth = fgt_number_depth(number);
	uint64_t word;

	if (!slot)
		return false;
	word = load(&slot->word);
	if (!(word & FGT_TASK_LIVE) || fgt_word_depth(word) <= depth)
		return false;
	set_where(ret_where, slot, word);
	return load(&ret_where->body->places[depth].number) == number;
}

static bool change_word(const struct where *where, uint64_t word)
{
	uint64_t expected = where->word;

	/* Release: what was done in the span comes before its end. Acquire:
	 * the place is written only after it is owned. */
	return atomic_compare_exchange_strong_explicit(
		&where->slot->word, &expected, word, memory_order_acq_rel,
		memory_order_relaxed);
}

/* ---- Begin -------------------------------------------------------------- */

static int find_parent(const struct fgt_caller *self, uint64_t parent,
		       struct where *ret_where)
{
	struct fgt_task_slot *slot;
	uint64_t word = 0;

	if (fgt_number_is_span(parent)) {
		if (!find_span(parent, ret_where))
			return -EINVAL;
		word = ret_where->word;
		return fgt_word_depth(word) == fgt_number_depth(parent) + 1
			       ? 0
			       : -EALREADY;
	}
	slot = fgt_task_find(parent ? parent : self->task, &word);
	if (!slot)
		return parent ? -EINVAL : -ENOTCONN;
	if (parent && fgt_word_depth(word))
		return -EALREADY;
	set_where(ret_where, slot, word);
	return 0;
}

/* Writes the span to the place that this thread owns by the word. */
static void fill_place(struct fgt_span_place *place, uint64_t number,
		       uint64_t begin_ns, uint64_t about, const char *name,
		       size_t len)
{
	_Atomic uint64_t *words = place->name;

	atomic_store_explicit(&place->begin_ns, begin_ns, memory_order_relaxed);
	atomic_store_explicit(&place->about, about, memory_order_relaxed);
	for (size_t at = 0; at < len; at += 8)
		atomic_store_explicit(words++, fgt_text_word(name, len, at),
				      memory_order_relaxed);
	/* Release: a thread that sees the number sees the rest. */
	atomic_store_explicit(&place->number, number, memory_order_release);
}

static void write_begin(struct fgt_caller *self, const struct where *where,
			uint64_t number, const char *name, size_t len)
{
	uint64_t begin_ns = fgt_now();
	uint64_t calls =
		atomic_load_explicit(&at_end.count, memory_order_acquire);
	struct fgt_span_record record = {
		.kind = FGT_SPAN_BEGIN,
		.tid = self->tid,
		.number = number,
		.owner = where->task,
		.track = fgt_task_track(where->body),
		.begin_ns = begin_ns,
		.text = name,
		.text_len = (uint8_t)len,
	};

	fill_place(&where->body->places[fgt_number_depth(number)], number,
		   begin_ns,
		   calls << 40 | (uint64_t)len << 32 | (uint32_t)self->tid,
		   name, len);
	fgt_journal_put(self, &record);
}

int fgt_span_begin(const char *name, uint64_t parent, uint64_t *ret_span)
{
	size_t len = fgt_name_len(name);
	struct where where;
	struct fgt_caller *self;
	uint64_t serial, depth, number;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	if (!len)
		return fgt_misuse(-EINVAL, name);
	do {
		r = find_parent(self, parent, &where);
		if (r < 0)
			return fgt_misuse(r, name);
		depth = fgt_word_depth(where.word);
		if (depth == FGT_SPAN_DEPTH_MAX)
			return -ENOSPC;
	} while (!change_word(&where, where.word + FGT_NUMBER_SERIAL_ONE +
					      FGT_TASK_DEPTH));
	serial = (where.word & FGT_NUMBER_SERIAL_MASK) + FGT_NUMBER_SERIAL_ONE;
	number = serial | depth << (1 + FGT_NUMBER_SLOT_BITS) |
		 (where.task & ((FGT_TASK_SLOTS - 1) << 1)) | 1;
	write_begin(self, &where, number, name, len);
	if (ret_span)
		*ret_span = number;
	return 0;
}

/* ---- End ---------------------------------------------------------------- */

/* 0, or 1: it has ended before. */
static int find_end(const struct fgt_caller *self, uint64_t number,
		    struct where *ret_where)
{
	struct fgt_task_slot *slot;
	uint64_t word = 0;

	if (number) {
		if (!fgt_number_is_span(number))
			return -EINVAL;
		if (!find_span(number, ret_where))
			return fgt_number_was_given(number) ? 1 : -EINVAL;
		return fgt_word_depth(ret_where->word) ==
				       fgt_number_depth(number) + 1
			       ? 0
			       : -EBUSY;
	}
	slot = fgt_task_find(self->task, &word);
	if (!slot || !fgt_word_depth(word))
		return -ENOTCONN;
	set_where(ret_where, slot, word);
	return 0;
}

/* Valid if the word has not changed afterwards. */
static void read_place(const struct where *where, struct span *ret_span)
{
	const struct fgt_span_place *place =
		&where->body->places[fgt_word_depth(where->word) - 1];
	size_t count;

	ret_span->number = load(&place->number);
	ret_span->begin_ns = load(&place->begin_ns);
	ret_span->about = load(&place->about);
	count = ((ret_span->about >> 32 & 255) + 7) / 8;
	if (count > FGT_SPAN_NAME_WORDS)
		count = 0;
	for (size_t i = 0; i < count; i++)
		ret_span->name[i] = load(&place->name[i]);
}

/* Calls the functions that were registered when the span began. */
static void call_back(const struct span *span, uint64_t end_ns,
		      const char *task)
{
	size_t len = span->about >> 32 & 255, count = span->about >> 40;
	char name[FGT_SPAN_NAME_MAX + 1];
	const struct fgt_span_end end = { .name = name,
					  .task = task,
					  .begin_ns = span->begin_ns,
					  .end_ns = end_ns };

	if (len > FGT_SPAN_NAME_MAX || count > CALLS_MAX)
		return;
	memcpy(name, span->name, len);
	name[len] = 0;
	for (size_t i = 0; i < count; i++)
		at_end.calls[i].call(at_end.calls[i].context, &end);
}

static void write_end(struct fgt_caller *self, const struct where *where,
		      uint32_t track, const struct span *span, uint64_t end_ns)
{
	const struct fgt_span_record record = {
		.kind = FGT_SPAN_END,
		.tid = (int32_t)(uint32_t)span->about,
		.number = span->number,
		.owner = where->task,
		.track = track,
		.begin_ns = span->begin_ns,
		.end_ns = end_ns,
		.text = (const char *)span->name,
		.text_len = (uint8_t)(span->about >> 32),
	};

	fgt_journal_put(self, &record);
}

int fgt_span_end(uint64_t span)
{
	char task[FGT_SPAN_UNIQUE_MAX + 1];
	uint64_t end_ns = fgt_now();
	struct where where;
	struct span ended;
	struct fgt_caller *self;
	uint32_t track;
	int r = fgt_caller_get(&self);

	if (r < 0)
		return r;
	do {
		r = find_end(self, span, &where);
		if (r != 0)
			return r > 0 ? 0 : fgt_misuse(r, NULL);
		read_place(&where, &ended);
		track = fgt_task_track(where.body);
		if (ended.about >> 40)
			fgt_task_read_name(where.body, task);
	} while (!change_word(&where, where.word - FGT_TASK_DEPTH));
	write_end(self, &where, track, &ended, end_ns);
	task[FGT_SPAN_UNIQUE_MAX] = '\0';
	if (ended.about >> 40)
		call_back(&ended, end_ns, task);
	return 0;
}

int fgt_on_span_end(void (*call)(void *context, const struct fgt_span_end *end),
		    void *context)
{
	uint32_t count;
	int r = 0;

	if (!call)
		return -EINVAL;
	pthread_mutex_lock(&at_end.lock);
	count = atomic_load_explicit(&at_end.count, memory_order_relaxed);
	if (count == CALLS_MAX) {
		r = -ENOSPC;
	} else {
		at_end.calls[count] =
			(struct end_call){ .call = call, .context = context };
		atomic_store_explicit(&at_end.count, count + 1,
				      memory_order_release);
	}
	pthread_mutex_unlock(&at_end.lock);
	return r;
}

void fgt_spans_forked(void)
{
	/* A thread of the parent may have been adding a call. */
	pthread_mutex_init(&at_end.lock, NULL);
}

/* ---- Ids -------------------------------------------------------------- */

uint64_t fgt_span_innermost(const struct fgt_caller *self, uint32_t *ret_track)
{
	uint64_t word = 0, number;
	struct fgt_task_slot *slot = fgt_task_find(self->task, &word);
	struct where where;

	if (!slot || !fgt_word_depth(word))
		return 0;
	set_where(&where, slot, word);
	number = load(&where.body->places[fgt_word_depth(word) - 1].number);
	*ret_track = fgt_task_track(where.body);
	return load(&slot->word) == word ? number : 0;
}

/* A text that may grow beyond its size, as in snprintf(3). */
struct id_line {
	char *text;
	size_t size, len;
};

static void put_id(struct id_line *line, char separator, uint64_t number)
{
	char id[FGT_NUMBER_TEXT_SIZE + 1];
	size_t len = fgt_number_text(number, id + 1) + 1, at = 0;

	id[0] = separator;
	if (!line->len)
		at = 1; /* no separator before the first id */
	for (; at < len; at++, line->len++)
		if (line->len + 1 < line->size)
			line->text[line->len] = id[at];
}

static void put_tasks(struct id_line *line, uint64_t task)
{
	uint64_t tasks[IDS_MAX], word;
	uint32_t count = 0;

	/* Ancestors of a live task are live. */
	while (count < IDS_MAX && task && fgt_task_find(task, &word)) {
		tasks[count++] = task;
		task = load(&fgt_task_slot(task)->parent);
	}
	while (count)
		put_id(line, '$', tasks[--count]);
}

static void put_spans(struct id_line *line, uint64_t task)
{
	uint64_t word = 0;
	struct fgt_task_slot *slot = fgt_task_find(task, &word);
	struct where where;

	if (!slot)
		return;
	set_where(&where, slot, word);
	for (uint32_t i = 0; i < fgt_word_depth(word); i++)
		put_id(line, i ? '.' : '$',
		       load(&where.body->places[i].number));
}

int fgt_span_ids(char *ret_text, size_t len)
{
	struct id_line line = { .text = ret_text, .size = len };
	struct fgt_caller *self;

	if (!ret_text && len)
		return -EINVAL;
	if (fgt_caller_get(&self) == 0) {
		put_tasks(&line, self->task);
		put_spans(&line, self->task);
	}
	if (!line.len)
		return snprintf(ret_text, len, "NOSPAN");
	if (len)
		ret_text[line.len < len ? line.len : len - 1] = 0;
	return (int)line.len;
}
