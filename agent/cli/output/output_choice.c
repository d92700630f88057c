/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file, in which format. Pure, except that it reads whether a path is a
 * directory, and the time zone.
 */
#include "agent/cli/output/output.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define NAME_BYTES 256 /* that an automatic name never fills */

static const char *const advice[FGT_KIND_COUNT] = {
	[FGT_KIND_FGT] = "'fgtrace-agent convert' makes the other formats from "
			 "it",
	[FGT_KIND_CHROME] = "open it in https://ui.perfetto.dev or "
			    "https://www.speedscope.app",
	[FGT_KIND_SENTRY] = "'fgtrace-agent slice --upload' sends the same to "
			    "Sentry",
	[FGT_KIND_SENTRY_CHUNK] = "post it to a Sentry project's "
				  "/api/ID/envelope/",
	[FGT_KIND_PPROF] = "'go tool pprof -http=: FILE' shows it",
	[FGT_KIND_FOLDED] = "open it in https://www.speedscope.app, or "
			    "flamegraph.pl makes a picture of it",
	[FGT_KIND_SPEEDSCOPE] = "open it in https://www.speedscope.app",
	[FGT_KIND_OTLP] = "post it to an OpenTelemetry Collector's "
			  "/v1development/profiles",
	[FGT_KIND_PERFETTO] = "open it in https://ui.perfetto.dev",
};

static bool is_directory(const char *path)
{
	size_t len = strlen(path);
	struct stat status;

	return (len > 0 && path[len - 1] == '/') ||
	       (stat(path, &status) == 0 && S_ISDIR(status.st_mode));
}

static bool ends_with_gz(const char *path)
{
	size_t len = strlen(path);

	return len > 3 && strcmp(path + len - 3, ".gz") == 0;
}

static int choose_format(const char *path, const char *format_name,
			 struct fgt_output_choice *choice, struct fgt_why *why)
{
	bool is_stdout = path && strcmp(path, "-") == 0;

	if (!format_name && path && !is_stdout)
		return fgt_format_from_path(path, &choice->format,
					    &choice->is_gzip, why);
	choice->format = is_stdout ? FGT_KIND_FGT : FGT_KIND_CHROME;
	if (format_name) {
		int r = fgt_format_from_name(format_name, &choice->format, why);

		if (r < 0)
			return r;
	}
	choice->is_gzip = path && ends_with_gz(path) &&
			  fgt_format_gzip_use(choice->format) !=
				  FGT_GZIP_WITHIN;
	return 0;
}

int fgt_output_choose(const char *path, const char *format_name,
		      bool is_stdout_terminal,
		      struct fgt_output_choice *ret_choice, struct fgt_why *why)
{
	struct fgt_output_choice choice = { .directory = "" };
	int r;

	if (path && is_directory(path)) {
		if (strlen(path) > PATH_MAX - NAME_BYTES)
			return fgt_why_set(why, -ENAMETOOLONG,
					   "the directory of -o has more than "
					   "%d bytes; choose another",
					   PATH_MAX - NAME_BYTES);
		choice.directory = path;
		path = NULL;
	}
	choice.path = path;
	r = choose_format(path, format_name, &choice, why);
	if (r < 0)
		return r;
	if (choice.format == FGT_KIND_FGT && choice.is_gzip)
		return fgt_why_set(why, -EINVAL,
				   "fgt is not written as .gz; leave out .gz "
				   "in '%s'",
				   path);
	if (path && strcmp(path, "-") == 0 && is_stdout_terminal &&
	    fgt_format_gzip_use(choice.format) != FGT_GZIP_AS_WANTED)
		return fgt_why_set(why, -EINVAL,
				   "%s is binary and standard output is a "
				   "terminal; redirect it, or give -f folded "
				   "or -o FILE",
				   fgt_format_name(choice.format));
	*ret_choice = choice;
	return 0;
}

bool fgt_output_is_stdout(const struct fgt_output_choice *choice)
{
	return choice->path && strcmp(choice->path, "-") == 0;
}

enum fgt_format_kind fgt_output_misnamed(const struct fgt_output_choice *choice)
{
	enum fgt_format_kind kind;
	size_t len;

	if (!choice->path)
		return FGT_KIND_COUNT;
	len = strlen(choice->path);
	kind = fgt_format_of_ending(choice->path, len);
	if (kind == FGT_KIND_COUNT && ends_with_gz(choice->path))
		kind = fgt_format_of_ending(choice->path, len - strlen(".gz"));
	return kind == choice->format ? FGT_KIND_COUNT : kind;
}

static void clean_name(const char *name, char *ret_name, size_t size)
{
	size_t len = 0;

	for (; *name && len + 1 < size; name++) {
		bool is_safe = isalnum((unsigned char)*name) ||
			       (len > 0 && strchr("._-", *name));

		ret_name[len++] = is_safe ? *name : '_';
	}
	ret_name[len] = '\0';
	if (len == 0)
		snprintf(ret_name, size, "slice");
}

void fgt_output_default_name(const struct fgt_ring_slice *slice,
			     const struct fgt_output_choice *choice,
			     char *ret_name, size_t size)
{
	uint64_t wall_ns =
		fgt_slice_wall_ns(slice, slice->tick_ns[slice->tick_count - 1]);
	time_t seconds = (time_t)(wall_ns / 1000000000);
	size_t directory_len = strlen(choice->directory);
	bool is_slash_missing = directory_len > 0 &&
				choice->directory[directory_len - 1] != '/';
	char name[64], time_text[64] = "";
	struct tm local;

	clean_name(slice->process.name, name, sizeof(name));
	if (localtime_r(&seconds, &local))
		strftime(time_text, sizeof(time_text), "%Y%m%d-%H%M%S", &local);
	snprintf(ret_name, size, "%s%s%s-%d-%s-%03u%s", choice->directory,
		 is_slash_missing ? "/" : "", name, slice->process.pid,
		 time_text, (unsigned int)(wall_ns / 1000000 % 1000),
		 fgt_format_ending(choice->format));
}

void fgt_output_name_process(const struct fgt_output_choice *choice,
			     int32_t pid, char ret_path[PATH_MAX])
{
	const char *ending = fgt_format_ending(choice->format);
	size_t len = strlen(choice->path), stem = len;

	if (ends_with_gz(choice->path))
		stem -= strlen(".gz");
	if (stem > strlen(ending) &&
	    strncmp(choice->path + stem - strlen(ending), ending,
		    strlen(ending)) == 0)
		stem -= strlen(ending);
	snprintf(ret_path, PATH_MAX, "%.*s.%d%s", (int)stem, choice->path, pid,
		 choice->path + stem);
}

const char *fgt_output_advice(enum fgt_format_kind format)
{
	return advice[format];
}
