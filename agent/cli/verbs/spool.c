/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent spool list, flush, drop: what waits on the disk for its
 * destination. Works on the directory itself, beside the agent that uses it, or
 * without one. Names in it come from outside.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/output/form.h"
#include "agent/cli/summary/summary.h"
#include "agent/cli/verbs/fetch.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/config/config.h"
#include "agent/protocol/builder.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/json.h"
#include "ringbuf/base/nearest.h"
#include "upload/deliver/spool/spooled.h"

#define NAME fgt_verb_spool.name

#define SECOND_NS UINT64_C(1000000000)

static const struct fgt_option options[] = {
	{ "dir", 'd', "DIR", "the spool's directory (default: the agent's)",
	  "config " },
	{ "config", 'c', "FILE", "take upload.spool_dir of this file", NULL },
	{ "destination", 0, "NAME", "only what goes to it", NULL },
	{ "all", 0, NULL, "drop: everything (or all of --destination)", NULL },
	FGT_FORM_OPTIONS,
	{ "socket", 0, "PATH", "the daemon's control socket", NULL },
	{ .name = NULL },
};

/* ---- Which directory ----------------------------------------------------- */

static int ask_status(const struct fgt_arguments *arguments,
		      struct fgt_message **ret_reply, struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	char socket_path[FGT_SOCKET_PATH_SIZE];
	int r = fgt_fetch_socket(arguments, socket_path, sizeof(socket_path),
				 why);

	if (r == 0)
		r = fgt_builder_new_request("status", &request);
	return r < 0 ? r
		     : fgt_fetch_reply(socket_path, request, ret_reply, why);
}

static int ask_agent(const struct fgt_arguments *arguments, char path[PATH_MAX],
		     struct fgt_why *why)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	const char *found = "";
	int r = ask_status(arguments, &reply, why);

	if (r < 0)
		return r;
	(void)fgt_message_get_string(reply, "spool_dir", &found);
	if (!*found)
		return fgt_why_set(why, -ENOENT,
				   "the agent has no spool: set "
				   "upload.spool_dir, or use --dir DIR");
	snprintf(path, PATH_MAX, "%s", found);
	return 0;
}

static int read_config(const char *file, char path[PATH_MAX],
		       struct fgt_why *why)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	int r = fgt_config_load(file, &config, why);

	if (r < 0)
		return r;
	if (!config->upload.spool_dir)
		return fgt_why_set(why, -ENOENT,
				   "%s has no upload.spool_dir; set it, or use "
				   "--dir DIR",
				   file);
	snprintf(path, PATH_MAX, "%s", config->upload.spool_dir);
	return 0;
}

static int find_directory(const struct fgt_arguments *arguments,
			  char path[PATH_MAX], struct fgt_why *why)
{
	const char *directory = fgt_options_get(arguments, "dir");
	const char *config = fgt_options_get(arguments, "config");

	if (!directory && config)
		return read_config(config, path, why);
	if (!directory)
		return ask_agent(arguments, path, why);
	snprintf(path, PATH_MAX, "%s", directory);
	return 0;
}

/* ---- Its entries --------------------------------------------------------- */

struct spool_row {
	struct fgt_spool_entry entry;
	struct fgt_spooled_head head; /* version 0: of another version */
};

struct spool_listing {
	const struct fgt_arguments *arguments;
	enum fgt_form form;
	struct spool_row *rows;
	size_t count, capacity;
	char known[200]; /* destinations that have entries */
	bool has_no_memory;
};

static bool is_wanted(const struct spool_listing *listing,
		      const struct spool_row *row)
{
	const char *wanted = fgt_options_get(listing->arguments, "destination");

	return !wanted || strcmp(wanted, row->head.payload.destination) == 0;
}

/* Each once, in single quotes, as far as there is room. */
static void note_destination(struct spool_listing *listing, const char *name)
{
	size_t len = strlen(listing->known);
	char quoted[70];

	if (!*name)
		return;
	snprintf(quoted, sizeof(quoted), "'%s'", name);
	if (!strstr(listing->known, quoted) &&
	    len + strlen(quoted) + 3 < sizeof(listing->known))
		sprintf(listing->known + len, "%s%s", len ? ", " : "", quoted);
}

static void found(void *context, const struct fgt_spool_entry *entry,
		  const uint8_t *bytes, size_t len)
{
	struct spool_listing *listing = context;
	struct spool_row row = { .entry = *entry };

	if (bytes)
		(void)fgt_spooled_read_head(bytes, len, &row.head);
	note_destination(listing, row.head.payload.destination);
	if (!is_wanted(listing, &row))
		return;
	if (FGT_ARRAY_GROW(listing->rows, listing->count, listing->capacity) <
	    0)
		listing->has_no_memory = true;
	else
		listing->rows[listing->count++] = row;
}

