/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the configuration. The table of its keys: each row has the name of a
 * key, its allowed values, and its place in struct fgt_config. File,
 * environment, show and the hints for misspelt keys use it.
 *
 * MT-Safe for different configurations | AS-Unsafe
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_SCHEMA_H
#define FGT_AGENT_CONFIG_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config/config.h"
#include "ringbuf/base/why.h"

#define FGT_CONFIG_WHERE_MAX 192 /* "FILE:LINE" or a variable's name */
#define FGT_CONFIG_FILE_MAX  (1024 * 1024) /* bytes */

enum fgt_config_type {
	FGT_CONFIG_INT, /* int */
	FGT_CONFIG_TENTHS, /* double; 0, or from min to max */
	FGT_CONFIG_BOOL, /* bool */
	FGT_CONFIG_STRING, /* char *, NULL: not set */
	FGT_CONFIG_CHOICE, /* int-sized enum, index into choices */
	FGT_CONFIG_STRINGS, /* char **, with a count */
	FGT_CONFIG_ENTRIES, /* array of structs, with a count */
};

struct fgt_config_key {
	const char *path; /* "sampling.hz"; in an entry just "pid" */
	enum fgt_config_type type;
	size_t offset; /* in struct fgt_config, or in the entry */
	size_t count_offset; /* of the size_t beside STRINGS and ENTRIES */
	/* INT; TENTHS: ten times as much; STRING: max bytes; lists: max
	 * elements. */
	int min, max;
	int default_number; /* INT, TENTHS, BOOL, CHOICE */
	const char *default_text; /* STRING; STRINGS: one element */
	const char *const *choices; /* NULL-terminated; also STRING */
	const struct fgt_config_key *entries; /* keys of one entry */
	size_t entry_size;
	bool may_be_one; /* STRINGS: a string alone is a list of one */
};

/* Where base, a struct fgt_config or an entry, has the key's value. */
static inline void *fgt_config_place(const struct fgt_config_key *key,
				     const void *base)
{
	return (char *)(uintptr_t)base + key->offset;
}

/* The number of elements of STRINGS and ENTRIES. */
static inline size_t *fgt_config_count_place(const struct fgt_config_key *key,
					     const void *base)
{
	return (size_t *)((uintptr_t)base + key->count_offset);
}

static inline bool fgt_config_is_list(const struct fgt_config_key *key)
{
	return key->type == FGT_CONFIG_STRINGS ||
	       key->type == FGT_CONFIG_ENTRIES;
}

/* True for a key without a value, which a file leaves out. */
bool fgt_config_is_unset(const struct fgt_config_key *key, const void *base);

/* Ends with a row whose path is NULL; keys of a group stand together. */
extern const struct fgt_config_key fgt_config_keys[];

/* The row of a full path, NULL if there is none. */
const struct fgt_config_key *
fgt_config_key_find(const struct fgt_config_key *keys, const char *path);

/* The environment's variable of a key. */
void fgt_config_name_variable(const char *path, char *ret_name, size_t size);

/* "FILE:LINE" where the key of this full path was set, or its variable. */
void fgt_config_where(const struct fgt_config *config, const char *path,
		      const char *file_name,
		      char ret_where[FGT_CONFIG_WHERE_MAX]);

/* True if path names a group, such as "sampling". */
bool fgt_config_is_group(const struct fgt_config_key *keys, const char *path);

/*
 * The supported key nearest to an unknown path, as it is written at this place;
 * "": none is near.
 */
void fgt_config_key_nearest(const struct fgt_config_key *keys, const char *path,
			    char *ret_name, size_t size);

/* "an integer from 1 to 1000", "one of "root", "leaf", "no"", … */
void fgt_config_key_wants(const struct fgt_config_key *key, char *ret_text,
			  size_t size);

/* "WHERE: `key` must be …, not FOUND"; found may be NULL. Returns -EINVAL. */
int fgt_config_refuse(const struct fgt_config_key *key, const char *where,
		      const char *found, struct fgt_why *why);

