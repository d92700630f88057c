/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log's life, and its writers' side. Any thread of the program; must
 * not wait, and must not make a system call where a record is appended.
 */
#include "ringbuf/spans/span_log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/spans/span_region.h"

/* Chunks that are looked at before a record is given up. */
#define CLAIM_TRIES 64

/* ---- Life --------------------------------------------------------------- */

int fgt_span_log_adopt(struct fgt_span_log *log, int fd)
{
	struct fgt_file_id file;
	int rc = fgt_file_id_get(fd, &file);

	if (rc < 0)
		return rc;
	log->file = file;
	log->memfd = fd;
	return 0;
}

int fgt_span_log_make(uint32_t chunk_count, struct fgt_span_log **ret_log)
{
	struct fgt_span_log *log = calloc(1, sizeof(*log));

	if (!log)
		return -ENOMEM;
	log->memfd = -1;
	log->chunk_count = chunk_count;
	log->len_bytes = fgt_span_region_bytes(chunk_count);
	*ret_log = log;
	return 0;
}

int fgt_span_log_map(struct fgt_span_log *log)
{
	int shared = log->memfd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *memory = mmap(NULL, log->len_bytes, PROT_READ | PROT_WRITE,
			    shared | MAP_NORESERVE, log->memfd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	log->region = memory;
	return 0;
}

int fgt_span_log_new(size_t size_bytes, struct fgt_span_log **ret_log)
{
	FGT_AUTO(fgt_span_log_free) struct fgt_span_log *log = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int r;

	if (size_bytes < FGT_SPAN_LOG_BYTES_MIN ||
	    size_bytes > FGT_SPAN_LOG_BYTES_MAX)
		return -EINVAL;
	r = fgt_span_log_make(
		(uint32_t)(size_bytes / FGT_SPAN_LOG_CHUNK_BYTES - 1), &log);
	if (r == 0)
		r = fgt_memfd_open(FGT_SPAN_MEMFD_NAME, log->len_bytes, &fd);
	if (r == 0)
		r = fgt_span_log_adopt(log, fd);
	if (r < 0)
		return r;
	(void)FGT_TAKE_FD(fd);
	r = fgt_span_log_map(log);
	if (r == 0)
		r = fgt_memfd_seal(log->memfd);
	if (r < 0)
		return r;
	log->region->magic = FGT_SPAN_REGION_MAGIC;
	log->region->version = FGT_SPAN_REGION_VERSION;
	log->region->chunk_count = log->chunk_count;
	*ret_log = FGT_TAKE(log);
	return 0;
}

void fgt_span_log_abandon(struct fgt_span_log *log)
{
	if (log->region)
		munmap(log->region, log->len_bytes);
	log->region = NULL;
	fgt_fd_close(fgt_span_log_fd(log));
	log->memfd = -1;
}

void fgt_span_log_free(struct fgt_span_log *log)
{
	if (!log)
		return;
	fgt_span_log_abandon(log);
	free(log);
}

int fgt_span_log_fd(const struct fgt_span_log *log)
{
	return fgt_file_id_is(&log->file, log->memfd) ? log->memfd : -1;
}

uint64_t fgt_span_log_halves(const struct fgt_span_log *log)
{
	return atomic_load_explicit(&log->region->next, memory_order_relaxed) *
	       2 / log->chunk_count;
}

size_t fgt_number_text(uint64_t number, char ret_text[FGT_NUMBER_TEXT_SIZE])
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz_-";
	size_t len = 0;

	do {
		ret_text[len++] = digits[number & 63];
		number >>= 6;
	} while (number);
	ret_text[len] = 0;
	return len;
}

/* ---- Writing ------------------------------------------------------------ */

/*
 * Takes the chunk of that number, unless it is in a newer hand or a record is
 * being written to it.
 */
static bool take_chunk(struct fgt_span_region *region,
		       struct fgt_span_chunk *chunk, uint64_t number,
		       uint64_t *ret_state)
{
	/* Acquire: pairs with the release store that ends a record. */
	uint64_t old =
		atomic_load_explicit(&chunk->state, memory_order_acquire);
	uint64_t mine = number << FGT_CHUNK_NUMBER;

	if (old & FGT_CHUNK_BUSY || fgt_chunk_number(old) >= number)
		return false;
	/* Acquire and release: readers that see words of this owner see this,
	 * too. */
	if (!atomic_compare_exchange_strong_explicit(
		    &chunk->state, &old, mine | FGT_CHUNK_BUSY,
		    memory_order_acq_rel, memory_order_relaxed))
		return false;
	/* Relaxed: only a counter. */
	atomic_fetch_add_explicit(&region->evicted, fgt_chunk_records(old),
				  memory_order_relaxed);
	*ret_state = mine;
	return true;
}

/*
 * No chunk that was handed out has a number above next: readers leave newer
 * chunks for later. (A number may be from memory that was exchanged since for a
 * copy in which next is less.)
 */
