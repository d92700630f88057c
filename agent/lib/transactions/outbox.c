/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of deliveries. _put runs in the program's threads and must not
 * wait; _step runs on the worker, without the lock while it cuts or delivers.
 */
#include "agent/lib/transactions/outbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/hash.h"

#define SECOND_NS UINT64_C(1000000000)
/* A cut reaches this far beyond the transaction: a short one would lie between
 * two ticks, and have no thread. */
#define BEFORE_NS UINT64_C(60000000)
#define AFTER_NS  UINT64_C(20000000)

void fgt_outbox_init(struct fgt_outbox *outbox, void (*wake)(void),
		     void (*log)(void *context, const char *line))
{
	*outbox = (struct fgt_outbox){ .wake = wake,
				       .log = log,
				       .next_ns = FGT_OUTBOX_NEVER };
	TAILQ_INIT(&outbox->items);
	pthread_mutex_init(&outbox->lock, NULL);
}

/*
 * Frees nothing: a thread of the parent may have been changing it. Only stores:
 * the child of a process with threads must not call more.
 */
void fgt_outbox_forget(struct fgt_outbox *outbox)
{
	pthread_mutex_init(&outbox->lock, NULL);
	TAILQ_INIT(&outbox->items);
	outbox->count = outbox->bytes = 0;
	outbox->is_open = false;
}

void fgt_outbox_open(struct fgt_outbox *outbox)
{
	pthread_mutex_lock(&outbox->lock);
	outbox->next_ns = FGT_OUTBOX_NEVER;
	outbox->is_open = true;
	pthread_mutex_unlock(&outbox->lock);
}

/* ---- Any thread --------------------------------------------------------- */

/* Under the lock. ret_is_sooner: the worker must look before next_ns. */
static int admit(struct fgt_outbox *outbox, struct fgt_outbox_item *item,
		 bool *ret_is_sooner)
{
	if (!outbox->is_open)
		return -ENOTCONN;
	if (outbox->count >= FGT_OUTBOX_MAX ||
	    item->bytes > FGT_OUTBOX_BYTES_MAX - outbox->bytes)
		return -ENOBUFS;
	TAILQ_INSERT_TAIL(&outbox->items, item, link);
	outbox->count++;
	outbox->bytes += item->bytes;
	*ret_is_sooner =
		item->due_ns < outbox->next_ns &&
		!(item->can_wait && outbox->count <= FGT_OUTBOX_PATIENT);
	if (*ret_is_sooner)
		outbox->next_ns = item->due_ns;
	return 0;
}

int fgt_outbox_put(struct fgt_outbox *outbox, struct fgt_outbox_item *item)
{
	bool is_sooner = false;
	int r;

	item->tries = 0;
	item->is_given_up = false;
	item->bytes = item->slice ? item->slice->file.len_bytes : 0;
	pthread_mutex_lock(&outbox->lock);
	r = admit(outbox, item, &is_sooner);
	pthread_mutex_unlock(&outbox->lock);
	if (r == -ENOBUFS)
		atomic_fetch_add_explicit(&outbox->refused, 1,
					  memory_order_relaxed);
	if (is_sooner)
		outbox->wake();
	return r;
}

bool fgt_outbox_is_empty(struct fgt_outbox *outbox)
{
	bool is_empty;

	pthread_mutex_lock(&outbox->lock);
	is_empty = outbox->count == 0;
	pthread_mutex_unlock(&outbox->lock);
	return is_empty;
}

/* ---- The worker --------------------------------------------------------- */

/* The next item that is due and, if is_uncut, has no slice; it stays in. */
static struct fgt_outbox_item *find_due(struct fgt_outbox *outbox,
					uint64_t now_ns, bool is_uncut)
{
	struct fgt_outbox_item *item;

	pthread_mutex_lock(&outbox->lock);
	TAILQ_FOREACH(item, &outbox->items, link)
		if (item->due_ns <= now_ns && !(is_uncut && item->slice))
			break;
	pthread_mutex_unlock(&outbox->lock);
	return item;
}

