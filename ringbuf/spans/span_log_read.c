/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log's readers' side. Any thread of any process; copies a chunk,
 * checks whether it changed hands during the copy, and only then looks at the
 * copy. Must not write to the region, must check everything in it.
 */
#include "ringbuf/spans/span_log.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/spans/span_region.h"

struct seen {
	uint64_t number; /* of the chunk, as it was handed out */
	uint32_t words, records; /* that were read of it */
};

struct fgt_span_reader {
	uint64_t records; /* read so far */
	uint32_t chunk_count;
	struct seen seen[];
};

struct copy {
	uint64_t number;
	uint32_t first, end; /* words that are new, within words */
	uint64_t words[FGT_SPAN_CHUNK_WORDS];
};

int fgt_span_reader_new(const struct fgt_span_log *log,
			struct fgt_span_reader **ret_reader)
{
	struct fgt_span_reader *reader;

	reader = calloc(1, sizeof(*reader) +
				   log->chunk_count * sizeof(reader->seen[0]));
	if (!reader)
		return -ENOMEM;
	reader->chunk_count = log->chunk_count;
	*ret_reader = reader;
	return 0;
}

void fgt_span_reader_free(struct fgt_span_reader *reader)
{
	free(reader);
}

/* Chunks that were ever used: reading another would make the kernel give it
 * memory. */
static uint32_t count_used(const struct fgt_span_log *log, uint64_t next)
{
	return next < log->chunk_count ? (uint32_t)next : log->chunk_count;
}

/* So many chunks have been handed out. */
static uint64_t load_next(const struct fgt_span_log *log)
{
	return atomic_load_explicit(&log->region->next, memory_order_relaxed);
}

/* False: nothing new in it, it is newer than newest, or it changed hands while
 * it was copied. */
static bool copy_chunk(const struct fgt_span_chunk *shared,
		       const struct seen *seen, uint64_t newest,
		       struct copy *ret_copy)
{
	struct fgt_span_chunk *chunk = (struct fgt_span_chunk *)shared;
	/* Acquire: pairs with the release store that ends a record. */
	uint64_t state =
		atomic_load_explicit(&chunk->state, memory_order_acquire);
	uint32_t used = fgt_chunk_used(state);

	ret_copy->number = fgt_chunk_number(state);
	if (!ret_copy->number || ret_copy->number > newest ||
	    used > FGT_SPAN_CHUNK_WORDS)
		return false;
	ret_copy->end = used;
	ret_copy->first = 0;
	if (seen && seen->number == ret_copy->number)
		ret_copy->first = seen->words;
	if (ret_copy->first >= used)
		return false;
	/* Acquire: see the top of span_log.h. */
	for (uint32_t i = ret_copy->first; i < used; i++)
		ret_copy->words[i] = atomic_load_explicit(&chunk->words[i],
							  memory_order_acquire);
	state = atomic_load_explicit(&chunk->state, memory_order_acquire);
	return fgt_chunk_number(state) == ret_copy->number;
}

/* The record at word at; the words it takes, 0 if it is none. */
static uint32_t decode(const struct copy *copy, uint32_t at,
		       struct fgt_span_record *ret_record)
{
	const uint64_t *words = &copy->words[at];
	uint32_t left = copy->end - at, count, key_len, text_len;

