/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why something failed, in one line for a person: the cause and the remedy.
 * Travels beside a negative errno from where the cause is known to where the
 * error is printed.
 */
#ifndef FGT_RINGBUF_BASE_WHY_H
#define FGT_RINGBUF_BASE_WHY_H

#define FGT_PRINTF(format_index, first_argument)                               \
	__attribute__((format(printf, format_index, first_argument)))

/* Of -ENOMEM, for every room. */
#define FGT_NO_MEMORY                                                          \
	"out of memory: free some, or raise the limit (ulimit -v, MemoryMax=)"

/* Of -ESRCH; %d is the process. */
#define FGT_PROCESS_HAS_ENDED "process %d has ended: name one that runs"

struct fgt_why {
	char text[400]; /* NUL-terminated, no newline, "" when unset */
};

/*
 * Sets the text (control characters become '?', long text is cut) and returns
 * error, so that a function can end with return fgt_why_set(why, -EPERM, …).
 * why may be NULL.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_why_set(struct fgt_why *why, int error, const char *format, ...)
	FGT_PRINTF(3, 4);

#endif
