/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fgtrace-agent config check, config show: a configuration file on its own,
 * without a daemon.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/look/state_name.h"
#include "agent/cli/complaint.h"
#include "agent/cli/options.h"
#include "agent/cli/verbs/verbs.h"
#include "agent/config/config.h"
#include "ringbuf/base/nearest.h"
#include "ringbuf/base/sink.h"

#define NAME fgt_verb_config.name

static const struct fgt_option options[] = {
	{ "config", 'c', "FILE", "the file (default: none, built-in values)",
	  NULL },
	{ "json", 0, NULL, "print JSON", NULL },
	{ .name = NULL },
};

static int unknown_action(const char *action)
{
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, action);
	fgt_nearest_offer(&nearest, "check");
	fgt_nearest_offer(&nearest, "show");
	return fgt_complain(NAME, FGT_EXIT_USAGE,
			    "unknown action '%s'; did you mean config %s?",
			    action, nearest.best ? nearest.best : "check");
}

static int show(const struct fgt_config *config, bool is_json)
{
	const struct fgt_sink sink = { fgt_file_write, stdout };
	int r = is_json ? fgt_config_show_json(config, &sink)
			: fgt_config_show(config, &sink);

	if (r < 0 && !ferror(stdout))
		return fgt_complain(NAME, FGT_EXIT_FAILURE,
				    "cannot print the configuration: %s; free "
				    "memory",
				    fgt_error_text(r));
	if (is_json)
		putchar('\n');
	return fgt_finish_stdout(NAME);
}

/* Relative names are credentials, which the service manager provides. */
static void warn_of_missing(const char *file,
			    const struct fgt_destination_settings *settings,
			    const char *key, const char *path)
{
	if (path && *path == '/' && access(path, F_OK) < 0 &&
	    (errno == ENOENT || errno == ENOTDIR))
		fprintf(stderr,
			"warning: %s:%u: destination '%s': no such %s: %s; "
			"until it exists nothing is delivered there\n",
			file, settings->line, settings->name, key, path);
}

static void warn_of_state(const char *file,
			  const struct fgt_config_trigger *rule)
{
	const char *nearest;

	if (!rule->when.state ||
	    !fgt_state_is_misspelt(rule->when.state, &nearest))
		return;
	fprintf(stderr,
		"warning: %s:%u: trigger '%s' never fires: no state is called "
		"'%s'%s%s%s; states are running, runnable, stopped, and names "
		"of system calls\n",
		file, rule->line, rule->name, rule->when.state,
		nearest ? " (did you mean '" : "", nearest ? nearest : "",
		nearest ? "'?)" : "");
}

/* What a daemon takes, but cannot use now. */
static void warn(const struct fgt_config *config)
{
	for (size_t i = 0; i < config->upload.destination_count; i++) {
		const struct fgt_destination_settings *settings =
			&config->upload.destinations[i];

		const struct {
			const char *key, *path;
		} files[] = {
			{ "dsn_file", settings->dsn_file },
			{ "url_file", settings->url_file },
			{ "directory", settings->directory },
			{ "headers_file", settings->headers_file },
			{ "aws_keys_file", settings->aws_keys_file },
			{ "client_cert_file", settings->client_cert_file },
			{ "client_key_file", settings->client_key_file },
			{ "ca_file", settings->ca_file },
		};

		for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++)
			warn_of_missing(config->path, settings, files[k].key,
					files[k].path);
	}
	for (size_t i = 0; i < config->trigger_count; i++)
		warn_of_state(config->path, &config->triggers[i]);
}

static int run(const struct fgt_arguments *arguments)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	const char *action = arguments->operands[0];
	const char *path = fgt_options_get(arguments, "config");
	bool is_json = fgt_options_has(arguments, "json");
	bool is_show = strcmp(action, "show") == 0;
	struct fgt_why why = { "" };

	if (!is_show && strcmp(action, "check") != 0)
		return unknown_action(action);
	if (fgt_config_load(path, &config, &why) < 0)
		return fgt_complain(NAME, FGT_EXIT_USAGE, "%s", why.text);
	if (is_show)
		return show(config, is_json);
	warn(config);
	if (is_json)
		puts("{\"ok\":true}");
	else
		printf("%s: good\n", path ? path : "built-in values");
	return fgt_finish_stdout(NAME);
}

const struct fgt_verb fgt_verb_config = {
	.name = "config",
	.synopsis = "check|show [-c FILE] [--json]",
	.summary = "check a configuration file, or print all its values",
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run,
	.help = "check: exit status 0 if a daemon would accept the file, else "
		"2 and FILE:LINE\nwith the nearest known key. show: every value "
		"as it would be used, the\nenvironment (FGTRACE_SAMPLING_HZ for "
		"sampling.hz) included; secrets are not part\nof it.\n"
		"\nExamples:\n"
		"  fgtrace-agent config check -c fgtrace.conf\n"
		"  fgtrace-agent config show > fgtrace.conf\n",
};
