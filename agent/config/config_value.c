/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores checked values at the places that the table of keys has, and frees
 * them. Any thread; must not use libconfig nor read the environment.
 */
#include "agent/config/config_schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/utf8.h"

#define ELEMENT_BYTES 4095 /* of a string in a list */

int fgt_config_refuse(const struct fgt_config_key *key, const char *where,
		      const char *found, struct fgt_why *why)
{
	char wanted[200];

	fgt_config_key_wants(key, wanted, sizeof(wanted));
	return fgt_why_set(why, -EINVAL, "%s: `%s` must be %s%s%s", where,
			   key->path, wanted, found ? ", not " : "",
			   found ? found : "");
}

int fgt_config_set_int(const struct fgt_config_key *key, void *base,
		       int64_t value, const char *where, struct fgt_why *why)
{
	if (key->type == FGT_CONFIG_TENTHS)
		return fgt_config_set_number(key, base, (double)value, where,
					     why);
	if (key->type != FGT_CONFIG_INT)
		return fgt_config_refuse(key, where, "an integer", why);
	if (value < key->min || value > key->max)
		return fgt_config_refuse(key, where, NULL, why);
	*(int *)fgt_config_place(key, base) = (int)value;
	return 0;
}

int fgt_config_set_number(const struct fgt_config_key *key, void *base,
			  double value, const char *where, struct fgt_why *why)
{
	if (key->type != FGT_CONFIG_TENTHS)
		return fgt_config_refuse(key, where, "a number with a fraction",
					 why);
	/* The condition is negated so that NaN is refused, too. */
	if (!(value == 0 || (value * 10 >= key->min && value * 10 <= key->max)))
		return fgt_config_refuse(key, where, NULL, why);
	*(double *)fgt_config_place(key, base) = value;
	return 0;
}

int fgt_config_set_bool(const struct fgt_config_key *key, void *base,
			bool value, const char *where, struct fgt_why *why)
{
	if (key->type != FGT_CONFIG_BOOL)
		return fgt_config_refuse(key, where, "a boolean", why);
	*(bool *)fgt_config_place(key, base) = value;
	return 0;
}

/* Finds value among the choices; without choices each value is allowed. */
static bool find_choice(const struct fgt_config_key *key, const char *value,
			int *ret_index)
{
	for (int i = 0; key->choices && key->choices[i]; i++)
		if (!strcmp(key->choices[i], value)) {
			*ret_index = i;
			return true;
		}
	return !key->choices;
}

