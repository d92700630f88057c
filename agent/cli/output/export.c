/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What slice, record and convert do with a slice once they have it. Runs in
 * the command line's main thread.
 */
#include "agent/cli/output/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/complaint.h"
#include "agent/cli/output/debuginfod.h"
#include "agent/cli/output/export_write.h"
#include "agent/cli/output/upload.h"
#include "agent/cli/summary/summary.h"
#include "agent/symbols/elf/image_open.h"
#include "agent/symbols/symbolizer.h"
#include "ringbuf/slice/processes.h"

#define TOP_DEFAULT	10 /* functions in the JSON when --top is not given */
#define TOP_MAX		1000000
#define THREADS_DEFAULT 40 /* at most, with --top */
#define THREADS_MAX	(1 << 22) /* as many as there can be */

/* Readers go by the ending, and would report a broken file. */
static void warn_of_name(const struct fgt_export *plan)
{
	enum fgt_format_kind kind = fgt_output_misnamed(&plan->choice);
	enum fgt_format_kind format = plan->choice.format;

	if (kind != FGT_KIND_COUNT && !plan->is_quiet)
		fgt_note(plan->verb,
			 "%s ends like a %s file, and gets %s by -f; end it in "
			 "%s, or leave out -f",
			 plan->choice.path, fgt_format_name(kind),
			 fgt_format_name(format), fgt_format_ending(format));
}

static int plan_file(const struct fgt_arguments *arguments,
		     struct fgt_export *plan, struct fgt_why *why)
{
	const char *path = fgt_options_get(arguments, "output");
	const char *format = plan->form == FGT_FORM_MARKDOWN
				     ? NULL
				     : fgt_options_get(arguments, "format");
	int r;

	plan->is_file_wanted = path || format ||
			       !(plan->threads || plan->json ||
				 plan->form != FGT_FORM_TEXT ||
				 plan->is_upload_wanted);
	if (!plan->is_file_wanted)
		return 0;
	r = fgt_output_choose(path, format, isatty(STDOUT_FILENO),
			      &plan->choice, why);
	if (r < 0 && plan->form == FGT_FORM_MARKDOWN)
		return fgt_why_set(why, r,
				   "-f md goes to standard output: redirect it "
				   "(> FILE); -o names the file of the slice, "
				   "and ends like its format");
	if (r < 0)
		return r;
	warn_of_name(plan);
	if (plan->with_waits && plan->choice.format != FGT_KIND_FOLDED)
		return fgt_why_set(
			why, -EINVAL,
			"--waits is of folded stacks; add -f folded");
	if (plan->form != FGT_FORM_TEXT && fgt_output_is_stdout(&plan->choice))
		return fgt_why_set(why, -EINVAL,
				   "%s and -o - both want standard output; "
				   "give -o FILE",
				   plan->form == FGT_FORM_JSON ? "--json"
							       : "-f md");
	return 0;
}

struct fgt_filter fgt_export_filter(const struct fgt_arguments *arguments)
{
	return (struct fgt_filter){
		.thread = fgt_options_get(arguments, "thread"),
		.state = fgt_options_get(arguments, "state"),
		.function = fgt_options_get(arguments, "function"),
		.is_running = fgt_options_has(arguments, "running"),
		.is_busy = fgt_options_has(arguments, "no-idle"),
	};
}

/* Of the summary: here --format is of the file, except md. */
static enum fgt_form form_of(const struct fgt_arguments *arguments)
{
	const char *format = fgt_options_get(arguments, "format");

	if (fgt_options_has(arguments, "json"))
		return FGT_FORM_JSON;
	return format && strcmp(format, "md") == 0 ? FGT_FORM_MARKDOWN
						   : FGT_FORM_TEXT;
}

static int plan_tables(const struct fgt_arguments *arguments,
		       struct fgt_export *plan, struct fgt_why *why)
{
	bool is_whole = plan->form == FGT_FORM_MARKDOWN &&
			!fgt_options_has(arguments, "threads") &&
			!fgt_options_has(arguments, "top");
	int64_t top = 0, threads = 0, missing;
	int r = fgt_options_get_number(arguments, "top", 0, TOP_MAX,
				       is_whole ? TOP_DEFAULT : 0, &top, why);

	if (top == 0 && fgt_options_has(arguments, "top"))
		top = TOP_MAX;
	missing = top < THREADS_DEFAULT && !is_whole ? top : THREADS_DEFAULT;
	if (r == 0)
		r = fgt_options_get_number(arguments, "threads", 0, THREADS_MAX,
					   missing, &threads, why);
	if (r == 0)
		r = fgt_json_to_open(arguments, &plan->json, why);
	if (threads == 0 && fgt_options_has(arguments, "threads"))
		threads = THREADS_MAX;
	plan->top = (uint32_t)top;
	plan->threads = (uint32_t)threads;
	return r;
}

