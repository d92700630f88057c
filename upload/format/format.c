/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of output formats. Runs in any thread.
 */
#include "upload/format/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ringbuf/base/nearest.h"
#include "ringbuf/slice/slice_codec.h"
#include "upload/format/parts/reasons.h"

static int write_fgt(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink)
{
	(void)options; /* loss-free: nothing to choose */
	return fgt_slice_encode(slice, sink);
}

static const struct format {
	const char *name;
	const char *ending;
	enum fgt_gzip_use gzip_use;
	fgt_encoder *write;
} formats[FGT_KIND_COUNT] = {
#define FORMAT(id, name, ending, gzip_use, write)                              \
	{ name, ending, FGT_GZIP_##gzip_use, write },
	FGT_FORMAT_LIST(FORMAT)
};

int fgt_format_from_name(const char *name, enum fgt_format_kind *ret_format,
			 struct fgt_why *why)
{
	struct fgt_nearest nearest;
	const char *near;

	fgt_nearest_init(&nearest, name);
	for (int i = 0; i < FGT_KIND_COUNT; i++) {
		if (!strcasecmp(name, formats[i].name)) {
			*ret_format = (enum fgt_format_kind)i;
			return 0;
		}
		fgt_nearest_offer(&nearest, formats[i].name);
	}
	near = nearest.best;
	return fgt_why_set(why, -EINVAL,
			   "unknown format '%.40s'; %s%s%sformats "
			   "are" FGT_FORMAT_NAMES,
			   name, near ? "did you mean '" : "", near ? near : "",
			   near ? "'? " : "");
}

static bool ends_with(const char *text, size_t len, const char *ending)
{
	size_t ending_len = strlen(ending);

	return len > ending_len &&
	       !strncasecmp(text + len - ending_len, ending, ending_len);
}

int fgt_format_from_path(const char *path, enum fgt_format_kind *ret_format,
			 bool *ret_is_gzip, struct fgt_why *why)
{
	size_t len = strlen(path);
	enum fgt_format_kind format = fgt_format_of_ending(path, len);
	bool is_gzip = format == FGT_KIND_COUNT && ends_with(path, len, ".gz");

	if (is_gzip)
		format = fgt_format_of_ending(path, len - strlen(".gz"));
	if (format == FGT_KIND_COUNT)
		return fgt_why_set(
			why, -EINVAL,
			"no format has the ending of '%.200s'; end "
			"it in one of" FGT_FORMAT_ENDINGS
			" (all but .fgt also with .gz), or choose one "
			"with -f",
			path);
	if (is_gzip && formats[format].gzip_use != FGT_GZIP_AS_WANTED &&
	    formats[format].gzip_use != FGT_GZIP_BINARY)
		return fgt_why_set(why, -EINVAL,
				   "'%s' files are not compressed again; "
				   "leave out .gz",
				   formats[format].ending);
	*ret_format = format;
	*ret_is_gzip = is_gzip;
	return 0;
}

const char *fgt_format_name(enum fgt_format_kind format)
{
	return (unsigned int)format < FGT_KIND_COUNT ? formats[format].name
						     : "unknown";
}

enum fgt_gzip_use fgt_format_gzip_use(enum fgt_format_kind format)
{
	return (unsigned int)format < FGT_KIND_COUNT ? formats[format].gzip_use
						     : FGT_GZIP_NEVER;
}

const char *fgt_format_ending(enum fgt_format_kind format)
{
	return (unsigned int)format < FGT_KIND_COUNT ? formats[format].ending
						     : "";
}

int fgt_state_frames_from_name(const char *name,
			       enum fgt_state_frames *ret_state_frames,
			       struct fgt_why *why)
{
	static const char *const names[] = {
		[FGT_STATE_FRAMES_AUTO] = "auto",
		[FGT_STATE_FRAMES_ROOT] = "root",
		[FGT_STATE_FRAMES_LEAF] = "leaf",
		[FGT_STATE_FRAMES_NO] = "no",
	};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i])) {
			*ret_state_frames = (enum fgt_state_frames)i;
			return 0;
		}
	return fgt_why_set(
		why, -EINVAL,
		"unknown place '%.40s' of state frames; choose auto, "
		"root, leaf or no",
		name);
}

int fgt_otlp_shape_from_name(const char *name, enum fgt_otlp_shape *ret_shape,
			     struct fgt_why *why)
{
	if (!strcmp(name, "timestamps"))
		*ret_shape = FGT_OTLP_TIMESTAMPS;
	else if (!strcmp(name, "sum"))
		*ret_shape = FGT_OTLP_SUM;
	else
		return fgt_why_set(why, -EINVAL,
				   "unknown shape '%.40s' of OTLP samples; "
				   "choose timestamps, or sum for Pyroscope",
				   name);
	return 0;
}

int fgt_format_write(const struct fgt_ring_slice *slice,
		     enum fgt_format_kind format,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink)
{
	static const struct fgt_format_options defaults = { 0 };

	if ((unsigned int)format >= FGT_KIND_COUNT)
		return -EINVAL;
	if (!options)
		options = &defaults;
	if (format == FGT_KIND_FGT)
		return formats[format].write(slice, options, sink);
	return fgt_reasons_write(slice, options, sink, formats[format].write);
}
