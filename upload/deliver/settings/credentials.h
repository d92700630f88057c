/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets of destinations, from files. A name without a slash is one of the
 * service manager's credentials, if there are any (CREDENTIALS_DIRECTORY).
 * Files of secrets must not be readable by every user (mode & 007 is 0), and
 * belong to root or to the effective user.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SETTINGS_CREDENTIALS_H
#define FGT_UPLOAD_DELIVER_SETTINGS_CREDENTIALS_H

#include <stddef.h>

#include "ringbuf/base/why.h"

/* The caller frees all texts, and overwrites them first. Errors of all:
 * -EINVAL, -EACCES, -ENOMEM, errno of open and read; why names the file, no
 * content. */

/* A name, or the path of a credential, into buffer. -ENAMETOOLONG. */
int fgt_credentials_find(const char *name, char *buffer, size_t size,
			 struct fgt_why *why);

/* Its first line, without blanks around it. */
int fgt_credentials_read_line(const char *name, char **ret_line,
			      struct fgt_why *why);

/* Lines "Name: value", checked; empty lines and those that begin with # are
 * left out. */
int fgt_credentials_read_headers(const char *name, char **ret_lines,
				 struct fgt_why *why);

/*
 * The lines aws_access_key_id = …, aws_secret_access_key = … and, if it is
 * there, aws_session_token = …, as in a credentials file of AWS with one
 * profile. ret_keys: ID:SECRET; ret_token: NULL if there is none.
 */
int fgt_credentials_read_aws(const char *name, char **ret_keys,
			     char **ret_token, struct fgt_why *why);

/* A certificate and its key, one behind the other. key NULL: both are in one
 * file. */
int fgt_credentials_read_pem(const char *certificate, const char *key,
			     char **ret_pem, struct fgt_why *why);

#endif
