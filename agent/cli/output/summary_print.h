/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a slice holds: a sentence, tables, or one JSON object.
 */
#ifndef FGT_AGENT_CLI_OUTPUT_SUMMARY_PRINT_H
#define FGT_AGENT_CLI_OUTPUT_SUMMARY_PRINT_H

#include <stdio.h>

#include "agent/cli/output/summary.h"
#include "upload/deliver/sentry_upload.h"

/* What became of the slice; NULL or zero where it does not apply. */
struct fgt_summary_fate {
	const char *path; /* of the file written, "-" for standard output */
	const char *format; /* its name */
	uint64_t bytes;
	const char *dsn; /* redacted */
	const struct fgt_upload_outcome *upload;
	const char *upload_error;
};

/* "5.0 s of redis-server (1234): 4 threads, 505 ticks at 101.0 Hz, …" */
void fgt_summary_print_line(const struct fgt_ring_slice *slice,
			    const struct fgt_summary *summary, FILE *file);

/* The top hottest functions, then each thread. */
void fgt_summary_print_tables(const struct fgt_summary *summary, uint32_t top,
			      FILE *file);

/* One JSON object with all of it, ended by a newline; errno of write(). */
int fgt_summary_print_json(const struct fgt_ring_slice *slice,
			   const struct fgt_summary *summary, uint32_t top,
			   const struct fgt_summary_fate *fate, FILE *file);

/*
 * Text from outside: control characters and what is not UTF-8 become '?', more
 * than so many characters are cut, with "..." at the end. Returns the
 * characters printed.
 */
size_t fgt_print_text(FILE *file, const char *text, size_t columns);
/* The same, filled up with blanks. */
void fgt_print_padded(FILE *file, const char *text, size_t columns);

#endif
