/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads of slices by the program. Runs in the program's threads: copies the
 * slice, queues it, returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/library.h"
#include "agent/lib/own.h"
#include "agent/lib/settings.h"
#include "agent/lib/transactions/transactions.h"

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
	copy->bytes = malloc(slice->len_bytes);
	if (!copy->bytes) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy->bytes, slice->bytes, slice->len_bytes);
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

int fgt_slice_upload(const struct fgt_slice *slice, const char *destination)
{
	FGT_UNCANCELLED;
	const struct fgt_options *options = fgt_library_options();
	int r = fgt_library_enter();

	if (r < 0)
		return r;
	if (!destination)
		destination = options->destination;
	if (!slice || !destination ||
	    fgt_settings_check_destination(destination,
					   options->allow_http != 0, NULL) < 0)
		r = -EINVAL;
	else
		r = queue(slice, destination);
	fgt_library_leave();
	return r;
}
