/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of the span log's region: a header of one page, then the chunks.
 * Between span_log.c, which writes, span_log_read.c and span_log_copy.c.
 *
 * MT-Unsafe for one log (_adopt) | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SPANS_SPAN_REGION_H
#define FGT_RINGBUF_SPANS_SPAN_REGION_H

#include <stdatomic.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/spans/span_log.h"

#define FGT_SPAN_REGION_MAGIC	0x314e505354474600u /* "\0FGTSPN1" */
#define FGT_SPAN_REGION_VERSION 1
#define FGT_SPAN_MEMFD_NAME	"fgtrace-spans"
#define FGT_SPAN_CHUNK_WORDS	(FGT_SPAN_LOG_CHUNK_BYTES / 8 - 1)

/* A record: six words, then the bytes of key and text, padded with zeros. */
#define FGT_SPAN_FIXED_WORDS 6
#define FGT_SPAN_WORDS_MAX                                                     \
	(FGT_SPAN_FIXED_WORDS +                                                \
	 (FGT_LABEL_KEY_MAX + FGT_LABEL_VALUE_MAX + 7) / 8)

struct fgt_span_chunk {
	_Atomic uint64_t state; /* see below; 0: never used */
	_Atomic uint64_t words[FGT_SPAN_CHUNK_WORDS];
};

struct fgt_span_region {
	uint64_t magic;
	uint32_t version, chunk_count; /* never change */
	char unused[48];
	_Atomic uint64_t next; /* chunks handed out since the log began */
	_Atomic uint64_t evicted; /* records in chunks that changed hands */
	_Atomic uint64_t lost;
	char rest[FGT_SPAN_LOG_CHUNK_BYTES - 88];
	struct fgt_span_chunk chunks[];
};

static inline size_t fgt_span_region_bytes(uint32_t chunk_count)
{
	return sizeof(struct fgt_span_region) +
	       (size_t)chunk_count * sizeof(struct fgt_span_chunk);
}

struct fgt_span_log {
	struct fgt_span_region *region;
	size_t len_bytes;
	uint32_t chunk_count; /* as it was checked; the region's may change */
	int memfd; /* -1: only read, or not shared at the moment */
	/* The identity of the memfd: a program may close it, as it does with
	 * all that are not its own, and get the number again for another file.
	 */
	struct fgt_file_id file;
};

/* A handle without memory and memfd. -ENOMEM. */
int fgt_span_log_make(uint32_t chunk_count, struct fgt_span_log **ret_log);

/* Its memory: shared by its memfd, or private where it has none. errno of
 * mmap(2). */
int fgt_span_log_map(struct fgt_span_log *log);

/* The memfd is the log's from now on, unless this fails. errno of fstat(2). */
int fgt_span_log_adopt(struct fgt_span_log *log, int fd);

/*
 * State of a chunk, from the low end: 1 bit: a record is being written, 10 bits
 * of words that are complete, 10 bits of records that these are, the rest the
 * number under which it was handed out, from 1 on.
 */
#define FGT_CHUNK_BUSY	 UINT64_C(1)
#define FGT_CHUNK_NUMBER 21

static inline uint32_t fgt_chunk_used(uint64_t state)
{
	return (uint32_t)(state >> 1) & 1023;
}

static inline uint32_t fgt_chunk_records(uint64_t state)
{
	return (uint32_t)(state >> 11) & 1023;
}

static inline uint64_t fgt_chunk_number(uint64_t state)
{
	return state >> FGT_CHUNK_NUMBER;
}

static inline uint64_t fgt_chunk_grown(uint64_t state, uint32_t words)
{
	return state + ((uint64_t)words << 1) + (UINT64_C(1) << 11);
}

#endif
