/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of transactions, in and out of messages. Written by the library's
 * worker and the daemon's loop, read by the loop and by the delivery process,
 * which check the form of every value.
 */
#include "agent/protocol/transaction_facts.h"

#include <errno.h>
#include <string.h>

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

static int get_tag(const struct fgt_message *element, struct fgt_tag *ret_tag,
		   struct fgt_why *why)
{
	ret_tag->key = ret_tag->value = "";
	if (get_text(element, "key", FGT_TAG_KEY_MAX, &ret_tag->key, why) < 0 ||
	    get_text(element, "value", FGT_TAG_VALUE_MAX, &ret_tag->value,
		     why) < 0)
		return -EINVAL;
	return *ret_tag->key ? 0 : refuse(why, "tags", "need a key each");
}

static int get_tags(const struct fgt_message *message,
		    struct fgt_facts_room *room, struct fgt_why *why)
{
	struct fgt_message_array array = { .count = 0 };
	struct fgt_message element;
	size_t count = 0;
	int r = fgt_message_get_array(message, "tags", &array);

	if ((r < 0 && r != -ENOENT) || array.count > FGT_TAGS_MAX)
		return refuse(why, "tags", "must be a list of at most 32");
	while ((r = fgt_message_next(&array, &element)) == 0) {
		r = get_tag(&element, &room->tags[count++], why);
		if (r < 0)
			break;
	}
	room->facts.tags = room->tags;
	room->facts.tag_count = count;
	return r == -ENOENT
		       ? 0
		       : refuse(why, "tags", "must be maps of key and value");
}

static int get_thread_run(const struct fgt_message *element,
			  struct fgt_thread_run *ret_thread_run)
{
	int64_t tid = 0;
	int r = fgt_message_get_int(element, "tid", &tid);

	if (r == 0 && !is_tid(tid))
		r = -EINVAL;
	if (r == 0)
		r = fgt_message_get_uint(element, "from_ns",
					 &ret_thread_run->from_ns);
	if (r == 0 || r == -ENOENT)
		r = fgt_message_get_uint(element, "to_ns",
					 &ret_thread_run->to_ns);
	ret_thread_run->tid = (int32_t)tid;
	return r == -ENOENT ? 0 : r;
}

static int get_thread_runs(const struct fgt_message *message,
			   struct fgt_facts_room *room, struct fgt_why *why)
{
	struct fgt_message_array array = { .count = 0 };
	struct fgt_message element;
	size_t count = 0;
	int r = fgt_message_get_array(message, "tids", &array);

	if ((r < 0 && r != -ENOENT) ||
	    array.count > FGT_TRANSACTION_THREAD_RUNS)
		return refuse(why, "tids", "must be a list of at most 256");
	while ((r = fgt_message_next(&array, &element)) == 0) {
		r = get_thread_run(&element, &room->thread_runs[count++]);
		if (r < 0)
			break;
	}
	room->facts.thread_runs = room->thread_runs;
	room->facts.thread_run_count = count;
	return r == -ENOENT ? 0
			    : refuse(why, "tids",
				     "must be maps of tid, from_ns and to_ns");
}

/* Without a name there is no transaction. */
static int read_texts_only(struct fgt_transaction_facts *facts)
{
	const struct fgt_transaction_facts kept = {
		.release = facts->release,
		.environment = facts->environment,
	};

	*facts = kept;
	return kept.release || kept.environment ? 0 : -ENOENT;
}

int fgt_facts_read(const struct fgt_message *message,
		   struct fgt_facts_room *ret_room, struct fgt_why *why)
{
	struct fgt_transaction_facts *facts = &ret_room->facts;
	int r;

	memset(ret_room, 0, sizeof(*ret_room));
	r = get_texts(message, facts, why);
	if (r == 0 && !facts->name)
		return read_texts_only(facts);
	if (r == 0)
		r = get_ids(message, facts, why);
	if (r == 0)
		r = get_numbers(message, facts, why);
	if (r == 0)
		r = get_tags(message, ret_room, why);
	return r < 0 ? r : get_thread_runs(message, ret_room, why);
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
	if (!fgt_facts_of_transaction(facts))
		return;
	/* Also when it is empty: a name marks a transaction. */
	fgt_builder_string(builder, "name", facts->name);
	put_text(builder, "op", facts->op);
	put_text(builder, "status", facts->status);
	put_text(builder, "level", facts->level);
	put_text(builder, "event_id", facts->event_id);
	put_text(builder, "trace_id", facts->trace_id);
	put_text(builder, "span_id", facts->span_id);
	put_text(builder, "parent_span_id", facts->parent_span_id);
	fgt_builder_uint(builder, "begin_ns", facts->begin_ns);
	fgt_builder_uint(builder, "end_ns", facts->end_ns);
	fgt_builder_int(builder, "active_tid", facts->active_tid);
	fgt_builder_bool(builder, "all_threads", facts->all_threads);
	put_arrays(builder, facts);
}
