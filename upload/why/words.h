/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread does, in words. Names in them come from outside: a printer must
 * take control characters out.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_WORDS_H
#define FGT_UPLOAD_WHY_WORDS_H

#include <stddef.h>

#include "upload/why/doing.h"

#define FGT_WORDS_MAX 512 /* NUL included; longer text is cut */

struct fgt_words {
	char text[FGT_WORDS_MAX];
	size_t len;
};

/* Appends; cut at FGT_WORDS_MAX. */
void fgt_words_add(struct fgt_words *words, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The reason of a wait: "mutex g_lock, held by flusher (tid 12)", "fsync of
 * /var/lib/x.wal", "asleep by choice for 40 ms", "notification". wait: index
 * into waits + 1, 0: by the state alone.
 */
void fgt_words_add_wait(struct fgt_words *words,
			const struct fgt_ring_slice *slice, uint32_t wait,
			uint32_t state);

/* "postgres (pid 12)", "postgres (pid 12) and 7 more processes" */
void fgt_words_add_process(struct fgt_words *words,
			   const struct fgt_ring_slice *slice);

/* "lookup → pthread_mutex_lock: mutex g_lock, held by flusher (tid 12)",
 * "parse, running", "waiting for a CPU". */
void fgt_words_add_doing(struct fgt_words *words,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_doing *doing);

/* before and "handle, serve": the callers; nothing if there are none. */
#define FGT_WORDS_CALLED_BY ", called by "
void fgt_words_add_callers(struct fgt_words *words,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_place *place, const char *before);

/* "flusher (tid 12)", "flusher (tid 12 of pid 10)" in a slice of several
 * processes, unless it is the first one of its process; the bare number where it
 * is not in the slice. */
void fgt_words_add_thread(struct fgt_words *words,
			  const struct fgt_ring_slice *slice, int32_t tid);

/* "12.3 ms", "1.25 s" */
void fgt_words_add_ms(struct fgt_words *words, double ms);

/* "the rate was lowered to 25 Hz for 1.0 s, …"; nothing if it was not. */
void fgt_words_add_pace(struct fgt_words *words,
			const struct fgt_ring_slice *slice);

/* A wait in one word, for tables and machines: "mutex", "descriptor", … */
const char *fgt_words_kind(uint32_t kind);

#endif
