/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice becomes a file. Runs in the command line's main thread; must not lose
 * a slice that cannot be had again.
 */
#include "agent/cli/output/export_write.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/cli/complaint.h"

/* why has a text if the writing failed; else the encoder did. */
static enum fgt_exit complain_encode(const struct fgt_export *plan, int error,
				     const struct fgt_why *why)
{
	if (error == -EPIPE)
		return FGT_EXIT_FAILURE; /* the reader of a pipe left */
	if (why->text[0])
		return fgt_complain(plan->verb, fgt_exit_of(error), "%s",
				    why->text);
	if (error == -ENODATA)
		return fgt_complain(
			plan->verb, FGT_EXIT_NO_DATA,
			"no thread has two samples, which %s needs; "
			"choose a longer time",
			fgt_format_name(plan->choice.format));
	return fgt_complain(plan->verb, fgt_exit_of(error),
			    "cannot encode the slice: %s; take a shorter time",
			    fgt_error_text(error));
}

/* What the program publishes goes before the configuration. */
struct fgt_format_options fgt_export_options(const struct fgt_export *plan,
					     const struct fgt_ring_slice *slice)
{
	const struct fgt_service *service = &slice->process.service;
	const struct fgt_config *config = plan->config;

	return (struct fgt_format_options){
		.state_frames = plan->state_frames,
		.otlp_shape = plan->otlp_shape,
		.with_waits = plan->with_waits,
		.release = service->version[0] ? NULL : config->upload.release,
		.environment = service->environment[0]
				       ? NULL
				       : config->upload.environment,
	};
}

static int write_as(const struct fgt_export *plan,
		    const struct fgt_output_choice *choice, const char *path,
		    const struct fgt_ring_slice *slice, uint64_t *ret_bytes,
		    struct fgt_why *why)
{
	const struct fgt_format_options options =
		fgt_export_options(plan, slice);
	FGT_AUTO(fgt_output_free) struct fgt_output *output = NULL;
	int r = fgt_output_open(path, choice->is_gzip, &output, why);

	if (r < 0)
		return r;
	r = fgt_format_write(slice, choice->format, &options,
			     fgt_output_sink(output));
	return fgt_output_commit(output, r, ret_bytes, why);
}

/* The current directory, then those that outlive full and read-only disks. */
static int keep(const struct fgt_export *plan,
		const struct fgt_ring_slice *slice,
		struct fgt_summary_fate *fate, struct fgt_why *why)
{
	const char *const directories[] = { "", getenv("TMPDIR"), "/var/tmp",
					    "/tmp" };
	struct fgt_output_choice choice = { .format = FGT_KIND_FGT };
	int r = -ENOENT;

	for (size_t i = 0;
	     r < 0 && i < sizeof(directories) / sizeof(*directories); i++) {
		if (!directories[i])
			continue;
		choice.directory = directories[i];
		fgt_output_default_name(slice, &choice, fate->kept,
					sizeof(fate->kept));
		r = write_as(plan, &choice, fate->kept, slice, &fate->bytes,
			     why);
	}
	return r;
}

void fgt_export_keep(const struct fgt_export *plan,
		     const struct fgt_ring_slice *slice,
		     struct fgt_summary_fate *fate, const char *text)
{
	struct fgt_why why = { "" };
	int r = keep(plan, slice, fate, &why);

	if (r == 0)
		fgt_note(plan->verb, "%s; the slice was kept as %s", text,
			 fate->kept);
	else
		fgt_note(plan->verb, "%s; the slice was lost, too: %s", text,
			 why.text[0] ? why.text : fgt_error_text(r));
	if (r < 0)
		fate->kept[0] = '\0';
}

/* The input under any name: a part of a file must not replace the whole. */
static bool is_input(const struct fgt_export *plan, const char *path)
{
	struct stat status;

	if (!plan->input.st_ino ||
	    (fgt_output_is_stdout(&plan->choice) ? fstat(STDOUT_FILENO, &status)
						 : stat(path, &status)) < 0)
		return false;
	return S_ISREG(status.st_mode) && status.st_dev == plan->input.st_dev &&
	       status.st_ino == plan->input.st_ino;
}

enum fgt_exit fgt_export_write(const struct fgt_export *plan,
			       const struct fgt_ring_slice *slice,
			       struct fgt_summary_fate *fate)
{
	struct fgt_why why = { "" };
	int r;

	if (is_input(plan, fate->path))
		return fgt_complain(plan->verb, FGT_EXIT_USAGE,
				    "the output would replace the input: %s "
				    "is that file; give another name with -o",
				    fate->path);
	r = write_as(plan, &plan->choice, fate->path, slice, &fate->bytes,
		     &why);
	/* A slice that was read from a file is there still. */
	if (r < 0 && r != -EPIPE && why.text[0] && !plan->input.st_ino) {
		fgt_export_keep(plan, slice, fate, why.text);
		return fgt_exit_of(r);
	}
	if (r < 0)
		return complain_encode(plan, r, &why);
	fate->format = fgt_format_name(plan->choice.format);
	return FGT_EXIT_OK;
}
