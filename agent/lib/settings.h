/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a program: checked, completed and copied. struct fgt_options
 * may be of any version.
 *
 * MT-Safe for different settings | AS-Unsafe
 */
#ifndef FGT_AGENT_LIB_SETTINGS_H
#define FGT_AGENT_LIB_SETTINGS_H

#include <stdbool.h>

#include "agent/lib/fgtrace.h"
#include "ringbuf/base/why.h"

#define FGT_SETTINGS_PATH	 107 /* bytes, of a socket */
#define FGT_SETTINGS_RELEASE	 200
#define FGT_SETTINGS_ENVIRONMENT 64
#define FGT_SETTINGS_SERVICE	 255
#define FGT_SETTINGS_DESTINATION 1023 /* longer destinations are refused */
#define FGT_SETTINGS_CA_FILE	 1023
#define FGT_SETTINGS_SPOOL_DIR	 1023

struct fgt_settings {
	/* Defaults instead of zeros; texts point to the members below, NULL:
	 * not given. */
	struct fgt_options options;
	char socket[FGT_SETTINGS_PATH + 1];
	char destination[FGT_SETTINGS_DESTINATION + 1];
	char ca_file[FGT_SETTINGS_CA_FILE + 1];
	char spool_dir[FGT_SETTINGS_SPOOL_DIR + 1];
	char release[FGT_SETTINGS_RELEASE + 1];
	char environment[FGT_SETTINGS_ENVIRONMENT + 1];
	char service_name[FGT_SETTINGS_SERVICE + 1];
	char service_namespace[FGT_SETTINGS_SERVICE + 1];
	char service_version[FGT_SETTINGS_SERVICE + 1];
	char service_instance[FGT_SETTINGS_SERVICE + 1];
};

/* given: NULL for defaults. -EINVAL, -ENOMEM, with why; only log and context of
 * the settings are valid then (NULL if the size is of no version). */
int fgt_settings_init(struct fgt_settings *settings,
		      const struct fgt_options *given, struct fgt_why *why);

/* 0: an absolute path or a DSN. is_http_allowed: plain http to another machine.
 * -EINVAL, -ENOMEM, with why (may be NULL). */
int fgt_settings_check_destination(const char *destination,
				   bool is_http_allowed, struct fgt_why *why);

/*
 * Fills in a struct of the caller that begins with its size, in bytes, which
 * may be that of an older or newer version. -EINVAL: the struct is NULL, or
 * smaller than the first version, or its size is not set.
 */
int fgt_settings_copy_struct(void *ret_to, size_t size_min, const void *from,
			     size_t from_size);

/* Length of a text that is cut at max bytes (max > 3), never inside a UTF-8
 * character. 0 for NULL. MT-Safe | AS-Safe */
size_t fgt_settings_text_len(const char *text, size_t max);

/* Copies a text, cut at size - 1 bytes in the same way. */
void fgt_settings_copy_text(char *to, size_t size, const char *from);

#endif
