/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of transactions, in and out of messages. Written by the library's
 * worker and the daemon's loop, read by the loop and by the delivery process,
 * which check the form of every value.
 */
#include "agent/protocol/transaction_facts.h"

#include <errno.h>
#include <string.h>

#include "agent/protocol/message.h"
#include "agent/protocol/protocol.h"

#define RELEASE_MAX	200
#define ENVIRONMENT_MAX 64
#define STATUS_MAX	64
#define LEVEL_MAX	16

static int refuse(struct fgt_why *why, const char *key, const char *rule)
{
	return fgt_why_set(why, -EINVAL, "%s %s", key, rule);
}

static int get_text(const struct fgt_message *message, const char *key,
		    size_t max, const char **ret_text, struct fgt_why *why)
{
	int r = fgt_message_get_string(message, key, ret_text);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || strlen(*ret_text) > max)
		return refuse(why, key, "must be a short text");
	return 0;
}

static int get_id(const struct fgt_message *message, const char *key,
		  size_t digits, char *ret_id, struct fgt_why *why)
{
	const char *text;
	int r = fgt_message_get_string(message, key, &text);

	if (r == -ENOENT || (r == 0 && !*text))
		return 0;
	if (r < 0 || strlen(text) != digits ||
	    strspn(text, "0123456789abcdef") != digits ||
	    strspn(text, "0") == digits)
		return refuse(why, key, "must be hex digits, not all zero");
	memcpy(ret_id, text, digits + 1);
	return 0;
}

static int get_texts(const struct fgt_message *message,
		     struct fgt_transaction_facts *facts, struct fgt_why *why)
{
	const struct {
		const char *key;
		size_t max;
		const char **text;
	} texts[] = {
		{ "name", FGT_TRANSACTION_NAME, &facts->name },
		{ "op", FGT_TRANSACTION_OP, &facts->op },
		{ "status", STATUS_MAX, &facts->status },
		{ "level", LEVEL_MAX, &facts->level },
		{ "release", RELEASE_MAX, &facts->release },
		{ "environment", ENVIRONMENT_MAX, &facts->environment },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts) && r == 0; i++)
		r = get_text(message, texts[i].key, texts[i].max, texts[i].text,
			     why);
	return r;
}

static int get_ids(const struct fgt_message *message,
		   struct fgt_transaction_facts *facts, struct fgt_why *why)
{
	int r = get_id(message, "event_id", 32, facts->event_id, why);

	if (r == 0)
		r = get_id(message, "trace_id", 32, facts->trace_id, why);
	if (r == 0)
		r = get_id(message, "span_id", 16, facts->span_id, why);
	if (r == 0)
		r = get_id(message, "parent_span_id", 16, facts->parent_span_id,
			   why);
	return r;
}

static bool is_tid(int64_t tid)
{
	return tid >= 0 && tid <= INT32_MAX;
}

static int get_numbers(const struct fgt_message *message,
		       struct fgt_transaction_facts *facts, struct fgt_why *why)
{
	bool has_all = false;
	int64_t tid = 0;
	int r = fgt_message_get_uint(message, "begin_ns", &facts->begin_ns);

	if (r == 0 || r == -ENOENT)
		r = fgt_message_get_uint(message, "end_ns", &facts->end_ns);
	if ((r < 0 && r != -ENOENT) || facts->begin_ns > facts->end_ns)
		return refuse(why, "begin_ns and end_ns",
			      "must be CLOCK_MONOTONIC in ns, in order");
	r = fgt_message_get_int(message, "active_tid", &tid);
	if ((r < 0 && r != -ENOENT) || !is_tid(tid))
		return refuse(why, "active_tid", "must be a thread's number");
	facts->active_tid = (int32_t)tid;
	if (fgt_message_get_bool(message, "all_threads", &has_all) == -EINVAL)
		return refuse(why, "all_threads", "must be true or false");
	facts->all_threads = has_all;
	return 0;
}

static int take_tag(const struct fgt_message *element,
		    struct fgt_facts_room *room)
{
	struct fgt_tag *tag = &room->tags[room->facts.tag_count++];
	int r;

	tag->key = tag->value = "";
	r = get_text(element, "key", FGT_TAG_KEY_MAX, &tag->key, NULL);
	if (r == 0)
		r = get_text(element, "value", FGT_TAG_VALUE_MAX, &tag->value,
			     NULL);
	return r == 0 && !*tag->key ? -EINVAL : r;
}

static int take_thread_run(const struct fgt_message *element,
			   struct fgt_facts_room *room)
{
	struct fgt_thread_run *run =
		&room->thread_runs[room->facts.thread_run_count++];
	int64_t tid = 0;
	int r = fgt_message_get_int(element, "tid", &tid);

	if (r == 0 && !is_tid(tid))
		r = -EINVAL;
	if (r == 0)
		r = fgt_message_get_uint(element, "from_ns", &run->from_ns);
	if (r == 0 || r == -ENOENT)
		r = fgt_message_get_uint(element, "to_ns", &run->to_ns);
	run->tid = (int32_t)tid;
	return r == -ENOENT ? 0 : r;
}

/* At most max elements; take() adds each to the room. -EINVAL from it: the
 * element breaks the rule. */
