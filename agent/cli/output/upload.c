/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the command line uploads to. Runs in its main thread; must not print a
 * secret.
 */
#include "agent/cli/output/upload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool fgt_upload_is_wanted(const struct fgt_arguments *arguments)
{
	return fgt_options_has(arguments, "upload") ||
	       fgt_options_has(arguments, "dsn-file");
}

/* Arguments can be read by other users. */
static int parse_argument(const char *text, const struct fgt_config *config,
			  struct fgt_destination **ret_destination,
			  struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	int r = fgt_destination_parse(text, config->upload.is_http_allowed,
				      &destination, why);

	if (r < 0)
		return r;
	if (*text != '/' && strchr(text, '?'))
		return fgt_why_set(why, -EINVAL,
				   "the query of a URL may be a secret, and "
				   "other users can read arguments; use "
				   "url_file of upload.destinations");
	if (destination->kind == FGT_DESTINATION_SENTRY)
		return fgt_why_set(why, -EINVAL,
				   "a DSN is a secret, and other users can "
				   "read arguments; use --dsn-file FILE");
	if (config->upload.ca_file) {
		destination->ca_file = strdup(config->upload.ca_file);
		if (!destination->ca_file)
			return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	}
	destination->is_v1 = config->sentry.profile == FGT_SENTRY_V1;
	*ret_destination = FGT_TAKE(destination);
	return 0;
}

/* The destination of that name; without a name the first one. */
static int load_named(const char *name, const struct fgt_config *config,
		      struct fgt_destination **ret_destination,
		      struct fgt_why *why)
{
	const struct fgt_destination_defaults defaults =
		fgt_config_destination_defaults(config);
	const struct fgt_destination_settings *settings;
	struct fgt_why part = { "" };
	int r = fgt_config_find_destination(config, name && *name ? name : NULL,
					    &settings, &part);

	if (r < 0 && strstr(part.text, "did you mean"))
		return fgt_why_set(why, -EINVAL, "%s", part.text);
	if (r < 0)
		return fgt_why_set(why, -EINVAL,
				   "%s in %s, or use --dsn-file FILE or "
				   "--upload URL",
				   part.text,
				   config->path ? config->path
						: "a file, with -c FILE");
	return fgt_destination_load(settings, &defaults, ret_destination, why);
}

int fgt_upload_plan(const struct fgt_arguments *arguments,
		    const struct fgt_config *config,
		    struct fgt_destination **ret_destination,
		    struct fgt_why *why)
{
	const struct fgt_destination_defaults defaults =
		fgt_config_destination_defaults(config);
	const char *dsn_file, *text;

	if (!fgt_upload_is_wanted(arguments)) {
		*ret_destination = NULL;
		return 0;
	}
	dsn_file = fgt_options_get(arguments, "dsn-file");
	text = fgt_options_get(arguments, "upload");
	if (dsn_file && text)
		return fgt_why_set(why, -EINVAL,
				   "--dsn-file and --upload DEST name two "
				   "destinations; give one of them");
	if (dsn_file)
		return fgt_destination_load_dsn(dsn_file, &defaults,
						ret_destination, why);
	if (text && (strstr(text, "://") || *text == '/'))
		return parse_argument(text, config, ret_destination, why);
	return load_named(text, config, ret_destination, why);
}

void fgt_upload_report(const struct fgt_destination *destination,
		       const struct fgt_dispatch_outcome *outcome)
{
	fprintf(stderr, "uploaded to %s: ", outcome->where);
	if (destination->format == FGT_KIND_SENTRY)
		fprintf(stderr, "event %s, ", outcome->event_id);
	fprintf(stderr, "%zu bytes", outcome->bytes);
	if (outcome->status)
		fprintf(stderr, ", status %ld", outcome->status);
	fputc('\n', stderr);
}
