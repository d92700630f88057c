/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the text of a configuration by libconfig; no other file uses
 * it. Any thread; must not let libconfig open a file (it may end the process),
 * nor put a value that can be a secret into a message.
 */
#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config_schema.h"
#include "upload/deliver/trusted_file.h"

#define PATH_MAX_SHOWN 128 /* of a key's path in messages */
#define NAME_MAX_SHOWN 64 /* of one that is unknown */

struct tree_reader {
	const char *file_name;
	struct fgt_config *config;
	struct fgt_why *why;
};

static int load_group(struct tree_reader *reader, config_setting_t *group,
		      const char *prefix, const struct fgt_config_key *keys,
		      void *base);

static void format_where(const struct tree_reader *reader, unsigned int line,
			 char ret_where[FGT_CONFIG_WHERE_MAX])
{
	snprintf(ret_where, FGT_CONFIG_WHERE_MAX, "%s:%u",
		 fgt_trusted_file_name(reader->file_name), line);
}

static int refuse_unknown(struct tree_reader *reader, const char *where,
			  const char *path, const struct fgt_config_key *keys)
{
	const char *dot = strrchr(path, '.');
	const char *rest = strlen(path) > NAME_MAX_SHOWN ? "…" : "";
	char nearest[PATH_MAX_SHOWN];

	if (!strcmp(dot ? dot + 1 : path, "dsn"))
		return fgt_why_set(reader->why, -EINVAL,
				   "%s: a DSN is a secret: put it into a file "
				   "of mode 0640 or 0600 and name that file "
				   "with `dsn_file`",
				   where);
	fgt_config_key_nearest(keys, path, nearest, sizeof(nearest));
	if (!*nearest)
		return fgt_why_set(
			reader->why, -EINVAL,
			"%s: unknown key `%.*s%s`; remove it, or see "
			"fgtrace.conf(5) for the keys",
			where, NAME_MAX_SHOWN, path, rest);
	return fgt_why_set(reader->why, -EINVAL,
			   "%s: unknown key `%.*s%s`; did you mean `%s`?",
			   where, NAME_MAX_SHOWN, path, rest, nearest);
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

static int refuse_type(struct tree_reader *reader, const char *where,
		       const struct fgt_config_key *key,
		       const config_setting_t *setting)
{
	return fgt_config_refuse(key, where, type_name(setting), reader->why);
}

static int load_scalar(struct tree_reader *reader,
		       const config_setting_t *setting, const char *where,
		       const struct fgt_config_key *key, void *base)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return fgt_config_set_int(key, base,
					  config_setting_get_int64(setting),
					  where, reader->why);
	case CONFIG_TYPE_FLOAT:
		return fgt_config_set_number(key, base,
					     config_setting_get_float(setting),
					     where, reader->why);
	case CONFIG_TYPE_BOOL:
		return fgt_config_set_bool(key, base,
					   config_setting_get_bool(setting),
					   where, reader->why);
	case CONFIG_TYPE_STRING:
		return fgt_config_set_string(key, base,
					     config_setting_get_string(setting),
					     where, reader->why);
	default:
		return refuse_type(reader, where, key, setting);
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

static int load_entry(struct tree_reader *reader, config_setting_t *setting,
		      const struct fgt_config_key *key, size_t index)
{
	char where[FGT_CONFIG_WHERE_MAX];
	void *entry;
	int error;

	format_where(reader, config_setting_source_line(setting), where);
	if (config_setting_type(setting) != CONFIG_TYPE_GROUP)
		return refuse_type(reader, where, key, setting);
	error = fgt_config_add_entry(key, reader->config, where, &entry,
				     reader->why);
	if (!error)
		error = load_group(reader, setting, "", key->entries, entry);
	if (error)
		return error;
	if (key->offset == offsetof(struct fgt_config, targets)) {
		((struct fgt_config_target *)entry)->line =
			config_setting_source_line(setting);
		return check_target(entry, where, reader->why);
	}
	if (key->offset == offsetof(struct fgt_config, triggers)) {
		((struct fgt_config_trigger *)entry)->line =
			config_setting_source_line(setting);
		return 0; /* until all destinations are known */
	}
	((struct fgt_destination_settings *)entry)->line =
		config_setting_source_line(setting);
	return fgt_config_check_destination(reader->config, index, where,
					    reader->why);
}

static int load_string(struct tree_reader *reader,
		       const config_setting_t *element,
		       const struct fgt_config_key *key, void *base)
{
	const char *text = config_setting_get_string(element);
	char where[FGT_CONFIG_WHERE_MAX];

	format_where(reader, config_setting_source_line(element), where);
	if (!text)
		return fgt_config_refuse_element(
			key, base, where, type_name(element), reader->why);
	return fgt_config_add_string(key, base, text, where, reader->why);
}

static int load_list(struct tree_reader *reader, config_setting_t *setting,
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
					     where, reader->why);
	}
	if (config_setting_type(setting) != CONFIG_TYPE_LIST &&
	    config_setting_type(setting) != CONFIG_TYPE_ARRAY)
		return refuse_type(reader, where, key, setting);
	fgt_config_clear(key, base);
	for (int i = 0; i < count && !error; i++) {
		config_setting_t *element =
			config_setting_get_elem(setting, (unsigned int)i);

		error = key->type == FGT_CONFIG_ENTRIES
				? load_entry(reader, element, key, (size_t)i)
				: load_string(reader, element, key, base);
	}
	return error;
}

