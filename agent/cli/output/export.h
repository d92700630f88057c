/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What slice, record and convert do with a slice once they have it: names,
 * file, upload, summary. Planned before the slice is made, so that a mistake in
 * the flags is reported at once.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_EXPORT_H
#define FGT_AGENT_CLI_OUTPUT_EXPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/cli/options.h"
#include "agent/cli/output/form.h"
#include "agent/cli/output/json_to.h"
#include "agent/cli/output/output.h"
#include "agent/config/config.h"
#include "agent/unwind/maps/image_file.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/deliver/dispatch.h"
#include "upload/why/filter.h"

/* Rows of a verb's table of flags: a part of a slice. */
#define FGT_FILTER_OPTIONS                                                     \
	{ "thread", 0, "PATTERN",                                              \
	  "threads with such a name or number; * is any text", NULL },         \
		{ "state", 0, "PATTERN",                                       \
		  "samples in such a state: futex, epoll_*, blocked", NULL },  \
		{ "function", 0, "PATTERN",                                    \
		  "samples with such a function on the stack", NULL },         \
		{ "running", 0, NULL,                                          \
		  "samples of threads that ran or wanted a CPU", NULL },       \
	{                                                                      \
		"no-idle", 0, NULL, "no threads that never changed", NULL      \
	}

/* Rows of a verb's table of flags. */
#define FGT_EXPORT_OPTIONS                                                     \
	{ "output", 'o', "FILE",                                               \
	  "file or directory, - is standard output (default: see below)",      \
	  NULL },                                                              \
		{ "format", 'f', "FORMAT",                                     \
		  "fgt, chrome, sentry, sentry-chunk, pprof, folded, "         \
		  "speedscope, otlp, perfetto, md",                            \
		  NULL },                                                      \
		{ "state-frames", 0, "WHERE",                                  \
		  "root, leaf, no or auto: where stacks name the state",       \
		  NULL },                                                      \
		{ "otlp-shape", 0, "SHAPE",                                    \
		  "of OTLP samples: timestamps, or sum, which Pyroscope "      \
		  "needs",                                                     \
		  NULL },                                                      \
		{ "waits", 0, NULL,                                            \
		  "folded: above a stack that waits, that of the holder",      \
		  NULL },                                                      \
		{ "top", 0, "N",                                               \
		  "print the N hottest functions and longest waits, 0: all",   \
		  NULL },                                                      \
		{ "threads", 0, "N",                                           \
		  "print the N threads that ran most, 0: all (with --top: as " \
		  "many, 40 at most)",                                         \
		  NULL },                                                      \
		{ "json", 0, NULL,                                             \
		  "print the summary as JSON on standard output", NULL },      \
		FGT_JSON_TO_OPTION,                                            \
	{                                                                      \
		"quiet", 'q', NULL, "print errors only", NULL                  \
	}
/* unless: the flags of the verb that ask for something else than a file. */
#define FGT_EXPORT_TEXT_UNLESS(unless)                                         \
	"The format follows FILE's name: .fgt (loss-free), .trace.json "       \
	"(Chrome,\nPerfetto), .envelope and .chunk.envelope (Sentry), "        \
	".pb.gz (pprof), .folded\n(flame graphs), .speedscope.json, .otlp "    \
	"(OpenTelemetry), .pftrace (Perfetto);\neach but .fgt also + .gz.\n"   \
	"Without -o and -f a file named after the "                            \
	"target is written here, unless\n" unless                              \
	" asks for something else; in FILE if that is a directory.\n"          \
	"Files are readable by you only.\n"
#define FGT_EXPORT_TEXT                                                        \
	FGT_EXPORT_TEXT_UNLESS("--top, --threads, -f md or --json")
#define FGT_EXPORT_UPLOAD_TEXT                                                 \
	FGT_EXPORT_TEXT_UNLESS("--top, --threads, -f md, --json or --upload")

/* Rows of a verb's table of flags that uploads. */
#define FGT_EXPORT_UPLOAD_OPTIONS                                              \
	{ "upload", 0, "[DEST]",                                               \
	  "send it to a destination of the configuration, a URL or a "         \
	  "directory",                                                         \
	  NULL },                                                              \
	{                                                                      \
		"dsn-file", 0, "FILE", "send it to the Sentry DSN in FILE",    \
			NULL                                                   \
	}

struct fgt_export {
	const char *verb;
	bool is_file_wanted, is_upload_wanted, is_quiet;
	bool with_waits; /* in folded stacks */
	enum fgt_form form; /* of the summary */
	struct fgt_output_choice choice;
	enum fgt_state_frames state_frames;
	enum fgt_otlp_shape otlp_shape;
	uint32_t top; /* 0: no tables of functions and waits */
	uint32_t threads; /* 0: no table of threads */
	struct fgt_json_to *json; /* of the summary; NULL: nowhere */
	struct fgt_destination *destination; /* of an upload */
	const struct fgt_config *config; /* borrowed */
	struct stat input; /* must not be the output; all 0: none */
	struct fgt_filter filter;
};

/* The flags of FGT_FILTER_OPTIONS; borrowed. */
struct fgt_filter fgt_export_filter(const struct fgt_arguments *arguments);

/*
 * Reads the flags. A destination is looked up only if the verb has --upload and
 * it was given. -EINVAL and the errors of fgt_destination_load(), with why.
 */
int fgt_export_plan(const struct fgt_arguments *arguments,
		    const struct fgt_config *config,
		    struct fgt_export *ret_export, struct fgt_why *why);

/* Overwrites the destination's secrets, closes its file of JSON. */
void fgt_export_done(struct fgt_export *plan);
static inline void fgt_export_done_auto(struct fgt_export *plan)
{
	fgt_export_done(plan);
}

/* Reports now that a file could not be written later. */
enum fgt_exit fgt_export_check(const struct fgt_export *plan);

/*
 * Writes, uploads and summarizes what the filter takes of a slice that has its
 * symbols; prints errors
 * and, unless quiet, notes to stderr.
 */
enum fgt_exit fgt_export_run(const struct fgt_export *plan,
			     const struct fgt_ring_slice *slice);

/*
 * Names the frames that have no symbols yet. cache: the files that a sampler
 * of this process kept open, or NULL. is_live: the slice's process still runs
 * here. -ENOMEM.
 */
int fgt_export_resolve(struct fgt_ring_slice *slice,
		       const struct fgt_config *config,
		       struct fgt_image_cache *cache, bool is_live);

/* ---- Between the parts of exporting -------------------------------------- */

/* Notes on stderr of what the slice lacks of what was asked for. */
void fgt_export_note(const struct fgt_export *plan,
		     const struct fgt_ring_slice *slice);
/* Is a file or an upload an envelope of Sentry? */
bool fgt_export_is_for_sentry(const struct fgt_export *plan);

#endif
