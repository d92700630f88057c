/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording inside this process, by libfgtrace-embed.so. Runs in the program's
 * threads and in the worker.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/embedded/embed_load.h"
#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "agent/lib/spans/journal.h"

#define SECOND_NS UINT64_C(1000000000)

struct embedded {
	const struct fgt_embed_ops *ops;
	void *recorder;
};

static int cut_range(const struct embedded *embedded, uint64_t from_ns,
		     uint64_t to_ns, bool is_transaction,
		     struct fgt_slice **ret_slice)
{
	struct fgt_slice *slice = calloc(1, sizeof(*slice));
	struct fgt_embed_cut bytes;
	int rc;

	if (!slice)
		return -ENOMEM;
	rc = embedded->ops->cut(embedded->recorder, from_ns, to_ns,
				is_transaction, &bytes);
	if (rc < 0) {
		free(slice);
		return rc;
	}
	*slice = (struct fgt_slice){
		.bytes = bytes.bytes,
		.len_bytes = bytes.len_bytes,
		.from_ns = bytes.from_ns,
		.to_ns = bytes.to_ns,
		.ticks = bytes.ticks,
		.threads = bytes.threads,
	};
	*ret_slice = slice;
	return 0;
}

static int cut(void *state, uint64_t from_ns, uint64_t to_ns,
	       unsigned int timeout_ms, struct fgt_slice **ret_slice)
{
	(void)timeout_ms; /* the call does not wait */
	return cut_range(state, from_ns, to_ns, false, ret_slice);
}

static int cut_transaction(void *state, uint64_t from_ns, uint64_t to_ns,
			   struct fgt_slice **ret_slice)
{
	return cut_range(state, from_ns, to_ns, true, ret_slice);
}

static int deliver_slice(const struct embedded *embedded,
			 const struct fgt_delivery *delivery,
			 const struct fgt_slice *slice, char *ret_why)
{
	const struct fgt_options *options = &fgt_library.settings.options;
	const struct fgt_embed_way way = {
		.ca_file = options->ca_file,
		.is_http_allowed = options->allow_http != 0,
	};
	unsigned int wait_s = 0;
	int rc = embedded->ops->deliver(slice->bytes, slice->len_bytes,
					delivery->destination, &way,
					delivery->facts, ret_why, &wait_s);

	if (wait_s > 0)
		*delivery->ret_not_before_ns = fgt_now() + wait_s * SECOND_NS;
	return rc;
}

static int deliver(void *state, const struct fgt_delivery *delivery,
		   char *ret_why)
{
	const struct fgt_transaction_facts *facts = delivery->facts;
	const struct embedded *embedded = state;
	struct fgt_slice *slice = NULL;
	int rc;

	ret_why[0] = '\0';
	if (delivery->slice)
		return deliver_slice(embedded, delivery, delivery->slice,
				     ret_why);
	if (!facts)
		return -EINVAL;
	rc = cut_transaction(state, facts->begin_ns, facts->end_ns, &slice);
	if (rc < 0) {
		snprintf(ret_why, FGT_EMBED_WHY,
			 "cannot cut the stacks of %.100s: %s",
			 facts->name ? facts->name : "a transaction",
			 strerror(-rc));
		return rc;
	}
	rc = deliver_slice(embedded, delivery, slice, ret_why);
	fgt_slice_free(slice);
	return rc;
}

/* Other descriptors that the program closes are reopened by the recorder. */
static void refresh(void *state)
{
	const struct embedded *embedded = state;
	int spans_fd = fgt_journal_fd();

	if (spans_fd >= 0)
		(void)embedded->ops->set_spans(embedded->recorder, spans_fd);
}

static bool is_recording(void *state)
{
	(void)state;
	return true;
}

static double hz(void *state)
{
	const struct embedded *embedded = state;

	return embedded->ops->hz(embedded->recorder);
}

static void get_limitation(void *state, char *ret_text, size_t len)
{
	const struct embedded *embedded = state;

	embedded->ops->get_limitation(embedded->recorder, ret_text, len);
}

static int ring_fd(void *state)
{
	const struct embedded *embedded = state;

	return embedded->ops->ring_fd(embedded->recorder);
}

static void forked(void *state)
{
	const struct embedded *embedded = state;

	embedded->ops->forked(embedded->recorder);
}

static void close_embedded(void *state)
{
	struct embedded *embedded = state;

	if (!embedded)
		return;
	embedded->ops->stop(embedded->recorder);
	free(embedded);
}

int fgt_embedded_open(const int32_t own_tids[FGT_EMBED_OWN_TIDS],
		      void **ret_state)
{
	const struct fgt_options *options = &fgt_library.settings.options;
	const struct fgt_embed_options embed_options = {
		.hz = options->hz,
		.ring_seconds = options->ring_seconds,
		.ring_bytes = options->ring_bytes,
		.spans_fd = fgt_journal_fd(),
		.own_tids = { own_tids[0], own_tids[1] },
		.log = fgt_report_line,
	};
	struct embedded *embedded = calloc(1, sizeof(*embedded));
	char why[FGT_EMBED_WHY] = "";
	int rc;

	if (!embedded)
		return -ENOMEM;
	rc = fgt_embed_load(&embedded->ops, why);
	if (rc == 0)
		rc = embedded->ops->start(&embed_options, &embedded->recorder,
					  why);
	if (rc < 0) {
		if (why[0])
			fgt_report_line(NULL, why);
		free(embedded);
		return rc == -EACCES ? -EPERM : rc;
	}
	*ret_state = embedded;
	return 0;
}

const struct fgt_backend fgt_embedded = {
	.mode = FGT_EMBEDDED,
	.cut = cut,
	.cut_transaction = cut_transaction,
	.deliver = deliver,
	.refresh = refresh,
	.is_recording = is_recording,
	.hz = hz,
	.get_limitation = get_limitation,
	.ring_fd = ring_fd,
	.forked = forked,
	.close = close_embedded,
};