/* UTF-8 without control characters. */
static bool is_plain_text(const char *text, size_t len)
{
	size_t step;

	for (size_t i = 0; i < len; i += step) {
		step = fgt_utf8_len(text + i, len - i);
		if (!step || (unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	}
	return true;
}

static int copy_string(const struct fgt_config_key *key, const char *value,
		       const char *where, char **ret_copy, struct fgt_why *why)
{
	size_t len = strlen(value);
	char *copy;

	if (!is_plain_text(value, len))
		return fgt_why_set(why, -EINVAL,
				   "%s: `%s` holds a control character or "
				   "invalid UTF-8; remove it",
				   where, key->path);
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	*ret_copy = copy;
	return 0;
}

int fgt_config_set_string(const struct fgt_config_key *key, void *base,
			  const char *value, const char *where,
			  struct fgt_why *why)
{
	char **string = fgt_config_place(key, base);
	char *copy = NULL;
	int choice = 0;
	int error;

	if (key->type != FGT_CONFIG_STRING && key->type != FGT_CONFIG_CHOICE)
		return fgt_config_refuse(key, where, "a string", why);
	if (!find_choice(key, value, &choice))
		return fgt_config_refuse(key, where, NULL, why);
	if (key->type == FGT_CONFIG_CHOICE) {
		*(int *)fgt_config_place(key, base) = choice;
		return 0;
	}
	if (!*value || strlen(value) > (size_t)key->max)
		return fgt_config_refuse(key, where, NULL, why);
	error = copy_string(key, value, where, &copy, why);
	if (error)
		return error;
	free(*string);
	*string = copy;
	return 0;
}

/* Grows the list by one zeroed element of size bytes. */
static int grow(const struct fgt_config_key *key, void *base, size_t size,
		const char *where, void **ret_element, struct fgt_why *why)
{
	size_t *count = fgt_config_count_place(key, base);
	void **list = fgt_config_place(key, base);
	char *grown;

	if (*count >= (size_t)key->max)
		return fgt_config_refuse(key, where, NULL, why);
	grown = reallocarray(*list, *count + 1, size);
	if (!grown)
		return -ENOMEM;
	*list = grown;
	memset(grown + *count * size, 0, size);
	*ret_element = grown + *count * size;
	++*count;
	return 0;
}

int fgt_config_refuse_element(const struct fgt_config_key *key, void *base,
			      const char *where, const char *found,
			      struct fgt_why *why)
{
	return fgt_why_set(why, -EINVAL,
			   "%s: element %zu of `%s` must be a string of 1 to "
			   "%d bytes%s%s",
			   where, *fgt_config_count_place(key, base) + 1,
			   key->path, ELEMENT_BYTES, found ? ", not " : "",
			   found ? found : "");
}

int fgt_config_add_string(const struct fgt_config_key *key, void *base,
			  const char *value, const char *where,
			  struct fgt_why *why)
{
	void *element;
	int error;

	if (!*value || strlen(value) > ELEMENT_BYTES)
		return fgt_config_refuse_element(key, base, where, NULL, why);
	error = grow(key, base, sizeof(char *), where, &element, why);
	return error ? error : copy_string(key, value, where, element, why);
}

int fgt_config_add_entry(const struct fgt_config_key *key, void *base,
			 const char *where, void **ret_entry,
			 struct fgt_why *why)
{
	int error = grow(key, base, key->entry_size, where, ret_entry, why);

	return error ? error
		     : fgt_config_set_defaults(key->entries, *ret_entry);
}

int fgt_config_set_text(const struct fgt_config_key *key, void *base,
			const char *text, const char *where,
			struct fgt_why *why)
{
	long long number;
	double decimal;
	char *end;

	if (key->type == FGT_CONFIG_INT) {
		errno = 0;
		number = strtoll(text, &end, 10);
		if (errno || end == text || *end)
			return fgt_config_refuse(key, where, NULL, why);
		return fgt_config_set_int(key, base, number, where, why);
	}
	if (key->type == FGT_CONFIG_TENTHS) {
		decimal = strtod(text, &end);
		if (end == text || *end)
			return fgt_config_refuse(key, where, NULL, why);
		return fgt_config_set_number(key, base, decimal, where, why);
	}
	if (key->type == FGT_CONFIG_BOOL) {
		bool is_true = !strcmp(text, "true") || !strcmp(text, "1");

		if (!is_true && strcmp(text, "false") && strcmp(text, "0"))
			return fgt_config_refuse(key, where, NULL, why);
		return fgt_config_set_bool(key, base, is_true, where, why);
	}
	return fgt_config_set_string(key, base, text, where, why);
}

bool fgt_config_is_unset(const struct fgt_config_key *key, const void *base)
{
	const void *value = fgt_config_place(key, base);

	if (key->type == FGT_CONFIG_STRING)
		return !*(char *const *)value;
	if (key->type == FGT_CONFIG_TENTHS)
		return key->default_number == 0 && *(const double *)value == 0;
	return key->type == FGT_CONFIG_INT && *(const int *)value < key->min;
}

static int set_default(const struct fgt_config_key *key, void *base)
{
	void *at = fgt_config_place(key, base);

	if (key->type == FGT_CONFIG_INT || key->type == FGT_CONFIG_CHOICE)
		*(int *)at = key->default_number;
	else if (key->type == FGT_CONFIG_TENTHS)
		*(double *)at = key->default_number / 10.0;
	else if (key->type == FGT_CONFIG_BOOL)
		*(bool *)at = key->default_number;
	else if (key->type == FGT_CONFIG_STRING && key->default_text)
		return fgt_config_set_string(key, base, key->default_text,
					     "default", NULL);
	else if (key->type == FGT_CONFIG_STRINGS && key->default_text)
		return fgt_config_add_string(key, base, key->default_text,
					     "default", NULL);
	return 0;
}

int fgt_config_set_defaults(const struct fgt_config_key *keys, void *base)
{
	for (; keys->path; keys++) {
		int error = set_default(keys, base);

		if (error)
			return error;
	}
	return 0;
}

void fgt_config_clear(const struct fgt_config_key *key, void *base)
{
	void **list = fgt_config_place(key, base);
	size_t count;

	if (key->type == FGT_CONFIG_STRING) {
		free(*list);
		*list = NULL;
		return;
	}
	if (!fgt_config_is_list(key))
		return;
	count = *fgt_config_count_place(key, base);
	for (size_t i = 0; i < count; i++) {
		if (key->type == FGT_CONFIG_STRINGS)
			free(((char **)*list)[i]);
		else
			fgt_config_clear_all(key->entries,
					     (char *)*list +
						     i * key->entry_size);
	}
	free(*list);
	*list = NULL;
	*fgt_config_count_place(key, base) = 0;
}

void fgt_config_clear_all(const struct fgt_config_key *keys, void *base)
{
	for (; keys->path; keys++)
		fgt_config_clear(keys, base);
}