	if (left < FGT_SPAN_FIXED_WORDS)
		return 0;
	count = (uint32_t)(words[0] >> 8) & 255;
	key_len = (uint32_t)(words[0] >> 16) & 255;
	text_len = (uint32_t)(words[0] >> 24) & 255;
	if (!(words[0] & 255) || (words[0] & 255) >= FGT_SPAN_KIND_COUNT ||
	    key_len > FGT_LABEL_KEY_MAX || text_len > FGT_LABEL_VALUE_MAX ||
	    count != FGT_SPAN_FIXED_WORDS + (key_len + text_len + 7) / 8 ||
	    count > left)
		return 0;
	*ret_record = (struct fgt_span_record){
		.kind = (enum fgt_span_kind)(words[0] & 255),
		.tid = (int32_t)(uint32_t)(words[0] >> 32),
		.number = words[2],
		.owner = words[3],
		.track = (uint32_t)words[1],
		.parent_track = (uint32_t)(words[1] >> 32),
		.begin_ns = words[4],
		.key = (const char *)&words[FGT_SPAN_FIXED_WORDS],
		.key_len = (uint8_t)key_len,
		.text_len = (uint8_t)text_len,
	};
	ret_record->text = ret_record->key + key_len;
	if (ret_record->kind == FGT_SPAN_COUNTER)
		memcpy(&ret_record->value, &words[5], sizeof(words[5]));
	else if (ret_record->kind == FGT_SPAN_TASK_END ||
		 ret_record->kind == FGT_SPAN_END)
		ret_record->end_ns = words[5];
	else
		ret_record->is_again = words[5] != 0;
	return count;
}

static int visit_chunk(const struct copy *copy, struct fgt_span_reader *reader,
		       struct seen *seen, fgt_span_visit *visit, void *context)
{
	struct fgt_span_record record;
	uint32_t at = copy->first, count, records = 0;
	int r = 0;

	while (at < copy->end && (count = decode(copy, at, &record)) > 0) {
		r = visit(context, &record);
		if (r)
			break;
		at += count;
		records++;
	}
	if (reader) {
		reader->records += records;
		if (seen->number != copy->number)
			seen->records = 0;
		seen->records += records;
		seen->number = copy->number;
		/* What cannot be read now cannot be read later either. */
		seen->words = r ? at : copy->end;
	}
	return r;
}

int fgt_span_log_read(const struct fgt_span_log *log,
		      struct fgt_span_reader *reader, fgt_span_visit *visit,
		      void *context)
{
	/* Chunks go round: the one that is handed out next is the oldest, and
	 * what is handed out from now on is for the next reading. */
	uint64_t newest = load_next(log);
	uint32_t chunks = count_used(log, newest), at = 0;
	struct copy copy;
	int r = 0;

	if (newest >= log->chunk_count)
		at = (uint32_t)(newest % log->chunk_count);
	for (uint32_t i = 0; i < chunks && !r; i++) {
		struct seen *seen = reader ? &reader->seen[at] : NULL;

		if (copy_chunk(&log->region->chunks[at], seen, newest, &copy))
			r = visit_chunk(&copy, reader, seen, visit, context);
		at = at + 1 < chunks ? at + 1 : 0;
	}
	return r;
}

void fgt_span_log_get_counts(const struct fgt_span_log *log,
			     struct fgt_span_log_counts *ret_counts)
{
	struct fgt_span_region *region = log->region;
	uint32_t chunks = count_used(log, load_next(log));

	ret_counts->lost =
		atomic_load_explicit(&region->lost, memory_order_relaxed);
	ret_counts->appended =
		atomic_load_explicit(&region->evicted, memory_order_relaxed);
	for (uint32_t i = 0; i < chunks; i++)
		ret_counts->appended += fgt_chunk_records(atomic_load_explicit(
			&region->chunks[i].state, memory_order_relaxed));
}

uint64_t fgt_span_reader_missed(const struct fgt_span_log *log,
				const struct fgt_span_reader *reader)
{
	/* Before the chunks: one that changes hands during the call is counted
	 * at the next call, not twice. */
	uint64_t evicted = atomic_load_explicit(&log->region->evicted,
						memory_order_acquire);
	uint64_t read = reader->records;
	uint32_t chunks = count_used(log, load_next(log));

	/* Records that were read, of those that are gone. */
	for (uint32_t i = 0; i < chunks; i++) {
		const struct seen *seen = &reader->seen[i];
		uint64_t state = atomic_load_explicit(
			&log->region->chunks[i].state, memory_order_acquire);

		if (seen->number == fgt_chunk_number(state))
			read -= seen->records;
	}
	return evicted > read ? evicted - read : 0;
}
