/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices that the program itself wants delivered. Runs in the threads of the
 * host program; copies, queues, returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/library.h"
#include "agent/lib/own.h"
#include "agent/lib/settings.h"
#include "agent/lib/transactions/transactions.h"

struct consignment {
	struct fgt_outbox_item item; /* the first member */
	struct fgt_transaction_facts facts; /* texts are the slice's */
	char destination[FGT_SETTINGS_DESTINATION + 1];
};

static void free_consignment(struct fgt_outbox_item *item)
{
	free(item); /* its first member */
}

/* The caller may free his as soon as we return. */
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
	struct consignment *consignment = calloc(1, sizeof(*consignment));
	struct fgt_outbox_item *item;
	int r;

	if (!consignment)
		return -ENOMEM;
	item = &consignment->item;
	strcpy(consignment->destination, destination);
	item->destination = consignment->destination;
	item->free = free_consignment;
	r = copy_slice(slice, &item->slice);
	if (r == 0) {
		consignment->facts.release = item->slice->release;
		consignment->facts.environment = item->slice->environment;
		item->facts = &consignment->facts;
	}
	if (r == 0)
		r = fgt_outbox_put(fgt_transactions_outbox(), item);
	if (r < 0) {
		fgt_slice_free(item->slice);
		free_consignment(item);
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
