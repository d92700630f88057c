/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration out, as libconfig text or as JSON: both quote
 * strings alike, since no value holds a control character. Any thread; must
 * not print a secret (the configuration holds only names of files).
 */
#include "agent/daemon/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/daemon/config_schema.h"

struct writer {
	const struct fgt_sink *sink;
	bool is_json;
	bool is_first; /* nothing was written in this group yet */
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
	if (writer->is_json)
		put(writer, writer->is_first ? "\n" : ",\n");
	for (unsigned int i = 0; i < writer->depth; i++)
		put(writer, "\t");
	writer->is_first = false;
}

static void put_key(struct writer *writer, const char *name, size_t len)
{
	put(writer, writer->is_json ? "\"" : "");
	put_bytes(writer, name, len);
	put(writer, writer->is_json ? "\": " : " = ");
}

/* What ends a setting. */
static void put_end(struct writer *writer)
{
	if (!writer->is_json)
		put(writer, ";\n");
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
		break;
	}
}

/* { key = value; … } on one line. */
static void put_entry(struct writer *writer, const struct fgt_config_key *keys,
		      const void *entry)
{
	bool is_first = true;

	put(writer, "{ ");
	for (; keys->path; keys++) {
		if (is_unset(keys, entry))
			continue;
		if (!is_first)
			put(writer, writer->is_json ? ", " : " ");
		is_first = false;
		put_key(writer, keys->path, strlen(keys->path));
		put_scalar(writer, keys, entry);
		put(writer, writer->is_json ? "" : ";");
	}
	put(writer, " }");
}

static void put_list(struct writer *writer, const struct fgt_config_key *key,
		     const void *base)
{
	bool is_round = key->type == FGT_CONFIG_ENTRIES && !writer->is_json;
	const char *list = *(const char *const *)place(key, base);
	size_t count = count_of(key, base);

	put(writer, is_round ? "(" : "[");
	for (size_t i = 0; i < count; i++) {
		put(writer, i ? ", " : " ");
		if (key->type == FGT_CONFIG_ENTRIES)
			put_entry(writer, key->entries,
				  list + i * key->entry_size);
		else
			put_quoted(
				writer,
				((const char *const *)(const void *)list)[i]);
	}
	put(writer, count ? " " : "");
	put(writer, is_round ? ")" : "]");
}

static void put_setting(struct writer *writer, const struct fgt_config_key *key,
			const char *name, const void *base)
{
	bool is_list = key->type == FGT_CONFIG_STRINGS ||
		       key->type == FGT_CONFIG_ENTRIES;

	if (!is_list && is_unset(key, base)) {
		if (writer->is_json) {
			put_line(writer);
			put_key(writer, name, strlen(name));
			put(writer, "null");
			return;
		}
		put_line(writer);
		put(writer, "# ");
		put(writer, name);
		put(writer, " is not set\n");
		return;
	}
	put_line(writer);
	put_key(writer, name, strlen(name));
	if (is_list)
		put_list(writer, key, base);
	else
		put_scalar(writer, key, base);
	put_end(writer);
}

static void open_group(struct writer *writer, const char *name, size_t len)
{
	put_line(writer);
	put_key(writer, name, len);
	put(writer, writer->is_json ? "{" : "{\n");
	writer->depth++;
	writer->is_first = true;
}

static void close_group(struct writer *writer)
{
	writer->depth--;
	writer->is_first = true;
	put_line(writer);
	put(writer, "}");
	put_end(writer);
}

static int show(const struct fgt_config *config, struct writer *writer)
{
	const char *group = "";
	size_t group_len = 0;
	const struct fgt_config_key *key;

	for (key = fgt_config_keys; key->path; key++) {
		const char *dot = strchr(key->path, '.');
		size_t len = dot ? (size_t)(dot - key->path) : 0;

		if (len != group_len || strncmp(group, key->path, len) != 0) {
			if (group_len)
				close_group(writer);
			if (len)
				open_group(writer, key->path, len);
			group = key->path;
			group_len = len;
		}
		put_setting(writer, key, dot ? dot + 1 : key->path, config);
	}
	if (group_len)
		close_group(writer);
	return writer->error;
}

int fgt_config_show(const struct fgt_config *config,
		    const struct fgt_sink *sink)
{
	struct writer writer = { .sink = sink, .is_first = true };

	return show(config, &writer);
}

int fgt_config_show_json(const struct fgt_config *config,
			 const struct fgt_sink *sink)
{
	struct writer writer = {
		.sink = sink, .is_json = true, .is_first = true, .depth = 1
	};

	put(&writer, "{");
	show(config, &writer);
	put(&writer, "\n}\n");
	return writer.error;
}