static int read_entries(struct spool_listing *listing, const char *path,
			struct fgt_spool **ret_spool, struct fgt_why *why)
{
	const struct fgt_spool_options spool_options = { .path = path,
							 .found = found,
							 .context = listing };
	FGT_AUTO(fgt_spool_close) struct fgt_spool *spool = NULL;
	int r = fgt_spool_open_as_guest(&spool_options, &spool, why);

	if (r < 0)
		return r;
	r = fgt_spool_look(spool, fgt_clock_ns(CLOCK_REALTIME));
	if (r == 0 && listing->has_no_memory)
		r = -ENOMEM;
	if (r < 0)
		return fgt_why_set(why, r, "cannot read %s: %s; check its disk",
				   path, fgt_error_text(r));
	*ret_spool = FGT_TAKE(spool);
	return 0;
}

/* ---- list ---------------------------------------------------------------- */

static void name_of(const struct spool_row *row, char name[FGT_SPOOL_NAME_SIZE])
{
	fgt_spool_name_write(&row->entry.id, "", name);
}

static int list_json(const struct spool_listing *listing, const char *path)
{
	const struct fgt_sink sink = { fgt_file_write, stdout };
	char name[FGT_SPOOL_NAME_SIZE];
	struct fgt_json json;

	fgt_json_init(&json, &sink);
	fgt_json_begin_object(&json, NULL);
	fgt_json_put_string(&json, "directory", path);
	fgt_json_begin_array(&json, "entries");
	for (size_t i = 0; i < listing->count; i++) {
		const struct spool_row *row = &listing->rows[i];
		const struct fgt_payload_head *head = &row->head.payload;

		name_of(row, name);
		fgt_json_begin_object(&json, NULL);
		fgt_json_put_string(&json, "entry", name);
		fgt_json_put_time(&json, "created", row->entry.created_ns);
		fgt_json_put_string(&json, "destination", head->destination);
		fgt_json_put_string(&json, "format", head->format);
		fgt_json_put_string(&json, "name", head->name);
		fgt_json_put_int(&json, "pid", head->pid);
		fgt_json_put_string(&json, "id", head->id);
		fgt_json_put_uint(&json, "bytes", row->entry.bytes);
		fgt_json_end_object(&json);
	}
	fgt_json_end_array(&json);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	(void)fgt_json_finish(&json);
	return (int)fgt_finish_stdout(NAME);
}

static void print_row(const struct spool_row *row)
{
	const struct fgt_payload_head *head = &row->head.payload;
	time_t created = (time_t)(row->entry.created_ns / SECOND_NS);
	char name[FGT_SPOOL_NAME_SIZE], when[32] = "";
	struct tm local;

	if (localtime_r(&created, &local))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
	name_of(row, name);
	printf("%s  %s  %10" PRIu64 "  ", name, when, row->entry.bytes);
	fgt_print_padded(stdout, head->format, 7);
	fputs("  ", stdout);
	fgt_print_text(stdout, head->destination, 20);
	fputs("  ", stdout);
	fgt_print_text(stdout, head->name, 40);
	putchar('\n');
}

static int list(const struct spool_listing *listing, const char *path)
{
	uint64_t bytes = 0;

	if (listing->form == FGT_FORM_JSON)
		return list_json(listing, path);
	fgt_form_fence(listing->form);
	if (listing->count > 0)
		printf("%-33s  %-19s  %10s  %-7s  DESTINATION  NAME\n", "ENTRY",
		       "CREATED", "BYTES", "FORMAT");
	for (size_t i = 0; i < listing->count; i++) {
		print_row(&listing->rows[i]);
		bytes += listing->rows[i].entry.bytes;
	}
	printf("%zu %s, %" PRIu64 " bytes in %s\n", listing->count,
	       listing->count == 1 ? "delivery" : "deliveries", bytes, path);
	fgt_form_fence(listing->form);
	return (int)fgt_finish_stdout(NAME);
}

/* ---- drop, flush --------------------------------------------------------- */

static bool is_named(const struct fgt_arguments *arguments,
		     const struct spool_row *row)
{
	char name[FGT_SPOOL_NAME_SIZE];

	name_of(row, name);
	for (int i = 1; i < arguments->operand_count; i++)
		if (strcmp(arguments->operands[i], name) == 0 ||
		    strcmp(arguments->operands[i], row->head.payload.id) == 0)
			return true;
	return fgt_options_has(arguments, "all");
}

static int print_count(const struct spool_listing *listing, const char *what,
		       size_t count)
{
	if (listing->form == FGT_FORM_JSON)
		printf("{\"%s\":%zu}\n", what, count);
	else
		printf("%zu %s %s\n", count,
		       count == 1 ? "delivery" : "deliveries", what);
	return (int)fgt_finish_stdout(NAME);
}

/* Nothing waits for --destination: 0 if that is no mistake. */
static int check_destination(const struct spool_listing *listing)
{
	const char *wanted = fgt_options_get(listing->arguments, "destination");

	if (!wanted || listing->count > 0)
		return 0;
	return fgt_complain(
		NAME, FGT_EXIT_FAILURE, "nothing waits for '%s'; %s%s", wanted,
		*listing->known ? "entries wait for " : "the spool is empty",
		listing->known);
}

