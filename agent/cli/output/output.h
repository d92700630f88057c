/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the command line writes, and in which format: a file that appears whole
 * or not at all, a device or pipe, or standard output.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_OUTPUT_H
#define FGT_AGENT_CLI_OUTPUT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/format.h"

/* ---- Which file, in which format, by -o and -f together ----------------- */

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

bool fgt_output_is_stdout(const struct fgt_output_choice *choice);

/* The format that the ending of the path names, if that is not the one chosen
 * (by -f); else FGT_KIND_COUNT. */
enum fgt_format_kind
fgt_output_misnamed(const struct fgt_output_choice *choice);

/* "DIR/redis-server-1234-20261121-143007-512.trace.json": the target and the
 * wall clock (local) of the slice's end. Of the target's name only
 * [A-Za-z0-9._-] are used: it must not name another directory. size:
 * PATH_MAX. */
void fgt_output_default_name(const struct fgt_ring_slice *slice,
			     const struct fgt_output_choice *choice,
			     char *ret_name, size_t size);

/* "slow.envelope" becomes "slow.1234.envelope". */
void fgt_output_name_process(const struct fgt_output_choice *choice,
			     int32_t pid, char ret_path[PATH_MAX]);

/* What can be done with a file of this format; never NULL. */
const char *fgt_output_advice(enum fgt_format_kind format);

/* ---- The file ----------------------------------------------------------- */

struct fgt_output;

/*
 * path "-" is standard output. A regular file is written under no name (or a
 * temporary one) beside its place, mode 0600, and gets its name by
 * fgt_output_commit(); devices and pipes are written as they are. A symbolic
 * link is followed only if it belongs to this user or root. errno of open,
 * -ELOOP, -EISDIR, -ENOMEM; why names path and remedy.
 */
int fgt_output_open(const char *path, bool is_gzip,
		    struct fgt_output **ret_output, struct fgt_why *why);

/* As fgt_output_open(), of another flag, which why names. */
int fgt_output_open_for(const char *flag, const char *path, bool is_gzip,
			struct fgt_output **ret_output, struct fgt_why *why);

/*
 * Whether a file could be written there, or (path NULL) into the directory ("":
 * the current one), without leaving a trace: an error before a recording is
 * better than one after it. Devices and pipes are not opened. Errors: as
 * fgt_output_open().
 */
int fgt_output_check(const char *path, const char *directory,
		     struct fgt_why *why);

/* The sink to encode into; valid until the output is freed. */
const struct fgt_sink *fgt_output_sink(struct fgt_output *output);

/*
 * Flushes and gives the file its name. encode_error is what the encoder
 * returned: if not 0 nothing appears, and why explains it when it was a
 * failure to write. -EPIPE: the reader of standard output or a pipe went away.
 */
int fgt_output_commit(struct fgt_output *output, int encode_error,
		      uint64_t *ret_bytes, struct fgt_why *why);

/* Discards what was not committed. NULL is fine. */
void fgt_output_free(struct fgt_output *output);
FGT_DEFINE_AUTO(struct fgt_output *, fgt_output_free);

#endif
