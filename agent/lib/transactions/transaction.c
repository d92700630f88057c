/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a program on one transaction. Runs in the program's threads.
 * Must not wait or print, and must not fail the program.
 */
#include "agent/lib/transactions/transaction.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/settings.h"
#include "agent/lib/spans/journal.h"

/* In the calling thread: that it begins to work for the transaction, or that
 * the ids are others, if it does. */
static void show_trace(const struct fgt_transaction *transaction, bool is_begun)
{
	const struct fgt_transaction_facts *facts = &transaction->facts;
	uint8_t ids[FGT_THREAD_TRACE_IDS];
	struct fgt_caller *self;

	if (fgt_caller_get(&self) < 0)
		return;
	fgt_trace_id_bytes(facts->trace_id, FGT_TRACE_ID_DIGITS, ids);
	fgt_trace_id_bytes(facts->span_id, FGT_SPAN_ID_DIGITS,
			   ids + FGT_TRACE_ID_DIGITS / 2);
	if (is_begun)
		fgt_thread_trace_enter(&self->trace, transaction, ids);
	else
		fgt_thread_trace_change(self->trace, transaction, ids);
}

static void set_facts(struct fgt_transaction *transaction)
{
	struct fgt_transaction_facts *facts = &transaction->facts;

	facts->name = transaction->name;
	facts->op = transaction->op;
	facts->status = transaction->status;
	facts->active_tid = fgt_caller_tid();
	facts->begin_ns = fgt_now();
	transaction->own = (struct fgt_thread_run){
		.tid = facts->active_tid,
		.from_ns = facts->begin_ns,
	};
	transaction->thread_runs = &transaction->own;
	transaction->thread_run_count = 1;
	fgt_trace_id_make(facts->trace_id, FGT_TRACE_ID_DIGITS);
	fgt_trace_id_make(facts->span_id, FGT_SPAN_ID_DIGITS);
}

struct fgt_transaction *fgt_transaction_begin(const char *name, const char *op)
{
	uint64_t session = fgt_transactions_session();
	struct fgt_transaction *transaction;

	if (!session || !name)
		return NULL;
	transaction = malloc(sizeof(*transaction));
	if (!transaction)
		return NULL;
	memset(transaction, 0, offsetof(struct fgt_transaction, name));
	transaction->session = session;
	pthread_mutex_init(&transaction->lock, NULL);
	fgt_settings_copy_text(transaction->name, sizeof(transaction->name),
			       name);
	fgt_settings_copy_text(transaction->op, sizeof(transaction->op),
			       op && *op ? op : "default");
	strcpy(transaction->status, "ok");
	set_facts(transaction);
	show_trace(transaction, true);
	return transaction;
}

void fgt_transaction_free(struct fgt_transaction *transaction)
{
	if (!transaction)
		return;
	for (size_t i = 0; i < transaction->facts.tag_count; i++)
		free((char *)(uintptr_t)transaction->tags[i].key);
	free(transaction->tags);
	if (transaction->thread_runs != &transaction->own)
		free(transaction->thread_runs);
	pthread_mutex_destroy(&transaction->lock);
	free(transaction);
}

int fgt_transaction_set_name(struct fgt_transaction *transaction,
			     const char *name)
{
	if (!transaction)
		return 0;
	if (!name)
		return -EINVAL;
	fgt_settings_copy_text(transaction->name, sizeof(transaction->name),
			       name);
	return 0;
}

int fgt_transaction_set_status(struct fgt_transaction *transaction,
			       const char *status)
{
	if (!transaction)
		return 0;
	if (!status || !*status)
		return -EINVAL;
	fgt_settings_copy_text(transaction->status, sizeof(transaction->status),
			       status);
	return 0;
}

int fgt_transaction_set_parent(struct fgt_transaction *transaction,
			       const char *header)
{
	struct fgt_transaction_facts *facts;
	int r;

	if (!transaction)
		return 0;
	if (!header)
		return -EINVAL;
	facts = &transaction->facts;
	pthread_mutex_lock(&transaction->lock);
	r = fgt_trace_id_parse(header, facts->trace_id, facts->parent_span_id);
	if (r == 0)
		show_trace(transaction, false);
	pthread_mutex_unlock(&transaction->lock);
	return r;
}

int fgt_transaction_get_trace(const struct fgt_transaction *transaction,
			      char *ret_text, size_t len)
{
	const struct fgt_transaction_facts *facts;

	if (!transaction)
		return 0;
	if (!ret_text)
		return -EINVAL;
	if (len < FGT_TRACE_ID_DIGITS + 1 + FGT_SPAN_ID_DIGITS + 1)
		return -ENOBUFS;
	facts = &transaction->facts;
	memcpy(ret_text, facts->trace_id, FGT_TRACE_ID_DIGITS);
	ret_text[FGT_TRACE_ID_DIGITS] = '-';
	memcpy(ret_text + FGT_TRACE_ID_DIGITS + 1, facts->span_id,
	       FGT_SPAN_ID_DIGITS + 1);
	return FGT_TRACE_ID_DIGITS + 1 + FGT_SPAN_ID_DIGITS;
}

/* ---- Tags -------------------------------------------------------------- */