static int drop(const struct spool_listing *listing, struct fgt_spool *spool)
{
	const struct fgt_arguments *arguments = listing->arguments;
	size_t count = 0;
	int status = check_destination(listing);

	if (status)
		return status;
	if (arguments->operand_count < 2 && !fgt_options_has(arguments, "all"))
		return fgt_complain(NAME, FGT_EXIT_USAGE,
				    "name the entries to drop, or use --all; "
				    "see spool list");
	for (size_t i = 0; i < listing->count; i++) {
		const struct spool_row *row = &listing->rows[i];
		int r;

		if (!is_named(arguments, row))
			continue;
		r = fgt_spool_remove(spool, &row->entry.id);
		if (r < 0)
			return fgt_complain(NAME, fgt_exit_of(r),
					    "cannot drop an entry: %s; check "
					    "the spool's disk",
					    fgt_error_text(r));
		count++;
	}
	if (count == 0 && arguments->operand_count > 1)
		return fgt_complain(NAME, FGT_EXIT_FAILURE,
				    "no such entry; see spool list");
	return print_count(listing, "dropped", count);
}

static size_t count_for(const struct spool_listing *listing, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < listing->count; i++)
		count += !strcmp(listing->rows[i].head.payload.destination,
				 name);
	return count;
}

/* Entries that the agent does not send until a reload, with a note for each
 * destination. 0 also where the agent cannot be asked. */
static size_t note_held(const struct spool_listing *listing)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	struct fgt_message_array all = { .count = 0 };
	struct fgt_message destination;
	struct fgt_why why;
	size_t held = 0;

	if (ask_status(listing->arguments, &reply, &why) == 0)
		(void)fgt_message_get_array(reply, "destinations", &all);
	while (fgt_message_next(&all, &destination) == 0) {
		const char *name = "", *unusable = "";
		size_t count;

		(void)fgt_message_get_string(&destination, "name", &name);
		(void)fgt_message_get_string(&destination, "unusable",
					     &unusable);
		count = *unusable ? count_for(listing, name) : 0;
		if (count)
			fgt_note(NAME,
				 "%zu for '%.64s' wait until the configuration "
				 "is reloaded: %s",
				 count, name, unusable);
		held += count;
	}
	return held;
}

static int flush(const struct spool_listing *listing, struct fgt_spool *spool)
{
	struct fgt_why why = { "" };
	int r = fgt_spool_ask_flush(spool, &why);

	if (r < 0)
		return fgt_complain_why(
			NAME, r == -ENOENT ? FGT_EXIT_NO_AGENT : fgt_exit_of(r),
			&why);
	return print_count(listing, "to be sent now",
			   listing->count - note_held(listing));
}

static int unknown_action(const char *action)
{
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, action);
	fgt_nearest_offer(&nearest, "list");
	fgt_nearest_offer(&nearest, "flush");
	fgt_nearest_offer(&nearest, "drop");
	return fgt_complain(NAME, FGT_EXIT_USAGE,
			    "unknown action '%s'; did you mean spool %s?",
			    action, nearest.best ? nearest.best : "list");
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_spool_close) struct fgt_spool *spool = NULL;
	struct spool_listing listing = { .arguments = arguments };
	const char *action = arguments->operands[0];
	struct fgt_why why = { "" };
	char path[PATH_MAX];
	int r, status;

	if (strcmp(action, "list") != 0 && strcmp(action, "flush") != 0 &&
	    strcmp(action, "drop") != 0)
		return unknown_action(action);
	if (fgt_form_read(arguments, &listing.form, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	r = find_directory(arguments, path, &why);
	if (r < 0)
		return fgt_complain_why(NAME, fgt_fetch_exit(r), &why);
	r = read_entries(&listing, path, &spool, &why);
	if (r < 0)
		status = fgt_complain_why(NAME, fgt_exit_of(r), &why);
	else if (*action == 'l')
		status = list(&listing, path);
	else
		status = *action == 'd' ? drop(&listing, spool)
					: flush(&listing, spool);
	free(listing.rows);
	return status;
}

const struct fgt_verb fgt_verb_spool = {
	.name = "spool",
	.synopsis = "list|flush|drop [ENTRY...] [-d DIR | -c FILE] "
		    "[--destination NAME] [--all] [-f text|md|json]",
	.summary = "what waits on the disk for its destination",
	.options = options,
	.operands_min = 1,
	.operands_max = INT_MAX,
	.run = run,
	.help = "list: the deliveries that wait in upload.spool_dir, oldest "
		"first. flush: the agent\nsends all of them now, without the "
		"pauses that destinations have after a failure.\ndrop: removes "
		"entries, by their name or id. Run it as the user that the "
		"agent has.\n"
		"\nExamples:\n"
		"  fgtrace-agent spool list\n"
		"  fgtrace-agent spool flush\n"
		"  fgtrace-agent spool drop --all --destination lab\n",
};