static int load_setting(struct tree_reader *reader, config_setting_t *setting,
			const char *path, const struct fgt_config_key *keys,
			void *base)
{
	const struct fgt_config_key *key = fgt_config_key_find(keys, path);
	char where[FGT_CONFIG_WHERE_MAX];

	format_where(reader, config_setting_source_line(setting), where);
	if (key && keys == fgt_config_keys)
		reader->config->lines[key - keys] =
			config_setting_source_line(setting);
	if (key && fgt_config_is_list(key))
		return load_list(reader, setting, where, key, base);
	if (key)
		return load_scalar(reader, setting, where, key, base);
	if (!fgt_config_is_group(keys, path))
		return refuse_unknown(reader, where, path, keys);
	if (config_setting_type(setting) != CONFIG_TYPE_GROUP)
		return fgt_why_set(reader->why, -EINVAL,
				   "%s: `%s` must be a group, { … }, not %s",
				   where, path, type_name(setting));
	return load_group(reader, setting, path, keys, base);
}

static int load_group(struct tree_reader *reader, config_setting_t *group,
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
		error = load_setting(reader, member, path, keys, base);
		if (error)
			return error;
	}
	return 0;
}

/* What libconfig's parser reports, with the remedy. */
static int refuse_syntax(struct tree_reader *reader, int line, const char *text)
{
	const char *remedy = "each setting is `key = value;`, strings stand "
			     "in double quotes, groups in { }, lists in ( )";

	if (text && strstr(text, "duplicate"))
		remedy = "give each key once";
	else if (text && strstr(text, "mismatched"))
		remedy = "a list of strings holds strings only";
	return fgt_why_set(reader->why, -EINVAL, "%s:%d: %s: %s",
			   fgt_trusted_file_name(reader->file_name), line,
			   text ? text : "syntax error", remedy);
}

int fgt_config_parse(const char *bytes, size_t len, const char *file_name,
		     struct fgt_config *config, struct fgt_why *why)
{
	struct tree_reader reader = { file_name, config, why };
	config_t parsed; /* at a syntax error 1.5 leaks one string */
	char *clean;
	int error = fgt_config_scan(bytes, len, file_name, &clean, why);

	if (error)
		return error;
	config_init(&parsed);
	if (config_read_string(&parsed, clean) == CONFIG_TRUE)
		error = load_group(&reader, config_root_setting(&parsed), "",
				   fgt_config_keys, config);
	else
		error = refuse_syntax(&reader, config_error_line(&parsed),
				      config_error_text(&parsed));
	config_destroy(&parsed);
	free(clean);
	return error;
}

/* ---- Into text --------------------------------------------------------- */

static int add_keys(config_setting_t *parent, const struct fgt_config_key *keys,
		    const void *base);