int fgt_export_plan(const struct fgt_arguments *arguments,
		    const struct fgt_config *config,
		    struct fgt_export *ret_export, struct fgt_why *why)
{
	const char *state_frames = fgt_options_get(arguments, "state-frames");
	const char *otlp_shape = fgt_options_get(arguments, "otlp-shape");
	struct fgt_export plan = {
		.verb = arguments->verb->name,
		.form = form_of(arguments),
		.is_quiet = fgt_options_has(arguments, "quiet"),
		.with_waits = fgt_options_has(arguments, "waits"),
		.is_upload_wanted = fgt_upload_is_wanted(arguments),
		.state_frames = config->sampling.state_frames,
		.config = config,
		.filter = fgt_export_filter(arguments),
	};
	int r = plan_tables(arguments, &plan, why);

	if (r == 0 && state_frames)
		r = fgt_state_frames_from_name(state_frames, &plan.state_frames,
					       why);
	if (r == 0 && otlp_shape)
		r = fgt_otlp_shape_from_name(otlp_shape, &plan.otlp_shape, why);
	if (r == 0)
		r = plan_file(arguments, &plan, why);
	if (r == 0)
		r = fgt_upload_plan(arguments, config, &plan.destination, why);
	if (r == 0 && otlp_shape && plan.destination)
		plan.destination->is_sum = plan.otlp_shape == FGT_OTLP_SUM;
	if (r == 0)
		*ret_export = plan;
	else
		fgt_export_done(&plan);
	return r;
}

void fgt_export_done(struct fgt_export *plan)
{
	fgt_destination_free(FGT_TAKE(plan->destination));
	fgt_json_to_free(FGT_TAKE(plan->json));
}

enum fgt_exit fgt_export_check(const struct fgt_export *plan)
{
	struct fgt_why why = { "" };
	int r = plan->is_file_wanted
			? fgt_output_check(plan->choice.path,
					   plan->choice.directory, &why)
			: 0;

	if (r < 0)
		return fgt_complain(plan->verb, fgt_exit_of(r), "%s", why.text);
	return FGT_EXIT_OK;
}

int fgt_export_resolve(struct fgt_ring_slice *slice,
		       const struct fgt_config *config,
		       struct fgt_image_cache *cache, bool is_live)
{
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	const struct fgt_symbolizer_options options = {
		.demangle = config->symbols.demangle,
		.debug_dirs = (const char *const *)config->symbols.debug_dirs,
		.debug_dir_count = config->symbols.debug_dir_count,
		.open_image = cache ? fgt_image_open_cached : NULL,
		.context = cache,
	};
	int r = fgt_symbolizer_new(&options, &symbolizer);

	if (r == 0)
		r = fgt_symbolizer_resolve(symbolizer, slice, is_live);
	if (r == 0)
		fgt_debuginfod_name(slice, config);
	return r;
}

/* Under the ids of the upload that failed: the destination may have it. */
static bool spool(const struct fgt_export *plan,
		  const struct fgt_ring_slice *slice,
		  const struct fgt_dispatch_outcome *outcome, const char *text)
{
	struct fgt_format_options options = fgt_export_options(plan, slice);
	struct fgt_why why = { "" };
	int r;

	if (*outcome->event_id)
		options.event_id = outcome->event_id;
	r = fgt_upload_spool(plan->config, plan->destination, slice, &options,
			     &why);
	if (r == 0)
		fgt_note(plan->verb,
			 "%s; it is in the spool %s, from where the agent "
			 "sends it: see fgtrace-agent spool list",
			 text, plan->config->upload.spool_dir);
	else if (why.text[0])
		fgt_note(plan->verb, "not spooled: %s", why.text);
	return r == 0;
}

static enum fgt_exit send(const struct fgt_export *plan,
			  const struct fgt_ring_slice *slice,
			  struct fgt_summary_fate *fate,
			  struct fgt_dispatch_outcome *outcome,
			  struct fgt_why *why)
{
	const struct fgt_format_options options =
		fgt_export_options(plan, slice);
	int r = fgt_dispatch(slice, fgt_upload_numbered(plan->destination),
			     &options, -1, NULL, outcome, why);

	if (r == 0)
		return FGT_EXIT_OK;
	if (!why->text[0])
		fgt_why_set(why, r,
			    "upload to %.300s failed: %s; try again "
			    "later",
			    outcome->where, fgt_error_text(r));
	fate->is_spooled = r == -EAGAIN &&
			   spool(plan, slice, outcome, why->text);
	if (fate->is_spooled)
		return FGT_EXIT_OK;
	if (fate->format || fate->kept[0])
		fgt_complain(plan->verb, FGT_EXIT_FAILURE, "%s", why->text);
	else
		fgt_export_keep(plan, slice, fate, why->text);
	return r == -ENODATA ? FGT_EXIT_NO_DATA : FGT_EXIT_FAILURE;
}

static void report_fate(const struct fgt_export *plan,
			const struct fgt_summary_fate *fate)
{
	if (fate->format && !fgt_output_is_stdout(&plan->choice)) {
		fputs("wrote ", stderr);
		fgt_print_text(stderr, fate->path, PATH_MAX);
		fprintf(stderr, " (%s, %" PRIu64 " bytes): %s\n", fate->format,
			fate->bytes, fgt_output_advice(plan->choice.format));
	}
	if (fate->upload && !fate->upload_error && !fate->is_spooled)
		fgt_upload_report(plan->destination, fate->upload);
}

