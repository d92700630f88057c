/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration as JSON, by the table of keys. Any thread; must not
 * print a secret (the configuration holds only names of files).
 */
#include <stdio.h>
#include <string.h>

#include "agent/config/config_schema.h"
#include "ringbuf/base/json.h"

static void put_scalar(struct fgt_json *json, const char *name,
		       const struct fgt_config_key *key, const void *base)
{
	const void *value = fgt_config_place(key, base);

	switch (key->type) {
	case FGT_CONFIG_INT:
		fgt_json_put_int(json, name, *(const int *)value);
		break;
	case FGT_CONFIG_TENTHS:
		fgt_json_put_double(json, name, *(const double *)value);
		break;
	case FGT_CONFIG_BOOL:
		fgt_json_put_bool(json, name, *(const bool *)value);
		break;
	case FGT_CONFIG_CHOICE:
		fgt_json_put_string(json, name,
				    key->choices[*(const int *)value]);
		break;
	default:
		fgt_json_put_string(json, name, *(char *const *)value);
	}
}

/* Length of the group's name with its dot; 0 without a group. */
static size_t group_len(const struct fgt_config_key *key)
{
	const char *dot = key->path ? strchr(key->path, '.') : NULL;

	return dot ? (size_t)(dot - key->path) + 1 : 0;
}

static bool is_same_group(const struct fgt_config_key *a,
			  const struct fgt_config_key *b)
{
	size_t len = group_len(a);

	return len == group_len(b) && !memcmp(a->path, b->path, len);
}

static void put_line(struct fgt_json *json, bool is_entry)
{
	if (!is_entry)
		fgt_json_newline(json);
}

static void put_keys(struct fgt_json *json, const struct fgt_config_key *keys,
		     const void *base, bool is_entry);

static void put_list(struct fgt_json *json, const char *name,
		     const struct fgt_config_key *key, const void *base)
{
	const void *elements =
		*(const void *const *)fgt_config_place(key, base);
	size_t count = *fgt_config_count_place(key, base);

	fgt_json_begin_array(json, name);
	for (size_t i = 0; i < count; i++) {
		if (key->type == FGT_CONFIG_STRINGS) {
			fgt_json_put_string(json, NULL,
					    ((char *const *)elements)[i]);
			continue;
		}
		fgt_json_begin_object(json, NULL);
		put_keys(json, key->entries,
			 (const char *)elements + i * key->entry_size, true);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
}

static void begin_group(struct fgt_json *json, const struct fgt_config_key *key)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)group_len(key) - 1,
		 key->path);
	fgt_json_begin_object(json, name);
}

/* Keys and groups have a line each, but those of an entry share its line, and
 * an entry leaves out what is not set. */
static void put_keys(struct fgt_json *json, const struct fgt_config_key *keys,
		     const void *base, bool is_entry)
{
	const struct fgt_config_key *group = NULL; /* a key of the open one */

	for (const struct fgt_config_key *key = keys; key->path; key++) {
		const char *name = key->path + group_len(key);

		if (is_entry && fgt_config_is_unset(key, base))
			continue;
		if (group && !is_same_group(group, key)) {
			put_line(json, is_entry);
			fgt_json_end_object(json);
			group = NULL;
		}
		put_line(json, is_entry);
		if (!group && group_len(key)) {
			begin_group(json, key);
			put_line(json, is_entry);
			group = key;
		}
		if (fgt_config_is_list(key))
			put_list(json, name, key, base);
		else
			put_scalar(json, name, key, base);
	}
	put_line(json, is_entry);
	if (group) {
		fgt_json_end_object(json);
		put_line(json, is_entry);
	}
}

int fgt_config_show_json(const struct fgt_config *config,
			 const struct fgt_sink *sink)
{
	struct fgt_json json;

	fgt_json_init(&json, sink);
	fgt_json_begin_object(&json, NULL);
	put_keys(&json, fgt_config_keys, config, false);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	return fgt_json_finish(&json);
}
