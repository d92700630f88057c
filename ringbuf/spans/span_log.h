/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log: what a program reports about itself (tasks, spans, marks,
 * counters, labels), in one flat region that other processes can map and that
 * outlives its writer.
 *
 * The region is a ring of chunks. A thread owns a chunk and appends to it; no
 * two threads write to one cache line, no thread waits. A thread that needs a
 * chunk takes the oldest one, even from its owner, which then takes another;
 * only a chunk that is being written to at this moment is passed over. So idle
 * threads cost nothing, and the latest records are kept.
 *
 * Order of all accesses: data words are stored with release order and loaded
 * with acquire order (plain moves on x86). A chunk's state is stored after the
 * words that it covers, and a chunk changes hands before its new owner stores
 * the first word: a reader that copied a word of a later owner sees, when it
 * loads the state again, that the chunk has changed hands.
 */
#ifndef FGT_RINGBUF_SPANS_SPAN_LOG_H
#define FGT_RINGBUF_SPANS_SPAN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"

#define FGT_SPAN_LOG_CHUNK_BYTES   4096u
#define FGT_SPAN_LOG_BYTES_DEFAULT (4u << 20)
#define FGT_SPAN_LOG_BYTES_MIN	   (16u << 10)
#define FGT_SPAN_LOG_BYTES_MAX	   (64u << 20)

#define FGT_SPAN_NAME_MAX   64 /* bytes, without '#N' and NUL */
#define FGT_SPAN_UNIQUE_MAX 72 /* bytes of a task's unique name, without NUL */
#define FGT_LABEL_KEY_MAX   32
#define FGT_LABEL_VALUE_MAX 200

/*
 * Numbers of tasks and spans, as programs see them. From the low end: 1 bit is
 * set for a span, 14 bits the slot of the task, 6 bits how many spans are
 * around a span, the rest a serial number that grows within the slot.
 */
#define FGT_NUMBER_SLOT_BITS   14
#define FGT_NUMBER_DEPTH_BITS  6
#define FGT_NUMBER_SERIAL_ONE  (UINT64_C(1) << 21)
#define FGT_NUMBER_SERIAL_MASK (~(FGT_NUMBER_SERIAL_ONE - 1))
/* Of tasks and spans that a sampler made of contexts of threads. */
#define FGT_NUMBER_OBSERVED (UINT64_C(1) << 63)
_Static_assert(FGT_SPAN_DEPTH_MAX == 1u << FGT_NUMBER_DEPTH_BITS,
	       "every depth has a number");

static inline bool fgt_number_is_span(uint64_t number)
{
	return number & 1;
}

static inline uint32_t fgt_number_slot(uint64_t number)
{
	return (uint32_t)(number >> 1) & ((1u << FGT_NUMBER_SLOT_BITS) - 1);
}

static inline uint32_t fgt_number_depth(uint64_t number)
{
	return (uint32_t)(number >> (1 + FGT_NUMBER_SLOT_BITS)) &
	       (FGT_SPAN_DEPTH_MAX - 1);
}

/* The number in few characters of [0-9A-Za-z_-], for log lines. Returns their
 * count. */
#define FGT_NUMBER_TEXT_SIZE 12
size_t fgt_number_text(uint64_t number, char ret_text[FGT_NUMBER_TEXT_SIZE]);

enum fgt_span_kind {
	FGT_SPAN_NONE,
	FGT_SPAN_TASK_BEGIN,
	FGT_SPAN_TASK_END, /* has all fields of its begin, too */
	FGT_SPAN_BEGIN,
	FGT_SPAN_END, /* has all fields of its begin, too */
	FGT_SPAN_MARK,
	FGT_SPAN_COUNTER,
	FGT_SPAN_LABEL,
	FGT_SPAN_KIND_COUNT
};

struct fgt_span_record {
	enum fgt_span_kind kind;
	int32_t tid; /* of the thread that began or reported it */
	uint64_t number; /* of the task or span; LABEL: of the span */
	uint64_t owner; /* of a task: its parent; else: the task; or 0 */
	/* Tasks of one unique name have one track, of another another one. */
	uint32_t track, parent_track; /* of the task, of its parent; or 0 */
	uint64_t begin_ns; /* CLOCK_MONOTONIC; or when it was reported */
	uint64_t end_ns; /* TASK_END, SPAN_END; else 0 */
	bool is_again; /* a begin that was reported before */
	double value; /* COUNTER */
	/* Not terminated. Name, or value of a label; UTF-8 if the program
	 * keeps its word. */
	const char *text, *key;
	uint8_t text_len, key_len; /* bytes; at most FGT_LABEL_…_MAX */
};

