/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the configuration: file, then environment, then the checks that need
 * more than one key. Runs at start and on reload; must not let libconfig open a
 * file (it may end the process), nor put a value that can be a secret into a
 * message.
 */
#include "agent/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <libconfig.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/config/config_schema.h"
#include "upload/deliver/trusted_file.h"

#define PATH_MAX_SHOWN 128 /* of a key's path in messages */

struct loader {
	const char *file_name;
	struct fgt_config *config;
	struct fgt_why *why;
};

static int load_group(struct loader *loader, config_setting_t *group,
		      const char *prefix, const struct fgt_config_key *keys,
		      void *base);

static void format_where(const struct loader *loader, unsigned int line,
			 char ret_where[FGT_CONFIG_WHERE_MAX])
{
	snprintf(ret_where, FGT_CONFIG_WHERE_MAX, "%s:%u",
		 fgt_trusted_file_name(loader->file_name), line);
}

static int refuse_unknown(struct loader *loader, const char *where,
			  const char *path, const struct fgt_config_key *keys)
{
	const char *dot = strrchr(path, '.');
	char nearest[PATH_MAX_SHOWN];

	if (!strcmp(dot ? dot + 1 : path, "dsn"))
		return fgt_why_set(loader->why, -EINVAL,
				   "%s: a DSN is a secret: put it into a file "
				   "of mode 0640 or 0600 and name that file "
				   "with `dsn_file`",
				   where);
	fgt_config_key_nearest(keys, path, nearest, sizeof(nearest));
	return fgt_why_set(loader->why, -EINVAL,
			   "%s: unknown key `%.64s`; did you mean `%s`?", where,
			   path, nearest);
}

static const char *type_name(const config_setting_t *setting)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_GROUP:
		return "a group";
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return "an integer";
	case CONFIG_TYPE_FLOAT:
		return "a number with a fraction";
	case CONFIG_TYPE_STRING:
		return "a string";
	case CONFIG_TYPE_BOOL:
		return "a boolean";
	default:
		return "a list";
	}
}

static int refuse_type(struct loader *loader, const char *where,
		       const struct fgt_config_key *key,
		       const config_setting_t *setting)
{
	return fgt_config_refuse(key, where, type_name(setting), loader->why);
}

static int load_scalar(struct loader *loader, const config_setting_t *setting,
		       const char *where, const struct fgt_config_key *key,
		       void *base)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return fgt_config_set_int(key, base,
					  config_setting_get_int64(setting),
					  where, loader->why);
	case CONFIG_TYPE_FLOAT:
		return fgt_config_set_number(key, base,
					     config_setting_get_float(setting),
					     where, loader->why);
	case CONFIG_TYPE_BOOL:
		return fgt_config_set_bool(key, base,
					   config_setting_get_bool(setting),
					   where, loader->why);
	case CONFIG_TYPE_STRING:
		return fgt_config_set_string(key, base,
					     config_setting_get_string(setting),
					     where, loader->why);
	default:
		return refuse_type(loader, where, key, setting);
	}
}

static int check_target(const struct fgt_config_target *target,
			const char *where, struct fgt_why *why)
{
	int given = (target->pid != 0) + (target->name != NULL) +
		    (target->exe != NULL) + (target->cgroup != NULL);

	if (given != 1)
		return fgt_why_set(why, -EINVAL,
				   "%s: a target needs exactly one of `pid`, "
				   "`name`, `exe`, `cgroup`; this one has %d",
				   where, given);
	if (target->exe && *target->exe != '/')
		return fgt_why_set(why, -EINVAL,
				   "%s: `exe` must be an absolute path; "
				   "begin it with /",
				   where);
	return 0;
}

static int load_entry(struct loader *loader, config_setting_t *setting,
		      const struct fgt_config_key *key, size_t index)
{
	char where[FGT_CONFIG_WHERE_MAX];
	void *entry;
	int error;

	format_where(loader, config_setting_source_line(setting), where);
	if (config_setting_type(setting) != CONFIG_TYPE_GROUP)
		return refuse_type(loader, where, key, setting);
	error = fgt_config_add_entry(key, loader->config, where, &entry,
				     loader->why);
	if (!error)
		error = load_group(loader, setting, "", key->entries, entry);
	if (error)
		return error;
	if (key->offset == offsetof(struct fgt_config, targets)) {
		((struct fgt_config_target *)entry)->line =
			config_setting_source_line(setting);
		return check_target(entry, where, loader->why);
	}
	if (key->offset == offsetof(struct fgt_config, triggers)) {
		((struct fgt_config_trigger *)entry)->line =
			config_setting_source_line(setting);
		return 0; /* until all destinations are known */
	}
	return fgt_config_check_destination(loader->config, index, where,
					    loader->why);
}

static int load_list(struct loader *loader, config_setting_t *setting,
		     const char *where, const struct fgt_config_key *key,
		     void *base)
{
	int count = config_setting_length(setting);
	int error = 0;

	if (key->may_be_one &&
	    config_setting_type(setting) == CONFIG_TYPE_STRING) {
		fgt_config_clear(key, base);
		return fgt_config_add_string(key, base,
					     config_setting_get_string(setting),
					     where, loader->why);
	}
	if (config_setting_type(setting) != CONFIG_TYPE_LIST &&
	    config_setting_type(setting) != CONFIG_TYPE_ARRAY)
		return refuse_type(loader, where, key, setting);
	fgt_config_clear(key, base);
	for (int i = 0; i < count && !error; i++) {
		config_setting_t *element =
			config_setting_get_elem(setting, (unsigned int)i);
		const char *text;

		if (key->type == FGT_CONFIG_ENTRIES) {
			error = load_entry(loader, element, key, (size_t)i);
			continue;
		}
		text = config_setting_get_string(element);
		if (!text)
			return refuse_type(loader, where, key, element);
		error = fgt_config_add_string(key, base, text, where,
					      loader->why);
	}
	return error;
}