static void take_out(struct fgt_outbox *outbox, struct fgt_outbox_item *item,
		     bool is_delivered)
{
	struct fgt_slice *slice = item->slice;

	pthread_mutex_lock(&outbox->lock);
	/* Counted first: a thread that waits for an empty box then reads the
	 * right numbers. */
	if (!item->is_given_up)
		atomic_fetch_add_explicit(is_delivered ? &outbox->delivered
						       : &outbox->undelivered,
					  1, memory_order_relaxed);
	TAILQ_REMOVE(&outbox->items, item, link);
	outbox->count--;
	outbox->bytes -= item->bytes;
	pthread_mutex_unlock(&outbox->lock);
	item->slice = NULL;
	fgt_slice_free(slice);
	item->free(item);
}

/* It leaves the box undelivered, and the report to its destination gives the reason. */
static void lose(struct fgt_outbox *outbox, const struct fgt_backend *backend,
		 struct fgt_outbox_item *item, enum fgt_discard_reason reason)
{
	if (backend->lost)
		backend->lost(item->destination, reason, 1);
	take_out(outbox, item, false);
}

/* ---- Destinations that asked for a pause -------------------------------- */

/* Two destinations with one hash share their pause. */
static uint64_t hash(const char *destination)
{
	return fgt_hash_bytes(destination, strlen(destination));
}

/* If no row is free, the pause that ends first is dropped. */
static void hold(struct fgt_outbox *outbox, const char *destination,
		 uint64_t until_ns)
{
	uint64_t wanted = hash(destination);
	size_t best = 0;

	for (size_t i = 0; i < FGT_OUTBOX_HELD_MAX; i++) {
		if (outbox->held[i].destination == wanted) {
			best = i;
			break;
		}
		if (outbox->held[i].until_ns < outbox->held[best].until_ns)
			best = i;
	}
	outbox->held[best].destination = wanted;
	outbox->held[best].until_ns = until_ns;
}

static uint64_t held_until(const struct fgt_outbox *outbox,
			   const char *destination)
{
	uint64_t wanted = hash(destination);

	for (size_t i = 0; i < FGT_OUTBOX_HELD_MAX; i++)
		if (outbox->held[i].destination == wanted)
			return outbox->held[i].until_ns;
	return 0;
}

/* False: the delay would be too long. */
static bool put_off(struct fgt_outbox *outbox, struct fgt_outbox_item *item,
		    uint64_t now_ns, uint64_t due_ns)
{
	if (due_ns > now_ns + FGT_OUTBOX_HELD_NS)
		return false;
	pthread_mutex_lock(&outbox->lock);
	item->due_ns = due_ns;
	pthread_mutex_unlock(&outbox->lock);
	return true;
}

/* ---- One delivery ------------------------------------------------------- */

/* False: it has had all its tries, or would wait too long. */
static bool try_later(struct fgt_outbox *outbox, struct fgt_outbox_item *item,
		      uint64_t now_ns, uint64_t not_before_ns)
{
	uint64_t due_ns = now_ns + (SECOND_NS << item->tries);

	if (not_before_ns > due_ns)
		due_ns = not_before_ns;
	return ++item->tries < FGT_OUTBOX_TRIES &&
	       put_off(outbox, item, now_ns, due_ns);
}

/* Gives the slice to the item if there is room, else frees it. */
static int keep_slice(struct fgt_outbox *outbox, struct fgt_outbox_item *item,
		      struct fgt_slice *slice)
{
	int r = -ENOBUFS;

	pthread_mutex_lock(&outbox->lock);
	if (slice->file.len_bytes <= FGT_OUTBOX_BYTES_MAX - outbox->bytes) {
		item->slice = slice;
		item->bytes = slice->file.len_bytes;
		outbox->bytes += slice->file.len_bytes;
		r = 0;
	}
	pthread_mutex_unlock(&outbox->lock);
	if (r < 0)
		fgt_slice_free(slice);
	return r;
}

