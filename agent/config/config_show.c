/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration out, as libconfig text or as JSON. No value holds a
 * control character, so that libconfig's quoting is simple. Any thread; must
 * not print a secret (the configuration holds only names of files).
 */
#include "agent/config/config.h"

#include <stdio.h>
#include <string.h>

#include "agent/config/config_schema.h"
#include "ringbuf/base/json.h"

struct writer {
	const struct fgt_sink *sink;
	unsigned int depth; /* groups open */
	int error; /* the sink's first one sticks */
};

static void put_bytes(struct writer *writer, const char *bytes, size_t len)
{
	if (!writer->error && len)
		writer->error = fgt_sink_write(writer->sink, bytes, len);
}

static void put(struct writer *writer, const char *text)
{
	put_bytes(writer, text, strlen(text));
}

static void put_number(struct writer *writer, int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", number);
	put(writer, text);
}

static void put_decimal(struct writer *writer, double number)
{
	char text[32];

	snprintf(text, sizeof(text), "%.6g", number);
	put(writer, text);
}

static void put_quoted(struct writer *writer, const char *text)
{
	put(writer, "\"");
	while (*text) {
		size_t plain = strcspn(text, "\\\"");

		put_bytes(writer, text, plain);
		text += plain;
		if (*text) {
			put(writer, "\\");
			put_bytes(writer, text++, 1);
		}
	}
	put(writer, "\"");
}

/* The start of a line of the right indentation. */
static void put_line(struct writer *writer)
{
	for (unsigned int i = 0; i < writer->depth; i++)
		put(writer, "\t");
}

static const void *place(const struct fgt_config_key *key, const void *base)
{
	return (const char *)base + key->offset;
}

static size_t count_of(const struct fgt_config_key *key, const void *base)
{
	return *(const size_t *)(const void *)((const char *)base +
					       key->count_offset);
}

/* An entry of a list does not say what it was not told. */
static bool is_unset(const struct fgt_config_key *key, const void *base)
{
	if (key->type == FGT_CONFIG_UNSUPPORTED)
		return true;
	if (key->type == FGT_CONFIG_STRING)
		return *(char *const *)place(key, base) == NULL;
	return key->type == FGT_CONFIG_INT &&
	       *(const int *)place(key, base) < key->min;
}

static void put_scalar(struct writer *writer, const struct fgt_config_key *key,
		       const void *base)
{
	const void *value = place(key, base);

	switch (key->type) {
	case FGT_CONFIG_INT:
		put_number(writer, *(const int *)value);
		break;
	case FGT_CONFIG_TENTHS:
		put_decimal(writer, *(const double *)value);
		break;
	case FGT_CONFIG_BOOL:
		put(writer, *(const bool *)value ? "true" : "false");
		break;
	case FGT_CONFIG_CHOICE:
		put_quoted(writer, key->choices[*(const int *)value]);
		break;
	case FGT_CONFIG_STRING:
		put_quoted(writer, *(char *const *)value);
		break;
	case FGT_CONFIG_STRINGS:
	case FGT_CONFIG_ENTRIES:
	case FGT_CONFIG_UNSUPPORTED:
		break;
	}
}

/* { key = value; … } on one line. */
static void put_entry(struct writer *writer, const struct fgt_config_key *keys,
		      const void *entry)
{
	put(writer, "{");
	for (; keys->path; keys++) {
		if (is_unset(keys, entry))
			continue;
		put(writer, " ");
		put(writer, keys->path);
		put(writer, " = ");
		put_scalar(writer, keys, entry);
		put(writer, ";");
	}
	put(writer, " }");
}

/* Element index of a list: an entry. */
static const void *entry_at(const struct fgt_config_key *key, const void *base,
			    size_t index)
{
	return *(const char *const *)place(key, base) + index * key->entry_size;
}

/* The same of a list of strings. */
static const char *string_at(const struct fgt_config_key *key, const void *base,
			     size_t index)
{
	return (*(const char *const *const *)place(key, base))[index];
}

static void put_list(struct writer *writer, const struct fgt_config_key *key,
		     const void *base)
{
	bool has_entries = key->type == FGT_CONFIG_ENTRIES;
	size_t count = count_of(key, base);

	put(writer, has_entries ? "(" : "[");
	for (size_t i = 0; i < count; i++) {
		put(writer, i ? ", " : " ");
		if (has_entries)
			put_entry(writer, key->entries, entry_at(key, base, i));
		else
			put_quoted(writer, string_at(key, base, i));
	}
	put(writer, count ? " " : "");
	put(writer, has_entries ? ")" : "]");
}

