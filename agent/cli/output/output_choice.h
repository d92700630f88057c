/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file, in which format, by -o and -f together.
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
	const char *directory; /* of such a name; "": the current one */
	enum fgt_format_kind format;
	bool is_gzip;
};

/*
 * path and format_name as given, NULL if not: the format follows the name;
 * without either it is chrome, on standard output fgt. A path that ends with
 * '/' or is a directory is the directory of the automatic name. Bytes that are
 * no text are not written to a terminal. -EINVAL, -ENAMETOOLONG with why.
 */
int fgt_output_choose(const char *path, const char *format_name,
		      bool is_stdout_terminal,
		      struct fgt_output_choice *ret_choice,
		      struct fgt_why *why);

/* "DIR/redis-server-1234-20261121-143007-512.trace.json": the target and the
 * wall clock (local) of the slice's end. Of the target's name only
 * [A-Za-z0-9._-] are used: it must not name another directory. size:
 * PATH_MAX. */
void fgt_output_default_name(const struct fgt_ring_slice *slice,
			     const struct fgt_output_choice *choice,
			     char *ret_name, size_t size);

/* What can be done with a file of this format; never NULL. */
const char *fgt_output_advice(enum fgt_format_kind format);

#endif
