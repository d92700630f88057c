/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the configuration: file, then environment, then the checks that need
 * more than one key. Runs at start and on reload; must not put a value that can
 * be a secret into a message.
 */
#include "agent/config/config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/config/config_schema.h"
#include "upload/deliver/trusted_file.h"

struct loader {
	const char *file_name;
	struct fgt_config *config;
	struct fgt_why *why;
};

/* ---- The environment ---------------------------------------------------- */

/* The environment does not count in a process with raised privileges
 * (AT_SECURE, fault K6): its user may not configure it. */
static int load_environment(struct loader *loader)
{
	const struct fgt_config_key *key;
	int error = 0;

	for (key = fgt_config_keys; key->path && !error; key++) {
		char name[FGT_CONFIG_WHERE_MAX];
		const char *text;

		fgt_config_name_variable(key->path, name, sizeof(name));
		text = fgt_config_is_list(key) ? NULL : secure_getenv(name);
		if (!text || !*text)
			continue;
		loader->config->lines[key - fgt_config_keys] =
			FGT_CONFIG_OF_ENVIRONMENT;
		error = fgt_config_set_text(key, loader->config, text, name,
					    loader->why);
	}
	return error;
}

/* ---- All of it ---------------------------------------------------------- */

static int make_absolute(struct loader *loader, const char *key, char **path)
{
	char absolute[PATH_MAX], *copy, where[FGT_CONFIG_WHERE_MAX];
	struct fgt_why part;
	int error;

	if (!*path)
		return 0;
	error = fgt_trusted_file_absolute(key, *path, absolute,
					  sizeof(absolute), &part);
	if (error) {
		fgt_config_where(loader->config, key, loader->file_name, where);
		return fgt_why_set(loader->why, error, "%s: %s", where,
				   part.text);
	}
	copy = strdup(absolute);
	if (!copy)
		return -ENOMEM;
	free(*path);
	*path = copy;
	return 0;
}

static int make_all_absolute(struct loader *loader)
{
	struct fgt_config *config = loader->config;
	int error = make_absolute(loader, "upload.ca_file",
				  &config->upload.ca_file);

	if (!error)
		error = make_absolute(loader, "http.token_file",
				      &config->http.token_file);
	if (!error)
		error = make_absolute(loader, "upload.spool_dir",
				      &config->upload.spool_dir);
	for (size_t i = 0; i < config->symbols.debug_dir_count && !error; i++)
		error = make_absolute(loader, "symbols.debug_dirs",
				      &config->symbols.debug_dirs[i]);
	return error;
}

static int finish(struct loader *loader)
{
	struct fgt_config *config = loader->config;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int error = make_all_absolute(loader);

	if (!error)
		error = fgt_config_check_http(config, loader->file_name,
					      loader->why);
	if (!error)
		error = fgt_config_check_upload(config, loader->file_name,
						loader->why);
	if (!error)
		error = fgt_config_check_triggers(config, loader->file_name,
						  loader->why);
	if (!error)
		error = fgt_config_check_continuous(config, loader->file_name,
						    loader->why);
	if (error || config->socket)
		return error;
	error = fgt_default_socket(path, sizeof(path));
	if (error)
		return fgt_why_set(loader->why, error,
				   "the default socket path is longer than 107 "
				   "bytes; set `socket` or FGTRACE_SOCKET");
	config->socket = strdup(path);
	return config->socket ? 0 : -ENOMEM;
}

static int config_new(struct fgt_config **ret_config)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	int error;

	config = calloc(1, sizeof(*config));
	if (!config)
		return -ENOMEM;
	error = fgt_config_set_defaults(fgt_config_keys, config);
	if (error)
		return error;
	*ret_config = FGT_TAKE(config);
	return 0;
}

static int explain_no_memory(int error, struct fgt_why *why)
{
	return error == -ENOMEM ? fgt_why_set(why, error, FGT_NO_MEMORY)
				: error;
}

int fgt_config_load_bytes(const char *bytes, size_t len, const char *file_name,
			  struct fgt_config **ret_config, struct fgt_why *why)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	struct loader loader = { .file_name = file_name, .why = why };
	int error = config_new(&config);

	loader.config = config;
	if (!error)
		error = fgt_config_parse(bytes, len, file_name, config, why);
	if (!error)
		error = finish(&loader);
	if (error)
		return explain_no_memory(error, why);
	*ret_config = FGT_TAKE(config);
	return 0;
}

/* At most 1 MiB, and not writable by every user. */
static int load_file(struct loader *loader, const char *path)
{
	static const struct fgt_trust trust = {
		.max_bytes = FGT_CONFIG_FILE_MAX,
		.max_text = "1 MiB; remove comments and keys that are not "
			    "needed",
		.refused_mode = S_IWOTH,
		.mode_text = "every user may write to it; chmod o-w",
	};
	FGT_AUTO(free) void *bytes = malloc(trust.max_bytes + 1);
	size_t len;
	int error;

	if (!bytes)
		return -ENOMEM;
	error = fgt_trusted_file_read(path, &trust, bytes, &len, loader->why);
	if (error)
		return error;
	loader->config->path = strdup(path);
	if (!loader->config->path)
		return -ENOMEM;
	return fgt_config_parse(bytes, len, loader->file_name, loader->config,
				loader->why);
}

int fgt_config_load(const char *path, struct fgt_config **ret_config,
		    struct fgt_why *why)
{
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	struct loader loader = { .file_name = path ? path : "environment",
				 .why = why };
	int error = config_new(&config);

	loader.config = config;
	if (!error && path)
		error = load_file(&loader, path);
	if (!error)
		error = load_environment(&loader);
	if (!error)
		error = finish(&loader);
	if (error)
		return explain_no_memory(error, why);
	*ret_config = FGT_TAKE(config);
	return 0;
}

void fgt_config_free(struct fgt_config *config)
{
	if (!config)
		return;
	fgt_config_clear_all(fgt_config_keys, config);
	free(config->path);
	free(config);
}

int fgt_default_socket(char *ret_path, size_t size)
{
	const char *given = secure_getenv("FGTRACE_SOCKET");
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int len;

	if (given && *given)
		len = snprintf(path, sizeof(path), "%s", given);
	else if (geteuid() == 0)
		len = snprintf(path, sizeof(path), "/run/fgtrace/agent.sock");
	else if (runtime && *runtime == '/')
		len = snprintf(path, sizeof(path), "%s/fgtrace/agent.sock",
			       runtime);
	else
		len = snprintf(path, sizeof(path), "/tmp/fgtrace-%u/agent.sock",
			       geteuid());
	if (len < 0 || (size_t)len >= sizeof(path) || (size_t)len >= size)
		return -ENAMETOOLONG;
	memcpy(ret_path, path, (size_t)len + 1);
	return 0;
}
