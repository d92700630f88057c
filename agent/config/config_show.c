/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration as libconfig text or as JSON, from one tree of
 * libconfig. Any thread; must not print a secret (the configuration holds
 * only names of files).
 */
#include "agent/config/config.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config_schema.h"
#include "ringbuf/base/json.h"

/* What the tree holds for a key that is not set. */
enum unset {
	UNSET_ABSENT,
	UNSET_NULL, /* a string without a value */
};

static const char *string_of(const struct fgt_config_key *key, const void *base)
{
	return *(char *const *)fgt_config_place(key, base);
}

static bool is_unset(const struct fgt_config_key *key, const void *base)
{
	if (key->type == FGT_CONFIG_STRING)
		return !string_of(key, base);
	if (key->type == FGT_CONFIG_TENTHS)
		return key->default_number == 0 &&
		       *(const double *)fgt_config_place(key, base) == 0;
	return key->type == FGT_CONFIG_INT &&
	       *(const int *)fgt_config_place(key, base) < key->min;
}

/* ---- Into a tree ------------------------------------------------------- */

static int add_keys(config_setting_t *parent, const struct fgt_config_key *keys,
		    const void *base, enum unset unset);

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
		config_setting_set_string(added, string_of(key, base));
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
						 i * key->entry_size,
					 UNSET_ABSENT);
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
		    const void *base, enum unset unset)
{
	int error = 0;

	for (; keys->path && !error; keys++) {
		config_setting_t *group;
		const char *name;

		if (unset == UNSET_ABSENT && is_unset(keys, base))
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

/* ---- Out of it --------------------------------------------------------- */

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
		if (!fgt_config_is_list(key) && is_unset(key, config))
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
	error = add_keys(config_root_setting(&tree), fgt_config_keys, config,
			 UNSET_ABSENT);
	if (!error)
		error = show_tree(&tree, config, sink);
	config_destroy(&tree);
	return error;
}

static void json_group(struct fgt_json *json, const config_setting_t *setting,
		       unsigned int depth);

static void json_setting(struct fgt_json *json, const config_setting_t *setting,
			 unsigned int depth)
{
	const char *name = config_setting_name(setting);

	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
		fgt_json_put_int(json, name, config_setting_get_int(setting));
		break;
	case CONFIG_TYPE_FLOAT:
		fgt_json_put_double(json, name,
				    config_setting_get_float(setting));
		break;
	case CONFIG_TYPE_BOOL:
		fgt_json_put_bool(json, name, config_setting_get_bool(setting));
		break;
	case CONFIG_TYPE_STRING:
		fgt_json_put_string(json, name,
				    config_setting_get_string(setting));
		break;
	default:
		json_group(json, setting, depth);
	}
}

/* Keys and groups of keys, which nest two deep, have a line each. */
static void json_group(struct fgt_json *json, const config_setting_t *setting,
		       unsigned int depth)
{
	bool is_group = config_setting_type(setting) == CONFIG_TYPE_GROUP;
	bool has_lines = is_group && depth < 2;
	int count = config_setting_length(setting);

	if (is_group)
		fgt_json_begin_object(json, config_setting_name(setting));
	else
		fgt_json_begin_array(json, config_setting_name(setting));
	for (int i = 0; i < count; i++) {
		if (has_lines)
			fgt_json_newline(json);
		json_setting(json,
			     config_setting_get_elem(setting, (unsigned int)i),
			     depth + 1);
	}
	if (has_lines)
		fgt_json_newline(json);
	if (is_group)
		fgt_json_end_object(json);
	else
		fgt_json_end_array(json);
}

int fgt_config_show_json(const struct fgt_config *config,
			 const struct fgt_sink *sink)
{
	struct fgt_json json;
	config_t tree;
	int error;

	config_init(&tree);
	error = add_keys(config_root_setting(&tree), fgt_config_keys, config,
			 UNSET_NULL);
	if (!error) {
		fgt_json_init(&json, sink);
		json_group(&json, config_root_setting(&tree), 0);
		fgt_json_newline(&json);
		error = fgt_json_finish(&json);
	}
	config_destroy(&tree);
	return error;
}