static enum fgt_exit print(const struct fgt_export *plan,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_summary *summary,
			   const struct fgt_summary_fate *fate)
{
	FILE *tables = fgt_output_is_stdout(&plan->choice) ? stderr : stdout;
	struct fgt_why why = { FGT_NO_MEMORY }; /* where JSON is made */
	int r = 0;

	fgt_form_fence(plan->form);
	if (!plan->is_quiet) {
		fgt_summary_print_line(
			slice, summary,
			plan->form == FGT_FORM_MARKDOWN ? stdout : stderr);
		fgt_export_note(plan, slice);
		report_fate(plan, fate);
	}
	if (plan->json || plan->form == FGT_FORM_JSON)
		r = fgt_summary_print_json(
			slice, summary, plan->top ? plan->top : TOP_DEFAULT,
			fate, fgt_json_to_file(plan->json) ?: stdout);
	if (plan->form != FGT_FORM_JSON)
		fgt_summary_print_tables(summary, plan->top, plan->threads,
					 tables);
	fgt_form_end_slice(plan->form, slice);
	if (r == 0)
		r = fgt_json_to_commit(plan->json, &why);
	if (r < 0 && plan->json)
		return fgt_complain_why(plan->verb, FGT_EXIT_FAILURE, &why);
	return fgt_finish_stdout(plan->verb);
}

static enum fgt_exit run(const struct fgt_export *plan,
			 const struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	struct fgt_summary_fate fate = { .path = plan->choice.path };
	struct fgt_dispatch_outcome outcome = { .status = 0 };
	enum fgt_exit written = FGT_EXIT_OK, sent = FGT_EXIT_OK, printed;
	char default_name[PATH_MAX];
	struct fgt_why why = { "" };

	if (fgt_summary_new(slice, &summary) < 0)
		return fgt_complain(plan->verb, FGT_EXIT_FAILURE,
				    "out of memory; take a shorter time");
	if (plan->is_file_wanted && !fate.path) {
		fgt_output_default_name(slice, &plan->choice, default_name,
					sizeof(default_name));
		fate.path = default_name;
	}
	if (plan->is_file_wanted)
		written = fgt_export_write(plan, slice, &fate);
	if (plan->is_upload_wanted) {
		sent = send(plan, slice, &fate, &outcome, &why);
		fate.upload = &outcome;
		fate.kind = (enum fgt_destination_kind)plan->destination->kind;
		fate.upload_error = sent == FGT_EXIT_OK ? NULL : why.text;
	}
	/* With neither file nor upload there is only what was asked for. */
	if (!fate.format && (!fate.upload || fate.upload_error) &&
	    (written != FGT_EXIT_OK ||
	     !(plan->json || plan->threads || plan->form != FGT_FORM_TEXT)))
		return written != FGT_EXIT_OK ? written : sent;
	printed = print(plan, slice, summary, &fate);
	if (written != FGT_EXIT_OK)
		return written;
	return sent != FGT_EXIT_OK ? sent : printed;
}

/* An envelope is of one process: a file each, with the pid in its name. */
static enum fgt_exit run_each(const struct fgt_export *plan,
			      const struct fgt_ring_slice *slice)
{
	struct fgt_export one = *plan;
	enum fgt_exit status = FGT_EXIT_OK;
	char path[PATH_MAX];

	if (fgt_output_is_stdout(&plan->choice))
		return fgt_complain(plan->verb, FGT_EXIT_USAGE,
				    "an envelope holds one process, and there "
				    "are %u: give -o FILE or a directory",
				    slice->process_count);
	for (uint32_t i = 0; i < slice->process_count; i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *part = NULL;
		enum fgt_exit done;

		if (fgt_slice_of_process(slice, i, &part) < 0)
			return fgt_complain(plan->verb, FGT_EXIT_FAILURE,
					    FGT_NO_MEMORY);
		if (plan->choice.path) {
			fgt_output_name_process(&plan->choice,
						part->process.pid, path);
			one.choice.path = path;
		}
		done = run(&one, part);
		if (done != FGT_EXIT_OK && status == FGT_EXIT_OK)
			status = done;
	}
	return status;
}

static enum fgt_exit run_all(const struct fgt_export *plan,
			     const struct fgt_ring_slice *slice)
{
	return fgt_slice_process_count(slice) > 1 &&
			       fgt_export_is_for_sentry(plan)
		       ? run_each(plan, slice)
		       : run(plan, slice);
}

enum fgt_exit fgt_export_run(const struct fgt_export *plan,
			     const struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_why why = { "" };
	int r;

	if (!fgt_filter_is_any(&plan->filter))
		return run_all(plan, slice);
	r = fgt_filter_apply(&plan->filter, slice, &part, &why);
	if (r < 0)
		return fgt_complain(plan->verb, fgt_exit_of(r), "%s", why.text);
	return run_all(plan, part);
}
