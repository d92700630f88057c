/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of output formats: names, file endings, encoders.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_FORMAT_H
#define FGT_UPLOAD_FORMAT_FORMAT_H

#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/format_list.h"
#include "upload/format/parts/options.h"

/*
 * "chrome" → FGT_KIND_CHROME; -EINVAL and why names the known formats and
 * the nearest one.
 */
int fgt_format_from_name(const char *name, enum fgt_format_kind *ret_format,
			 struct fgt_why *why);

/*
 * The format by file name: .fgt, .pb.gz; .trace.json, .envelope,
 * .chunk.envelope, .folded, .speedscope.json, .otlp. The last six may have .gz
 * behind, which sets *ret_is_gzip: the caller compresses. -EINVAL and why
 * otherwise.
 */
int fgt_format_from_path(const char *path, enum fgt_format_kind *ret_format,
			 bool *ret_is_gzip, struct fgt_why *why);

/* "chrome" and ".trace.json"; "unknown" and "" of a number that is none. */
const char *fgt_format_name(enum fgt_format_kind format);
const char *fgt_format_ending(enum fgt_format_kind format);

/* Whether a file of this format may be compressed. */
enum fgt_gzip_use {
	FGT_GZIP_AS_WANTED, /* text, also as .gz */
	FGT_GZIP_BINARY, /* also as .gz */
	FGT_GZIP_NEVER, /* binary */
	FGT_GZIP_WITHIN, /* binary, compressed by the format itself */
};
enum fgt_gzip_use fgt_format_gzip_use(enum fgt_format_kind format);

/* "root", "leaf", "no"; -EINVAL. */
int fgt_state_frames_from_name(const char *name,
			       enum fgt_state_frames *ret_state_frames,
			       struct fgt_why *why);

/* "timestamps", "sum"; -EINVAL. */
int fgt_otlp_shape_from_name(const char *name, enum fgt_otlp_shape *ret_shape,
			     struct fgt_why *why);

/*
 * Writes the slice to the sink; streams, so memory does not grow with the
 * output. options may be NULL. Errors: the sink's; -ENODATA where the format's
 * readers would refuse the slice (Sentry: no thread with two samples); -EINVAL
 * for an id that is not 32 hex digits, or all zero; -EMSGSIZE for more than
 * 2 GiB of OTLP; -EOVERFLOW for more than FGT_TRACE_LINK_MAX trace ids;
 * -ENOMEM.
 *
 * A profile for Sentry has at most the last 30 s. Up to 10 MiB it has a sample
 * a tick and thread. Beyond that, only the active thread and those that ran or
 * changed their stack have, the busiest first; the other ones have a sample a
 * change. Durations stay exact. The transaction's extra lists what was left
 * out. A chunk has the same limits, and no such list; sentry_chunk.h writes a
 * longer slice as several chunks.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_format_write(const struct fgt_ring_slice *slice,
		     enum fgt_format_kind format,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink);

#endif