/* The same of the string that would be appended to STRINGS: it is counted. */
int fgt_config_refuse_element(const struct fgt_config_key *key, void *base,
			      const char *where, const char *found,
			      struct fgt_why *why);

/*
 * Set a value in base (a struct fgt_config or an entry) if the key may have it.
 * where begins the message. -EINVAL, -ENOMEM.
 */
int fgt_config_set_int(const struct fgt_config_key *key, void *base,
		       int64_t value, const char *where, struct fgt_why *why);
int fgt_config_set_number(const struct fgt_config_key *key, void *base,
			  double value, const char *where, struct fgt_why *why);
int fgt_config_set_bool(const struct fgt_config_key *key, void *base,
			bool value, const char *where, struct fgt_why *why);
int fgt_config_set_string(const struct fgt_config_key *key, void *base,
			  const char *value, const char *where,
			  struct fgt_why *why);
/* Appends to STRINGS. */
int fgt_config_add_string(const struct fgt_config_key *key, void *base,
			  const char *value, const char *where,
			  struct fgt_why *why);
/* Appends an empty entry to ENTRIES. */
int fgt_config_add_entry(const struct fgt_config_key *key, void *base,
			 const char *where, void **ret_entry,
			 struct fgt_why *why);
/* Text of any scalar type, from the environment. */
int fgt_config_set_text(const struct fgt_config_key *key, void *base,
			const char *text, const char *where,
			struct fgt_why *why);

/*
 * Checks a file before libconfig reads it: refuses what libconfig would misread
 * or accept silently: a directive, deep nesting, a number that it wraps, an
 * escape that cuts a string, text that is not UTF-8. Grammar is left to
 * libconfig. ret_clean gets a NUL-terminated copy of bytes[len] with the same
 * line numbers, without byte order mark and comments; the caller frees it.
 * file_name is for messages. -EINVAL with why "FILE:LINE: …", -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_config_scan(const char *bytes, size_t len, const char *file_name,
		    char **ret_clean, struct fgt_why *why);

/*
 * Reads the text of a file into config, whose defaults are set. file_name is
 * for messages. -EINVAL with why "FILE:LINE: …", -ENOMEM.
 *
 * MT-Safe for different configurations | AS-Unsafe
 */
int fgt_config_parse(const char *bytes, size_t len, const char *file_name,
		     struct fgt_config *config, struct fgt_why *why);

/*
 * One entry of upload.destinations, alone: its name, and whether its keys fit
 * each other. -EINVAL, with where; -ENOMEM.
 */
int fgt_config_check_destination(struct fgt_config *config, size_t index,
				 const char *where, struct fgt_why *why);

/* All of upload, once every key is known. -EINVAL, -ENOMEM. */
int fgt_config_check_upload(struct fgt_config *config, const char *file_name,
			    struct fgt_why *why);

/* The rules of triggers and continuous targets that need more than one key,
 * when all of the file is loaded. -EINVAL with why. */
int fgt_config_check_triggers(const struct fgt_config *config,
			      const char *file_name, struct fgt_why *why);
/* Where a rule of the configuration delivers. */
struct fgt_config_places {
	const char *where, *subject; /* for messages */
	char *const *places;
	size_t count; /* 0: all destinations */
};
int fgt_config_check_places(const struct fgt_config *config,
			    const struct fgt_config_places *places,
			    struct fgt_why *why);
int fgt_config_check_continuous(const struct fgt_config *config,
				const char *file_name, struct fgt_why *why);

/* Sets every default; base must be zeroed. -ENOMEM. */
int fgt_config_set_defaults(const struct fgt_config_key *keys, void *base);
/* Empties a list, so that a file's list replaces the default. */
void fgt_config_clear(const struct fgt_config_key *key, void *base);
/* Frees the strings and lists of the keys in base. */
void fgt_config_clear_all(const struct fgt_config_key *keys, void *base);

/* Do the values of http fit together? -EINVAL. */
int fgt_config_check_http(const struct fgt_config *config,
			  const char *file_name, struct fgt_why *why);

#endif