static int new_tag(const char *key, const char *value, struct fgt_tag *ret_tag)
{
	char short_key[FGT_TAG_KEY_MAX + 1], short_value[FGT_TAG_VALUE_MAX + 1];
	size_t key_size, value_size;
	char *block;

	fgt_settings_copy_text(short_key, sizeof(short_key), key);
	fgt_settings_copy_text(short_value, sizeof(short_value), value);
	key_size = strlen(short_key) + 1;
	value_size = strlen(short_value) + 1;
	block = malloc(key_size + value_size);
	if (!block)
		return -ENOMEM;
	memcpy(block, short_key, key_size);
	memcpy(block + key_size, short_value, value_size);
	*ret_tag = (struct fgt_tag){ block, block + key_size };
	return 0;
}

/* Most transactions have no tags. */
static int make_tags(struct fgt_transaction *transaction)
{
	if (transaction->tags)
		return 0;
	transaction->tags = calloc(FGT_TAGS_MAX, sizeof(*transaction->tags));
	transaction->facts.tags = transaction->tags;
	return transaction->tags ? 0 : -ENOMEM;
}

int fgt_transaction_set_tag(struct fgt_transaction *transaction,
			    const char *key, const char *value)
{
	struct fgt_tag tag;
	size_t i = 0;
	int r;

	if (!transaction)
		return 0;
	if (!key || !*key || !value)
		return -EINVAL;
	r = make_tags(transaction);
	if (r == 0)
		r = new_tag(key, value, &tag);
	if (r < 0)
		return r;
	while (i < transaction->facts.tag_count &&
	       strcmp(transaction->tags[i].key, tag.key) != 0)
		i++;
	if (i == FGT_TAGS_MAX) {
		free((char *)(uintptr_t)tag.key);
		return -ENOSPC;
	}
	if (i == transaction->facts.tag_count)
		transaction->facts.tag_count++;
	else
		free((char *)(uintptr_t)transaction->tags[i].key);
	transaction->tags[i] = tag;
	return 0;
}

/* ---- Threads ----------------------------------------------------------- */

/* The last run of the calling thread, or NULL. Under the lock. */
static struct fgt_thread_run *
find_thread_run(struct fgt_transaction *transaction)
{
	int32_t tid = fgt_caller_tid();

	for (size_t i = transaction->thread_run_count; i-- > 0;)
		if (transaction->thread_runs[i].tid == tid)
			return &transaction->thread_runs[i];
	return NULL;
}

/* Most transactions have one run only. */
static int make_thread_runs(struct fgt_transaction *transaction)
{
	struct fgt_thread_run *thread_runs;

	if (transaction->thread_runs != &transaction->own)
		return 0;
	thread_runs = calloc(FGT_TRANSACTION_THREAD_RUNS, sizeof(*thread_runs));
	if (!thread_runs)
		return -ENOMEM;
	thread_runs[0] = transaction->own;
	transaction->thread_runs = thread_runs;
	return 0;
}

static int begin_thread_run(struct fgt_transaction *transaction)
{
	struct fgt_thread_run *thread_run = find_thread_run(transaction);
	int r;

	if (thread_run && !thread_run->to_ns)
		return 0;
	r = make_thread_runs(transaction);
	if (r == 0 &&
	    transaction->thread_run_count < FGT_TRANSACTION_THREAD_RUNS) {
		transaction->thread_runs[transaction->thread_run_count++] =
			(struct fgt_thread_run){ .tid = fgt_caller_tid(),
						 .from_ns = fgt_now() };
		return 0;
	}
	if (!thread_run)
		return r < 0 ? r : -ENOSPC;
	thread_run->to_ns = 0; /* too long a run is better than none */
	return 0;
}

int fgt_transaction_adopt(struct fgt_transaction *transaction)
{
	int r;

	if (!transaction)
		return 0;
	pthread_mutex_lock(&transaction->lock);
	r = begin_thread_run(transaction);
	if (r == 0)
		show_trace(transaction, true);
	pthread_mutex_unlock(&transaction->lock);
	return r;
}

static void leave_trace(const struct fgt_transaction *transaction)
{
	struct fgt_caller *self;

	if (fgt_caller_get(&self) == 0)
		fgt_thread_trace_leave(self->trace, transaction);
}

int fgt_transaction_leave(struct fgt_transaction *transaction)
{
	struct fgt_thread_run *thread_run;

	if (!transaction)
		return 0;
	pthread_mutex_lock(&transaction->lock);
	thread_run = find_thread_run(transaction);
	if (thread_run && !thread_run->to_ns)
		thread_run->to_ns = fgt_now();
	pthread_mutex_unlock(&transaction->lock);
	leave_trace(transaction);
	return 0;
}

/* ---- The end ----------------------------------------------------------- */

/* Most transactions have run in the thread that ends them, only. */
static void end_trace(const struct fgt_transaction *transaction)
{
	int32_t tid = fgt_caller_tid();
	bool is_elsewhere = false;

	leave_trace(transaction);
	for (size_t i = 0; i < transaction->thread_run_count; i++)
		is_elsewhere |= !transaction->thread_runs[i].to_ns &&
				transaction->thread_runs[i].tid != tid;
	if (is_elsewhere)
		fgt_thread_trace_end(transaction);
}

int fgt_transaction_finish(struct fgt_transaction *transaction)
{
	if (!transaction)
		return 0;
	transaction->facts.end_ns = fgt_now();
	end_trace(transaction);
	return fgt_transactions_finish(transaction);
}

void fgt_transaction_drop(struct fgt_transaction *transaction)
{
	if (transaction)
		end_trace(transaction);
	fgt_transaction_free(transaction);
}