/*
 * The eight bytes of a text from at on, zeros after its end, without reading
 * beyond it. (A copy of any length would be a call, or cost as much as the rest
 * of a span.) Little-endian, as all supported machines are.
 */
static inline uint64_t fgt_text_word(const char *text, size_t len, size_t at)
{
	uint64_t word = 0;

	if (len - at >= sizeof(word)) {
		memcpy(&word, text + at, sizeof(word));
	} else if (len >= sizeof(word)) {
		memcpy(&word, text + len - sizeof(word), sizeof(word));
		word >>= 8 * (sizeof(word) - (len - at));
	} else {
		for (size_t i = at; i < len; i++)
			word |= (uint64_t)(uint8_t)text[i] << (8 * (i - at));
	}
	return word;
}

struct fgt_span_log;

/* A thread's place in the log; zeroed: none yet. */
struct fgt_span_writer {
	uint32_t chunk; /* its number in the region + 1 */
	uint64_t state; /* the chunk's state while this thread owns it */
};

/* An empty log in a memfd. -EINVAL out of range, -ENOMEM, errno of
 * memfd_create(2) and mmap(2). */
int fgt_span_log_new(size_t size_bytes, struct fgt_span_log **ret_log);

/*
 * A copy, for reading, of what the log of another process holds now; memfd is
 * borrowed for the call. -EINVAL if it is none, or might be truncated by its
 * owner; -ENOMEM, errno of pread(2).
 */
int fgt_span_log_open(int memfd, struct fgt_span_log **ret_log);
void fgt_span_log_free(struct fgt_span_log *log);
FGT_DEFINE_AUTO(struct fgt_span_log *, fgt_span_log_free);

/*
 * In the child of a fork, to which the log's memory is the parent's: unmaps
 * and closes, but leaves the handle itself, since memory may be locked.
 *
 * MT-Unsafe | AS-Safe
 */
void fgt_span_log_abandon(struct fgt_span_log *log);

/* The log's memfd, borrowed; -1 if it was opened for reading, has none at the
 * moment, or if the program has closed it. */
int fgt_span_log_fd(const struct fgt_span_log *log);

/*
 * Closes the memfd: processes that have mapped the log keep it, others cannot
 * map it. _share makes a new one with all that the log holds; no effect if
 * there is one. Records of the about one millisecond that this takes are lost.
 * -EBUSY a thread does not finish its record; errno of memfd_create(2),
 * mmap(2), mremap(2): the log continues without a memfd.
 *
 * MT-Safe with writers and readers, not with each other | AS-Unsafe
 */
void fgt_span_log_unshare(struct fgt_span_log *log);
int fgt_span_log_share(struct fgt_span_log *log);

/*
 * Never waits. -ENOBUFS: no room, counted as lost (only where as many threads
 * write at the same instant as there are chunks). Texts longer than their
 * maximum are cut.
 *
 * MT-Safe with one writer per thread | AS-Unsafe
 */
int fgt_span_log_append(struct fgt_span_log *log,
			struct fgt_span_writer *writer,
			const struct fgt_span_record *record);

/* Records since the log began. */
struct fgt_span_log_counts {
	uint64_t appended; /* records, evicted ones included */
	uint64_t lost; /* could not be appended */
};
void fgt_span_log_get_counts(const struct fgt_span_log *log,
			     struct fgt_span_log_counts *ret_counts);

/* How many times the whole log has been overwritten, in halves: records of two
 * halves ago may be gone. */
uint64_t fgt_span_log_halves(const struct fgt_span_log *log);

/* ---- Reading: checks everything in the region ---------------------------- */

/* Texts of the record live as long as the call. Not 0 stops the reading, and
 * the record counts as unread. */
typedef int fgt_span_visit(void *context, const struct fgt_span_record *record);

/* The position of one reader. */
struct fgt_span_reader;
int fgt_span_reader_new(const struct fgt_span_log *log,
			struct fgt_span_reader **ret_reader);
void fgt_span_reader_free(struct fgt_span_reader *reader);
FGT_DEFINE_AUTO(struct fgt_span_reader *, fgt_span_reader_free);

/*
 * Visits every record that is there (reader NULL), or that the reader has not
 * seen yet; in order within a thread, in no order between them. What damaged
 * parts hold is skipped. Returns the visitor's result, or 0.
 *
 * MT-Safe with one reader per thread | AS-Unsafe
 */
int fgt_span_log_read(const struct fgt_span_log *log,
		      struct fgt_span_reader *reader, fgt_span_visit *visit,
		      void *context);

/* Records that were overwritten before this reader came. */
uint64_t fgt_span_reader_missed(const struct fgt_span_log *log,
				const struct fgt_span_reader *reader);

#endif
