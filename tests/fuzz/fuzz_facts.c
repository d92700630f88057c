/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a registered process sends of a transaction, and the slice that it sends
 * along, as the daemon and the process that delivers read them: two bytes of
 * length, the message, a .fgt file. What is accepted survives being passed on,
 * and every envelope can be written of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol/message.h"
#include "agent/protocol/transaction_facts.h"
#include "ringbuf/slice/slice_codec.h"
#include "upload/format/format.h"

#define LENGTH_BYTES 4 /* in front of what a builder makes */

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static bool is_same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool is_same(const struct fgt_transaction_facts *a,
		    const struct fgt_transaction_facts *b)
{
	for (size_t i = 0; i < a->tag_count && i < b->tag_count; i++)
		if (!is_same_text(a->tags[i].key, b->tags[i].key) ||
		    !is_same_text(a->tags[i].value, b->tags[i].value))
			return false;
	return is_same_text(a->name, b->name) && is_same_text(a->op, b->op) &&
	       is_same_text(a->status, b->status) &&
	       is_same_text(a->level, b->level) &&
	       is_same_text(a->release, b->release) &&
	       is_same_text(a->environment, b->environment) &&
	       is_same_text(a->event_id, b->event_id) &&
	       is_same_text(a->trace_id, b->trace_id) &&
	       is_same_text(a->span_id, b->span_id) &&
	       is_same_text(a->parent_span_id, b->parent_span_id) &&
	       a->begin_ns == b->begin_ns && a->end_ns == b->end_ns &&
	       a->active_tid == b->active_tid &&
	       a->all_threads == b->all_threads &&
	       a->tag_count == b->tag_count &&
	       a->thread_run_count == b->thread_run_count &&
	       (a->thread_run_count == 0 ||
		memcmp(a->thread_runs, b->thread_runs,
		       a->thread_run_count * sizeof(*a->thread_runs)) == 0);
}

static void must_survive_passing_on(const struct fgt_transaction_facts *facts)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	static struct fgt_facts_room room;
	const uint8_t *frame;
	struct fgt_why why;
	size_t len;

	must(fgt_builder_new(&builder) == 0);
	fgt_facts_put(builder, facts);
	must(fgt_builder_finish(builder, &frame, &len) == 0);
	must(fgt_message_decode(frame + LENGTH_BYTES, len - LENGTH_BYTES,
				&message) == 0);
	must(fgt_facts_read(message, &room, &why) == 0);
	must(is_same(facts, &room.facts));
}

static int count(void *context, const void *bytes, size_t len)
{
	size_t *total = context;

	(void)bytes;
	*total += len;
	/* A sink may fail at any time; it also bounds what one input costs. */
	return *total > 4u << 20 ? -ENOSPC : 0;
}

static void must_be_writable(const struct fgt_ring_slice *slice,
			     const struct fgt_transaction_facts *facts)
{
	static const enum fgt_format_kind formats[] = { FGT_KIND_SENTRY,
							FGT_KIND_SENTRY_CHUNK,
							FGT_KIND_PPROF,
							FGT_KIND_OTLP };
	const struct fgt_format_options options = {
		.facts = facts,
		.release = facts->release,
		.environment = facts->environment,
	};

	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		size_t total = 0;
		const struct fgt_sink sink = { .write = count,
					       .context = &total };
		int r = fgt_format_write(slice, formats[i], &options, &sink);

		must(r == 0 || r == -ENOSPC || r == -ENODATA);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	static struct fgt_facts_room room;
	struct fgt_why why;
	size_t message_len;

	if (len < 2)
		return 0;
	message_len = bytes[0] | (size_t)bytes[1] << 8;
	bytes += 2;
	len -= 2;
	if (message_len > len ||
	    fgt_message_decode(bytes, message_len, &message) < 0 ||
	    fgt_facts_read(message, &room, &why) < 0)
		return 0;
	must_survive_passing_on(&room.facts);
	if (fgt_slice_decode(bytes + message_len, len - message_len, &slice,
			     &why) == 0)
		must_be_writable(slice, &room.facts);
	return 0;
}