static void cut(struct fgt_outbox *outbox, const struct fgt_backend *backend,
		struct fgt_outbox_item *item)
{
	const struct fgt_transaction_facts *facts = item->facts;
	uint64_t from_ns =
		facts->begin_ns > BEFORE_NS ? facts->begin_ns - BEFORE_NS : 0;
	struct fgt_slice *slice = NULL;
	char line[160];
	int r = backend->cut_transaction(from_ns, facts->end_ns + AFTER_NS,
					 &slice);

	if (r == 0)
		r = keep_slice(outbox, item, slice);
	if (r == 0)
		return;
	snprintf(line, sizeof(line),
		 "cannot cut the stacks of a transaction: %s", strerror(-r));
	outbox->log(NULL, line);
	lose(outbox, backend, item,
	     r == -ENODATA ? FGT_DISCARD_NO_DATA : FGT_DISCARD_INTERNAL);
}

static void deliver(struct fgt_outbox *outbox,
		    const struct fgt_backend *backend,
		    struct fgt_outbox_item *item, uint64_t now_ns)
{
	uint64_t not_before_ns = 0;
	const struct fgt_delivery delivery = {
		.destination = item->destination,
		.slice = item->slice,
		.facts = item->facts,
		.ret_not_before_ns = &not_before_ns,
	};
	struct fgt_why why = { "" };
	int r = backend->deliver(&delivery, &why);

	if (r < 0 && why.text[0])
		outbox->log(NULL, why.text);
	if (not_before_ns > now_ns)
		hold(outbox, item->destination, not_before_ns);
	if (r != -EAGAIN)
		take_out(outbox, item, r == 0);
	else if (!try_later(outbox, item, now_ns, not_before_ns))
		lose(outbox, backend, item, FGT_DISCARD_NETWORK);
}

/* Not before the end of its destination's pause. */
static void deliver_in_time(struct fgt_outbox *outbox,
			    const struct fgt_backend *backend,
			    struct fgt_outbox_item *item, uint64_t now_ns)
{
	uint64_t until_ns = held_until(outbox, item->destination);

	if (until_ns <= now_ns)
		deliver(outbox, backend, item, now_ns);
	else if (!put_off(outbox, item, now_ns, until_ns))
		lose(outbox, backend, item, FGT_DISCARD_LIMITED);
}

static uint64_t find_next(struct fgt_outbox *outbox)
{
	uint64_t next_ns = FGT_OUTBOX_NEVER;
	struct fgt_outbox_item *item;

	pthread_mutex_lock(&outbox->lock);
	TAILQ_FOREACH(item, &outbox->items, link)
		if (item->due_ns < next_ns)
			next_ns = item->due_ns;
	outbox->next_ns = next_ns;
	pthread_mutex_unlock(&outbox->lock);
	return next_ns;
}

uint64_t fgt_outbox_step(struct fgt_outbox *outbox,
			 const struct fgt_backend *backend, uint64_t now_ns)
{
	bool is_cut_here = backend->cut_transaction; /* else by the agent */
	struct fgt_outbox_item *item;

	while (is_cut_here && (item = find_due(outbox, now_ns, true)))
		cut(outbox, backend, item);
	item = find_due(outbox, now_ns, false);
	/* One that was put in meanwhile is cut in the next step. */
	if (item && (item->slice || !is_cut_here))
		deliver_in_time(outbox, backend, item, now_ns);
	return find_next(outbox);
}

size_t fgt_outbox_give_up(struct fgt_outbox *outbox)
{
	struct fgt_outbox_item *item;
	size_t count = 0;

	pthread_mutex_lock(&outbox->lock);
	outbox->is_open = false;
	TAILQ_FOREACH(item, &outbox->items, link) {
		count += !item->is_given_up;
		item->is_given_up = true;
	}
	atomic_fetch_add_explicit(&outbox->undelivered, count,
				  memory_order_relaxed);
	pthread_mutex_unlock(&outbox->lock);
	return count;
}

void fgt_outbox_close(struct fgt_outbox *outbox)
{
	(void)fgt_outbox_give_up(outbox);
	while (!TAILQ_EMPTY(&outbox->items))
		take_out(outbox, TAILQ_FIRST(&outbox->items), false);
}
