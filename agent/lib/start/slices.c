/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices that the program asks for, and those that it uploads: these are copied
 * and queued. Runs in the program's threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/lib/own.h"
#include "agent/lib/start/start.h"
#include "agent/lib/transactions/trace_id.h"
#include "agent/lib/transactions/transaction.h"
#include "ringbuf/base/clock.h"

#define AHEAD_MAX_NS (UINT64_C(3600) * 1000000000)
#define GRACE_HZ_MIN 4.0

/* ---- Cuts -------------------------------------------------------------- */

/* The last tick of a range is in the ring after this time. Limited, because
 * ticks may be rare. */
static uint64_t grace_ns(double hz)
{
	if (hz < GRACE_HZ_MIN)
		hz = GRACE_HZ_MIN;
	return (uint64_t)(2e9 / hz) + 5000000;
}

/* Waits until to_ns has passed, then cuts. */
static int cut(uint64_t from_ns, uint64_t to_ns, struct fgt_slice **ret_slice)
{
	const struct fgt_backend *backend = fgt_library.backend;
	int r = 0;

	if (to_ns > fgt_now())
		r = fgt_library_wait_until(to_ns + grace_ns(backend->hz()));
	if (r == 0)
		r = backend->cut(from_ns, to_ns, ret_slice);
	if (r == 0)
		atomic_fetch_add_explicit(&fgt_library.slices, 1,
					  memory_order_relaxed);
	return r < 0 && !fgt_library_is_started() ? -ESHUTDOWN : r;
}

static void take_texts(struct fgt_slice *slice)
{
	const struct fgt_options *options = &fgt_library.settings.options;

	if (options->release)
		fgt_settings_copy_text(slice->release, sizeof(slice->release),
				       options->release);
	if (options->environment)
		fgt_settings_copy_text(slice->environment,
				       sizeof(slice->environment),
				       options->environment);
}

int fgt_get_slice(uint64_t from_ns, uint64_t to_ns,
		  struct fgt_slice **ret_slice)
{
	FGT_UNCANCELLED;
	uint64_t now_ns = fgt_now();
	int r;

	if (!ret_slice || from_ns > to_ns ||
	    (to_ns > now_ns && to_ns - now_ns > AHEAD_MAX_NS))
		return -EINVAL;
	r = fgt_library_enter();
	if (r < 0)
		return r;
	r = cut(from_ns, to_ns, ret_slice);
	if (r == 0) {
		(*ret_slice)->caller_tid = gettid();
		take_texts(*ret_slice);
	}
	fgt_library_leave();
	return r;
}

/* ---- Uploads ------------------------------------------------------------ */

struct upload {
	struct fgt_outbox_item item; /* the first member */
	struct fgt_transaction_facts facts; /* texts belong to the slice */
	char destination[FGT_SETTINGS_DESTINATION + 1];
};

static void free_upload(struct fgt_outbox_item *item)
{
	free(item); /* its first member */
}

/* The caller may free its slice after the call. */
static int copy_slice(const struct fgt_slice *slice,
		      struct fgt_slice **ret_slice)
{
	struct fgt_slice *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *slice;
	copy->file.bytes = malloc(slice->file.len_bytes);
	if (!copy->file.bytes) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy->file.bytes, slice->file.bytes, slice->file.len_bytes);
	*ret_slice = copy;
	return 0;
}

static int queue(const struct fgt_slice *slice, const char *destination)
{
	struct upload *upload = calloc(1, sizeof(*upload));
	struct fgt_outbox_item *item;
	int r;

	if (!upload)
		return -ENOMEM;
	item = &upload->item;
	strcpy(upload->destination, destination);
	item->destination = upload->destination;
	item->free = free_upload;
	r = copy_slice(slice, &item->slice);
	if (r == 0) {
		upload->facts.release = item->slice->release;
		upload->facts.environment = item->slice->environment;
		fgt_trace_id_make(upload->facts.event_id, FGT_TRACE_ID_DIGITS);
		upload->facts.ordered_ns = fgt_clock_ns(CLOCK_REALTIME);
		item->facts = &upload->facts;
	}
	if (r == 0)
		r = fgt_outbox_put(fgt_transactions_outbox(), item);
	if (r < 0) {
		fgt_slice_free(item->slice);
		free_upload(item);
	}
	return r;
}

/* NULL: as the agent has it. */
static bool may_go_to(const char *destination)
{
	const struct fgt_options *options = &fgt_library.settings.options;

	if (!destination)
		return atomic_load_explicit(
			&fgt_library.has_default_destination,
			memory_order_relaxed);
	return fgt_settings_check_destination(
		       destination, options->allow_http != 0, NULL) == 0;
}

int fgt_slice_upload(const struct fgt_slice *slice, const char *destination)
{
	FGT_UNCANCELLED;
	const struct fgt_options *options = &fgt_library.settings.options;
	int r = fgt_library_enter();

	if (r < 0)
		return r;
	if (!destination)
		destination = options->destination;
	if (!slice || !may_go_to(destination))
		r = -EINVAL;
	else
		r = queue(slice, destination ? destination : "");
	fgt_library_leave();
	return r;
}