static int add_scalar(config_setting_t *group, const char *name,
		      const struct fgt_config_key *key, const void *base)
{
	static const int types[] = {
		[FGT_CONFIG_INT] = CONFIG_TYPE_INT,
		[FGT_CONFIG_TENTHS] = CONFIG_TYPE_FLOAT,
		[FGT_CONFIG_BOOL] = CONFIG_TYPE_BOOL,
		[FGT_CONFIG_STRING] = CONFIG_TYPE_STRING,
		[FGT_CONFIG_CHOICE] = CONFIG_TYPE_STRING,
	};
	config_setting_t *added =
		config_setting_add(group, name, types[key->type]);
	const void *value = fgt_config_place(key, base);

	if (!added)
		return -ENOMEM;
	if (key->type == FGT_CONFIG_INT)
		config_setting_set_int(added, *(const int *)value);
	else if (key->type == FGT_CONFIG_TENTHS)
		config_setting_set_float(added, *(const double *)value);
	else if (key->type == FGT_CONFIG_BOOL)
		config_setting_set_bool(added, *(const bool *)value);
	else if (key->type == FGT_CONFIG_CHOICE)
		config_setting_set_string(added,
					  key->choices[*(const int *)value]);
	else
		config_setting_set_string(added, *(char *const *)value);
	return 0;
}

static int add_list(config_setting_t *group, const char *name,
		    const struct fgt_config_key *key, const void *base)
{
	bool has_entries = key->type == FGT_CONFIG_ENTRIES;
	config_setting_t *list = config_setting_add(
		group, name,
		has_entries ? CONFIG_TYPE_LIST : CONFIG_TYPE_ARRAY);
	const void *elements =
		*(const void *const *)fgt_config_place(key, base);
	size_t count = *fgt_config_count_place(key, base);
	int error = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !error; i++) {
		config_setting_t *added = config_setting_add(
			list, NULL,
			has_entries ? CONFIG_TYPE_GROUP : CONFIG_TYPE_STRING);

		if (!added)
			error = -ENOMEM;
		else if (has_entries)
			error = add_keys(added, key->entries,
					 (const char *)elements +
						 i * key->entry_size);
		else
			config_setting_set_string(added,
						  ((char *const *)elements)[i]);
	}
	return error;
}

/* The group that holds the key: ret_name is what the key is called there. */
static config_setting_t *group_of(config_setting_t *parent,
				  const struct fgt_config_key *key,
				  const char **ret_name)
{
	const char *dot = strchr(key->path, '.');
	config_setting_t *group = parent;
	char name[64];

	*ret_name = dot ? dot + 1 : key->path;
	if (!dot)
		return parent;
	snprintf(name, sizeof(name), "%.*s", (int)(dot - key->path), key->path);
	group = config_setting_get_member(parent, name);
	return group ? group
		     : config_setting_add(parent, name, CONFIG_TYPE_GROUP);
}

static int add_keys(config_setting_t *parent, const struct fgt_config_key *keys,
		    const void *base)
{
	int error = 0;

	for (; keys->path && !error; keys++) {
		config_setting_t *group;
		const char *name;

		if (fgt_config_is_unset(keys, base))
			continue;
		group = group_of(parent, keys, &name);
		if (!group)
			error = -ENOMEM;
		else if (fgt_config_is_list(keys))
			error = add_list(group, name, keys, base);
		else
			error = add_scalar(group, name, keys, base);
	}
	return error;
}

static int show_tree(config_t *tree, const struct fgt_config *config,
		     const struct fgt_sink *sink)
{
	const struct fgt_config_key *key;
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	int error;

	if (!stream)
		return -ENOMEM;
	config_write(tree, stream);
	for (key = fgt_config_keys; key->path; key++)
		if (!fgt_config_is_list(key) &&
		    fgt_config_is_unset(key, config))
			fprintf(stream, "# %s is not set\n", key->path);
	error = fclose(stream) ? -ENOMEM : fgt_sink_write(sink, text, len);
	free(text);
	return error;
}

int fgt_config_show(const struct fgt_config *config,
		    const struct fgt_sink *sink)
{
	config_t tree;
	int error;

	config_init(&tree);
	error = add_keys(config_root_setting(&tree), fgt_config_keys, config);
	if (!error)
		error = show_tree(&tree, config, sink);
	config_destroy(&tree);
	return error;
}