static int get_list(const struct fgt_message *message, const char *key,
		    size_t max, const char *rule,
		    int (*take)(const struct fgt_message *element,
				struct fgt_facts_room *room),
		    struct fgt_facts_room *room, struct fgt_why *why)
{
	struct fgt_message_array array = { .count = 0 };
	struct fgt_message element;
	int r = fgt_message_get_array(message, key, &array);

	if ((r < 0 && r != -ENOENT) || array.count > max)
		return fgt_why_set(why, -EINVAL,
				   "%s must be a list of at most %zu", key,
				   max);
	do {
		r = fgt_message_next(&array, &element);
		if (r == 0)
			r = take(&element, room);
	} while (r == 0);
	return r == -ENOENT ? 0 : refuse(why, key, rule);
}

/* Without a name there is no transaction. */
static int keep_of_slice(struct fgt_transaction_facts *facts)
{
	struct fgt_transaction_facts kept = {
		.release = facts->release,
		.environment = facts->environment,
		.ordered_ns = facts->ordered_ns,
	};

	memcpy(kept.event_id, facts->event_id, sizeof(kept.event_id));
	*facts = kept;
	return kept.release || kept.environment || kept.ordered_ns ||
			       kept.event_id[0]
		       ? 0
		       : -ENOENT;
}

int fgt_facts_read(const struct fgt_message *message,
		   struct fgt_facts_room *ret_room, struct fgt_why *why)
{
	struct fgt_transaction_facts *facts = &ret_room->facts;
	int r;

	memset(ret_room, 0, sizeof(*ret_room));
	r = get_texts(message, facts, why);
	if (r == 0)
		r = get_ids(message, facts, why);
	if (r == 0 && fgt_message_get_uint(message, "ordered_ns",
					   &facts->ordered_ns) == -EINVAL)
		r = refuse(why, "ordered_ns", "must be CLOCK_REALTIME in ns");
	if (r == 0 && !facts->name)
		return keep_of_slice(facts);
	if (r == 0)
		r = get_numbers(message, facts, why);
	if (r == 0)
		r = get_list(message, "tags", FGT_TAGS_MAX,
			     "must be maps of key (not empty) and value",
			     take_tag, ret_room, why);
	if (r == 0)
		r = get_list(message, "tids", FGT_TRANSACTION_THREAD_RUNS,
			     "must be maps of tid, from_ns and to_ns",
			     take_thread_run, ret_room, why);
	facts->tags = ret_room->tags;
	facts->thread_runs = ret_room->thread_runs;
	return r;
}

static void put_text(struct fgt_builder *builder, const char *key,
		     const char *text)
{
	if (text && *text)
		fgt_builder_string(builder, key, text);
}

static void put_arrays(struct fgt_builder *builder,
		       const struct fgt_transaction_facts *facts)
{
	fgt_builder_array_begin(builder, "tags");
	for (size_t i = 0; i < facts->tag_count; i++) {
		fgt_builder_map_begin(builder, NULL);
		fgt_builder_string(builder, "key", facts->tags[i].key);
		fgt_builder_string(builder, "value", facts->tags[i].value);
		fgt_builder_map_end(builder);
	}
	fgt_builder_array_end(builder);
	fgt_builder_array_begin(builder, "tids");
	for (size_t i = 0; i < facts->thread_run_count; i++) {
		fgt_builder_map_begin(builder, NULL);
		fgt_builder_int(builder, "tid", facts->thread_runs[i].tid);
		fgt_builder_uint(builder, "from_ns",
				 facts->thread_runs[i].from_ns);
		fgt_builder_uint(builder, "to_ns", facts->thread_runs[i].to_ns);
		fgt_builder_map_end(builder);
	}
	fgt_builder_array_end(builder);
}

void fgt_facts_put(struct fgt_builder *builder,
		   const struct fgt_transaction_facts *facts)
{
	put_text(builder, "release", facts->release);
	put_text(builder, "environment", facts->environment);
	put_text(builder, "event_id", facts->event_id);
	if (facts->ordered_ns)
		fgt_builder_uint(builder, "ordered_ns", facts->ordered_ns);
	if (!fgt_facts_of_transaction(facts))
		return;
	/* The name is put even if it is empty: it marks a transaction. */
	fgt_builder_string(builder, "name", facts->name);
	put_text(builder, "op", facts->op);
	put_text(builder, "status", facts->status);
	put_text(builder, "level", facts->level);
	put_text(builder, "trace_id", facts->trace_id);
	put_text(builder, "span_id", facts->span_id);
	put_text(builder, "parent_span_id", facts->parent_span_id);
	fgt_builder_uint(builder, "begin_ns", facts->begin_ns);
	fgt_builder_uint(builder, "end_ns", facts->end_ns);
	fgt_builder_int(builder, "active_tid", facts->active_tid);
	fgt_builder_bool(builder, "all_threads", facts->all_threads);
	put_arrays(builder, facts);
}

int fgt_facts_pack(const struct fgt_transaction_facts *facts,
		   uint8_t *ret_bytes, size_t size, size_t *ret_len)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *frame;
	size_t len;
	int r = fgt_builder_new(&builder);

	if (r < 0)
		return r;
	fgt_facts_put(builder, facts);
	r = fgt_builder_finish(builder, &frame, &len);
	if (r < 0)
		return r;
	len -= FGT_PROTOCOL_LENGTH_BYTES;
	if (len > size)
		return -EMSGSIZE;
	memcpy(ret_bytes, frame + FGT_PROTOCOL_LENGTH_BYTES, len);
	*ret_len = len;
	return 0;
}