static void raise_next(struct fgt_span_region *region, uint64_t number)
{
	uint64_t next =
		atomic_load_explicit(&region->next, memory_order_relaxed);

	while (next < number &&
	       !atomic_compare_exchange_weak_explicit(
		       &region->next, &next, number, memory_order_relaxed,
		       memory_order_relaxed))
		;
}

static struct fgt_span_chunk *claim(struct fgt_span_log *log,
				    struct fgt_span_writer *writer)
{
	struct fgt_span_region *region = log->region;

	for (int i = 0; i < CLAIM_TRIES; i++) {
		/* Relaxed: the chunk's state decides which thread owns it. */
		uint64_t number = atomic_fetch_add_explicit(
			&region->next, 1, memory_order_relaxed);
		uint32_t at = (uint32_t)(number % log->chunk_count);

		if (!take_chunk(region, &region->chunks[at], number + 1,
				&writer->state))
			continue;
		raise_next(region, number + 1);
		writer->chunk = at + 1;
		return &region->chunks[at];
	}
	writer->chunk = 0;
	atomic_fetch_add_explicit(&region->lost, 1, memory_order_relaxed);
	return NULL;
}

/* A chunk with so much room, marked as being written to; NULL: lost. */
static struct fgt_span_chunk *
hold(struct fgt_span_log *log, struct fgt_span_writer *writer, uint32_t words)
{
	struct fgt_span_chunk *chunk;
	uint64_t mine = writer->state;

	if (!writer->chunk ||
	    fgt_chunk_used(mine) + words > FGT_SPAN_CHUNK_WORDS)
		return claim(log, writer);
	chunk = &log->region->chunks[writer->chunk - 1];
	/* Fails if another thread took the chunk. Acquire: nothing is stored
	 * before this thread holds it. */
	if (atomic_compare_exchange_strong_explicit(
		    &chunk->state, &mine, mine | FGT_CHUNK_BUSY,
		    memory_order_acquire, memory_order_relaxed))
		return chunk;
	return claim(log, writer);
}

/* Release: see the top of span_log.h. */
static void put_word(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

static uint64_t sixth_word(const struct fgt_span_record *record)
{
	uint64_t word = record->is_again ? 1 : record->end_ns;

	if (record->kind == FGT_SPAN_COUNTER)
		memcpy(&word, &record->value, sizeof(word));
	return word;
}

/* text: len bytes, the key's first. Straight into the chunk, a word at a time:
 * this is most of what a span costs. */
static int append(struct fgt_span_log *log, struct fgt_span_writer *writer,
		  const struct fgt_span_record *record, const char *text,
		  uint32_t key_len, uint32_t len)
{
	uint32_t count = FGT_SPAN_FIXED_WORDS + (len + 7) / 8;
	struct fgt_span_chunk *chunk = hold(log, writer, count);
	_Atomic uint64_t *words;

	if (!chunk)
		return -ENOBUFS;
	words = &chunk->words[fgt_chunk_used(writer->state)];
	put_word(words++, (uint64_t)record->kind | (uint64_t)count << 8 |
				  (uint64_t)key_len << 16 |
				  (uint64_t)(len - key_len) << 24 |
				  (uint64_t)(uint32_t)record->tid << 32);
	put_word(words++, (uint64_t)record->parent_track << 32 | record->track);
	put_word(words++, record->number);
	put_word(words++, record->owner);
	put_word(words++, record->begin_ns);
	put_word(words++, sixth_word(record));
	for (uint32_t at = 0; at < len; at += 8)
		put_word(words++, fgt_text_word(text, len, at));
	writer->state = fgt_chunk_grown(writer->state, count);
	/* Release: pairs with the readers' first load of the state; no other
	 * thread stores to it while it is busy. */
	atomic_store_explicit(&chunk->state, writer->state,
			      memory_order_release);
	return 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Key and value make one text. */
static int append_label(struct fgt_span_log *log,
			struct fgt_span_writer *writer,
			const struct fgt_span_record *record)
{
	uint32_t key_len = least(record->key_len, FGT_LABEL_KEY_MAX);
	uint32_t text_len = least(record->text_len, FGT_LABEL_VALUE_MAX);
	char joined[FGT_LABEL_KEY_MAX + FGT_LABEL_VALUE_MAX];

	memcpy(joined, record->key, key_len);
	if (text_len)
		memcpy(joined + key_len, record->text, text_len);
	return append(log, writer, record, joined, key_len, key_len + text_len);
}

int fgt_span_log_append(struct fgt_span_log *log,
			struct fgt_span_writer *writer,
			const struct fgt_span_record *record)
{
	if (record->key_len)
		return append_label(log, writer, record);
	return append(log, writer, record, record->text, 0,
		      least(record->text_len, FGT_LABEL_VALUE_MAX));
}
