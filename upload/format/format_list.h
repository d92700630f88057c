/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of output formats: the one place that knows names and file endings.
 * Of libc only, so that libfgtrace can use it without any encoder.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_FORMAT_LIST_H
#define FGT_UPLOAD_FORMAT_FORMAT_LIST_H

#include <stddef.h>
#include <string.h>
#include <strings.h>

/*
 * X(id, name, ending, enum fgt_gzip_use without FGT_GZIP_, encoder). The order
 * is that of enum fgt_format in fgtrace.h, which programs are compiled with: a
 * new format goes last.
 */
#define FGT_FORMAT_LIST(X)                                                     \
	X(FGT, "fgt", ".fgt", NEVER, write_fgt)                                \
	X(CHROME, "chrome", ".trace.json", AS_WANTED, fgt_chrome_write)        \
	X(SENTRY, "sentry", ".envelope", AS_WANTED, fgt_sentry_write)          \
	X(SENTRY_CHUNK, "sentry-chunk", ".chunk.envelope", AS_WANTED,          \
	  fgt_sentry_chunk_write)                                              \
	X(PPROF, "pprof", ".pb.gz", WITHIN, fgt_pprof_write)                   \
	X(FOLDED, "folded", ".folded", AS_WANTED, fgt_folded_write)            \
	X(SPEEDSCOPE, "speedscope", ".speedscope.json", AS_WANTED,             \
	  fgt_speedscope_write)                                                \
	X(OTLP, "otlp", ".otlp", BINARY, fgt_otlp_write)                       \
	X(PERFETTO, "perfetto", ".pftrace", BINARY, fgt_perfetto_write)

#define FGT_FORMAT_KIND(id, ...) FGT_KIND_##id,
enum fgt_format_kind {
	FGT_FORMAT_LIST(FGT_FORMAT_KIND) FGT_KIND_COUNT
};

/* " .fgt .trace.json …", " fgt chrome …": for messages. */
#define FGT_FORMAT_ENDING(id, name, ending, ...) " " ending
#define FGT_FORMAT_NAME(id, name, ...)		 " " name
#define FGT_FORMAT_ENDINGS			 FGT_FORMAT_LIST(FGT_FORMAT_ENDING)
#define FGT_FORMAT_NAMES			 FGT_FORMAT_LIST(FGT_FORMAT_NAME)

/*
 * The format whose ending path[len] has, in any case of letters; the longest
 * ending wins (.chunk.envelope before .envelope). FGT_KIND_COUNT if none fits.
 */
static inline enum fgt_format_kind fgt_format_of_ending(const char *path,
							size_t len)
{
#define FGT_FORMAT_ENDING_ITEM(id, name, ending, ...) ending,
	static const char *const endings[] = { FGT_FORMAT_LIST(
		FGT_FORMAT_ENDING_ITEM) };
	enum fgt_format_kind kind = FGT_KIND_COUNT;
	size_t longest = 0;

	for (unsigned int i = 0; i < FGT_KIND_COUNT; i++) {
		size_t ending_len = strlen(endings[i]);

		if (ending_len > longest && len > ending_len &&
		    !strncasecmp(path + len - ending_len, endings[i],
				 ending_len)) {
			kind = (enum fgt_format_kind)i;
			longest = ending_len;
		}
	}
	return kind;
}

#endif