static bool is_list(const struct fgt_config_key *key)
{
	return key->type == FGT_CONFIG_STRINGS ||
	       key->type == FGT_CONFIG_ENTRIES;
}

static size_t group_len(const struct fgt_config_key *key)
{
	const char *dot = strchr(key->path, '.');

	return dot ? (size_t)(dot - key->path) : 0;
}

/* What the key is called in its group. */
static const char *name_of(const struct fgt_config_key *key)
{
	size_t len = group_len(key);

	return key->path + (len ? len + 1 : 0);
}

/* Keys of a group stand together: does this one begin its group? */
static bool begins_group(const struct fgt_config_key *key)
{
	size_t len = group_len(key);

	return len && (key == fgt_config_keys || group_len(key - 1) != len ||
		       memcmp(key[-1].path, key->path, len) != 0);
}

static bool ends_group(const struct fgt_config_key *key)
{
	return group_len(key) &&
	       (!key[1].path || !group_len(key + 1) || begins_group(key + 1));
}

static void put_setting(struct writer *writer, const struct fgt_config_key *key,
			const void *base)
{
	put_line(writer);
	if (!is_list(key) && is_unset(key, base)) {
		put(writer, "# ");
		put(writer, name_of(key));
		put(writer, " is not set\n");
		return;
	}
	put(writer, name_of(key));
	put(writer, " = ");
	if (is_list(key))
		put_list(writer, key, base);
	else
		put_scalar(writer, key, base);
	put(writer, ";\n");
}

int fgt_config_show(const struct fgt_config *config,
		    const struct fgt_sink *sink)
{
	struct writer writer = { .sink = sink };
	const struct fgt_config_key *key;

	for (key = fgt_config_keys; key->path; key++) {
		if (begins_group(key)) {
			put_bytes(&writer, key->path, group_len(key));
			put(&writer, " = {\n");
			writer.depth++;
		}
		put_setting(&writer, key, config);
		if (ends_group(key)) {
			writer.depth--;
			put(&writer, "};\n");
		}
	}
	return writer.error;
}

static void json_scalar(struct fgt_json *json, const struct fgt_config_key *key,
			const void *base)
{
	const char *name = name_of(key);
	const void *value = place(key, base);

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
	case FGT_CONFIG_STRING:
		fgt_json_put_string(json, name, *(char *const *)value);
		break;
	case FGT_CONFIG_STRINGS:
	case FGT_CONFIG_ENTRIES:
	case FGT_CONFIG_UNSUPPORTED:
		break;
	}
}

static void json_entry(struct fgt_json *json, const struct fgt_config_key *keys,
		       const void *entry)
{
	fgt_json_begin_object(json, NULL);
	for (; keys->path; keys++)
		if (!is_unset(keys, entry))
			json_scalar(json, keys, entry);
	fgt_json_end_object(json);
}

static void json_list(struct fgt_json *json, const struct fgt_config_key *key,
		      const void *base)
{
	size_t count = count_of(key, base);

	fgt_json_begin_array(json, name_of(key));
	for (size_t i = 0; i < count; i++)
		if (key->type == FGT_CONFIG_ENTRIES)
			json_entry(json, key->entries, entry_at(key, base, i));
		else
			fgt_json_put_string(json, NULL,
					    string_at(key, base, i));
	fgt_json_end_array(json);
}

static void json_setting(struct fgt_json *json,
			 const struct fgt_config_key *key, const void *base)
{
	fgt_json_newline(json);
	if (is_list(key))
		json_list(json, key, base);
	else if (is_unset(key, base))
		fgt_json_put_string(json, name_of(key), NULL);
	else
		json_scalar(json, key, base);
}

int fgt_config_show_json(const struct fgt_config *config,
			 const struct fgt_sink *sink)
{
	const struct fgt_config_key *key;
	struct fgt_json json;
	char group[64];

	fgt_json_init(&json, sink);
	fgt_json_begin_object(&json, NULL);
	for (key = fgt_config_keys; key->path; key++) {
		if (begins_group(key)) {
			snprintf(group, sizeof(group), "%.*s",
				 (int)group_len(key), key->path);
			fgt_json_newline(&json);
			fgt_json_begin_object(&json, group);
		}
		json_setting(&json, key, config);
		if (ends_group(key)) {
			fgt_json_newline(&json);
			fgt_json_end_object(&json);
		}
	}
	fgt_json_newline(&json);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	return fgt_json_finish(&json);
}
