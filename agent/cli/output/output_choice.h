/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file, in which format: what -o and -f say together.
 */
#ifndef FGT_AGENT_CLI_OUTPUT_OUTPUT_CHOICE_H
#define FGT_AGENT_CLI_OUTPUT_OUTPUT_CHOICE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/format.h"

struct fgt_output_choice {
	const char *path; /* NULL: named after the slice when it is there */
	enum fgt_format format;
	bool is_gzip;
};

/*
 * path and format_name as given, NULL if not: the format follows the name;
 * without either it is chrome, on standard output fgt. Bytes that are no text
 * are not written to a terminal. -EINVAL with why.
 */
int fgt_output_choose(const char *path, const char *format_name,
		      bool is_stdout_terminal,
		      struct fgt_output_choice *ret_choice,
		      struct fgt_why *why);

/* "redis-server-1234-20261121-143007-512.trace.json": the target and the wall
 * clock (local) of the slice's end. Nothing but [A-Za-z0-9._-] of the target's
 * name gets in (FAULTS Z5). */
void fgt_output_default_name(const struct fgt_ring_slice *slice,
			     const struct fgt_output_choice *choice,
			     char *ret_name, size_t size);

/* What to do with a file of this format, for a person; never NULL. */
const char *fgt_output_advice(enum fgt_format format);

#endif
