/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command line prints for a person: errors of one line, notes.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_COMPLAINT_H
#define FGT_AGENT_CLI_COMPLAINT_H

#include <stddef.h>

#include "agent/cli/verb.h"
#include "ringbuf/base/why.h"

/*
 * "fgtrace-agent: VERB: cause; remedy" as one line on stderr (control
 * characters become '?'); verb may be NULL. Returns status, so that a verb can
 * end with return fgt_complain(…).
 */
int fgt_complain(const char *verb, enum fgt_exit status, const char *format,
		 ...) FGT_PRINTF(3, 4);

/* The same with the text of why; without text it is lack of memory. */
int fgt_complain_why(const char *verb, enum fgt_exit status,
		     const struct fgt_why *why);

/* The same shape for a note that is no error. */
void fgt_note(const char *verb, const char *format, ...) FGT_PRINTF(2, 3);

/* A sink's write() for a FILE. */
int fgt_file_write(void *file, const void *bytes, size_t len);

/* Flushes standard output: FGT_EXIT_OK, or a failure, which is printed unless
 * the reader of a pipe went away. */
enum fgt_exit fgt_finish_stdout(const char *verb);

/* A negative errno → exit status: ok, not permitted, no data, or failure. */
enum fgt_exit fgt_exit_of(int error);

/* Text of a negative errno; thread-safe in the way strerrordesc_np is. */
const char *fgt_error_text(int error);

#endif