static int load_setting(struct loader *loader, config_setting_t *setting,
			const char *path, const struct fgt_config_key *keys,
			void *base)
{
	const struct fgt_config_key *key = fgt_config_key_find(keys, path);
	char where[FGT_CONFIG_WHERE_MAX];

	format_where(loader, config_setting_source_line(setting), where);
	if (key && fgt_config_is_list(key))
		return load_list(loader, setting, where, key, base);
	if (key)
		return load_scalar(loader, setting, where, key, base);
	if (!fgt_config_is_group(keys, path))
		return refuse_unknown(loader, where, path, keys);
	if (config_setting_type(setting) != CONFIG_TYPE_GROUP)
		return fgt_why_set(loader->why, -EINVAL,
				   "%s: `%s` must be a group, { … }, not %s",
				   where, path, type_name(setting));
	return load_group(loader, setting, path, keys, base);
}

static int load_group(struct loader *loader, config_setting_t *group,
		      const char *prefix, const struct fgt_config_key *keys,
		      void *base)
{
	int count = config_setting_length(group);

	for (int i = 0; i < count; i++) {
		config_setting_t *member =
			config_setting_get_elem(group, (unsigned int)i);
		char path[PATH_MAX_SHOWN];
		int error;

		snprintf(path, sizeof(path), "%s%s%s", prefix,
			 *prefix ? "." : "", config_setting_name(member));
		error = load_setting(loader, member, path, keys, base);
		if (error)
			return error;
	}
	return 0;
}

/* What libconfig's parser reports, with the remedy. */
static int refuse_syntax(struct loader *loader, int line, const char *text)
{
	const char *remedy = "each setting is `key = value;`, strings stand "
			     "in double quotes, groups in { }, lists in ( )";

	if (text && strstr(text, "duplicate"))
		remedy = "give each key once";
	else if (text && strstr(text, "mismatched"))
		remedy = "a list of strings holds strings only";
	return fgt_why_set(loader->why, -EINVAL, "%s:%d: %s: %s",
			   fgt_trusted_file_name(loader->file_name), line,
			   text ? text : "syntax error", remedy);
}

static int load_bytes(struct loader *loader, const char *bytes, size_t len)
{
	config_t parsed; /* at a syntax error 1.5 leaks one string */
	char *clean;
	int error = fgt_config_scan(bytes, len, loader->file_name, &clean,
				    loader->why);

	if (error)
		return error;
	config_init(&parsed);
	if (config_read_string(&parsed, clean) == CONFIG_TRUE)
		error = load_group(loader, config_root_setting(&parsed), "",
				   fgt_config_keys, loader->config);
	else
		error = refuse_syntax(loader, config_error_line(&parsed),
				      config_error_text(&parsed));
	config_destroy(&parsed);
	free(clean);
	return error;
}

/* ---- The environment ---------------------------------------------------- */

/* sampling.hz → FGTRACE_SAMPLING_HZ */
static void name_variable(const char *path, char *ret_name, size_t size)
{
	snprintf(ret_name, size, "FGTRACE_%s", path);
	for (char *c = ret_name; *c; c++)
		*c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
}

/* The environment does not count in a process with raised privileges
 * (AT_SECURE, fault K6): its user may not configure it. */
static int load_environment(struct loader *loader)
{
	const struct fgt_config_key *key;
	int error = 0;

	for (key = fgt_config_keys; key->path && !error; key++) {
		char name[FGT_CONFIG_WHERE_MAX];
		const char *text;

		name_variable(key->path, name, sizeof(name));
		text = fgt_config_is_list(key) ? NULL : secure_getenv(name);
		if (text && *text)
			error = fgt_config_set_text(key, loader->config, text,
						    name, loader->why);
	}
	return error;
}

/* ---- All of it ---------------------------------------------------------- */

static int make_absolute(const char *key, char **path, struct fgt_why *why)
{
	char absolute[PATH_MAX], *copy;
	int error;

	if (!*path)
		return 0;
	error = fgt_trusted_file_absolute(key, *path, absolute,
					  sizeof(absolute), why);
	if (error)
		return error;
	copy = strdup(absolute);
	if (!copy)
		return -ENOMEM;
	free(*path);
	*path = copy;
	return 0;
}

static int finish(struct loader *loader)
{
	struct fgt_config *config = loader->config;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int error = make_absolute("upload.ca_file", &config->upload.ca_file,
				  loader->why);
	if (!error)
		error = make_absolute("http.token_file",
				      &config->http.token_file, loader->why);
	if (!error)
		error = fgt_config_check_http(
			config, fgt_trusted_file_name(loader->file_name),
			loader->why);
	if (!error)
		error = make_absolute("upload.spool_dir",
				      &config->upload.spool_dir, loader->why);
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
		error = load_bytes(&loader, bytes, len);
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
	return load_bytes(loader, bytes, len);
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
