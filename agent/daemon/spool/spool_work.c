/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs on the spool's thread, which waits as long as the disk does. Must not
 * touch what belongs to the loop.
 */
#include "agent/daemon/spool/spool_work.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/daemon/delivery/delivery_pieces.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"
#include "upload/deliver/spool/spool_file.h"

static uint64_t wall_now(void)
{
	return fgt_clock_ns(CLOCK_REALTIME);
}

/* ---- Events ------------------------------------------------------------- */

static void note(struct fgt_spool_work *work,
		 const struct fgt_spool_event *event)
{
	if (FGT_ARRAY_GROW(work->events, work->event_count,
			   work->event_capacity) < 0)
		work->events_lost++;
	else
		work->events[work->event_count++] = *event;
}

static struct fgt_backlog_entry entry_of(const struct fgt_spool_entry *entry,
					 uint32_t uid, uint32_t gid)
{
	return (struct fgt_backlog_entry){ .id = entry->id,
					   .bytes = entry->bytes,
					   .created_ns = entry->created_ns,
					   .uid = uid,
					   .gid = gid };
}

static void dropped(void *context, const struct fgt_spool_entry *entry,
		    enum fgt_spool_drop reason)
{
	struct fgt_spool_store *store = context;
	const struct fgt_spool_event event = { .is_gone = true,
					       .reason = reason,
					       .entry = entry_of(entry, 0, 0) };

	note(store->work, &event);
}

/* An entry whose head is of another version waits for an agent that knows
 * it. */
static void found(void *context, const struct fgt_spool_entry *entry,
		  const uint8_t *bytes, size_t len)
{
	struct fgt_spool_store *store = context;
	struct fgt_spooled_head head;
	struct fgt_spool_event event = { .is_gone = false };

	if (!bytes || fgt_spooled_read_head(bytes, len, &head) < 0)
		return;
	event.entry = entry_of(entry, head.uid, head.gid);
	event.entry.category = fgt_category_of(head.payload.category);
	memcpy(event.name, head.payload.destination, sizeof(event.name));
	note(store->work, &event);
}

/* ---- The kinds ---------------------------------------------------------- */

static int open_spool(struct fgt_spool_work *work)
{
	return fgt_spool_open(&work->store->options, wall_now(),
			      &work->store->spool, &work->why);
}

/* The process that encoded them chooses neither destination nor user. */
static int add_piece(struct fgt_spool_work *work, struct fgt_payload *payload)
{
	struct fgt_spool *spool = work->store->spool;
	struct fgt_spool_event event = { .is_gone = false };
	struct fgt_spool_id id;
	int r;

	snprintf(payload->head.destination, sizeof(payload->head.destination),
		 "%s", work->name);
	r = fgt_spooled_add(spool, payload, work->uid, work->gid, wall_now(),
			    &id, &work->why);
	if (r < 0)
		return r;
	event.entry =
		entry_of(fgt_spool_index_find(fgt_spool_index(spool), &id),
			 work->uid, work->gid);
	event.entry.category = fgt_category_of(payload->head.category);
	strcpy(event.name, work->name);
	note(work, &event);
	return 0;
}

/* All or none: the entries that are there are sent again with the rest. Those
 * that went for them stay noted. */
static void take_back(struct fgt_spool_work *work)
{
	size_t count = 0;

	for (size_t i = 0; i < work->event_count; i++) {
		const struct fgt_spool_event *event = &work->events[i];

		if (event->is_gone)
			work->events[count++] = *event;
		else
			(void)fgt_spool_remove(work->store->spool,
					       &event->entry.id);
	}
	work->event_count = count;
}

static int add(struct fgt_spool_work *work)
{
	struct fgt_delivery_piece piece;
	struct fgt_payload payload;
	uint64_t at = 0;
	int r = 0;

	for (int i = 0; r == 0 && i < FGT_DELIVERY_PIECES_MAX; i++) {
		r = fgt_delivery_piece_read(work->fd, &at, &piece, &payload);
		if (r == 0)
			r = add_piece(work, &payload);
	}
	if (r == -ENODATA)
		return 0;
	take_back(work);
	if (r == 0 || r == -EBADMSG)
		return fgt_why_set(&work->why, -EBADMSG,
				   "the process that encoded it failed: see "
				   "the log");
	return r;
}

/* The head is for the log: the process that sends it checks the whole. */
static int hold(struct fgt_spool_work *work)
{
	uint8_t bytes[FGT_SPOOL_HEAD_MAX];
	struct fgt_spooled_head head;
	struct fgt_spool_parts parts;
	int r = fgt_spool_hold(work->store->spool, &work->id, &work->fd);

	memset(&work->head, 0, sizeof(work->head));
	if (r == 0 && fgt_spool_file_read_head(work->fd, bytes, &parts) == 0 &&
	    fgt_spooled_read_head(bytes, parts.head_len, &head) == 0)
		work->head = head.payload;
	return r;
}

static int look(struct fgt_spool_work *work)
{
	struct fgt_spool *spool = work->store->spool;
	int r = fgt_spool_look(spool, wall_now());

	fgt_spool_expire(spool, wall_now());
	work->is_flush_wanted = fgt_spool_take_flush(spool);
	return r;
}

static int run_kind(struct fgt_spool_work *work)
{
	struct fgt_spool *spool = work->store->spool;

	if (work->kind == FGT_SPOOL_WORK_OPEN)
		return spool ? 0 : open_spool(work);
	if (!spool)
		return -ENODEV;
	switch (work->kind) {
	case FGT_SPOOL_WORK_ADD:
		return add(work);
	case FGT_SPOOL_WORK_HOLD:
		return hold(work);
	case FGT_SPOOL_WORK_RELEASE:
		fgt_spool_release(spool, &work->id);
		return 0;
	case FGT_SPOOL_WORK_REMOVE:
		return fgt_spool_remove(spool, &work->id);
	case FGT_SPOOL_WORK_CONDEMN:
		fgt_spool_condemn(spool, &work->id);
		return 0;
	default:
		return look(work);
	}
}

static void run(void *context)
{
	struct fgt_spool_work *work = context;

	work->store->work = work;
	work->result = run_kind(work);
	if (work->result < 0 && !*work->why.text)
		(void)fgt_why_set(&work->why, work->result, "the spool: %s",
				  strerror(-work->result));
}

void fgt_spool_work_init(struct fgt_spool_work *work,
			 struct fgt_spool_store *store,
			 enum fgt_spool_work_kind kind)
{
	*work = (struct fgt_spool_work){ .job = { .run = run, .context = work },
					 .store = store,
					 .kind = kind,
					 .fd = -1,
					 .result = -ECANCELED };
	store->options.dropped = dropped;
	store->options.found = found;
	store->options.context = store;
}

void fgt_spool_work_done(struct fgt_spool_work *work)
{
	fgt_fd_close(FGT_TAKE_FD(work->fd));
	free(work->events);
	work->events = NULL;
}
