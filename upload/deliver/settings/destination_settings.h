/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination as a configuration describes it: names of files, no secrets.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SETTINGS_DESTINATION_SETTINGS_H
#define FGT_UPLOAD_DELIVER_SETTINGS_DESTINATION_SETTINGS_H

#include "upload/deliver/destination.h"

/* NULL and 0: not given. Exactly one of the first four after the name. Files
 * may be credentials of the service manager, see credentials.h. */
struct fgt_destination_settings {
	char *name;
	unsigned int line; /* in the configuration, for messages; 0: none */
	char *dsn_file, *url_file, *url, *directory;
	char *kind; /* of a URL; default: by its path */
	char *format; /* default: by the URL's ending; chrome */
	char *method; /* of kind http: PUT or POST */
	char *shape; /* of kind otlp: timestamps or sum */
	char *headers_file;
	char *aws_keys_file, *aws_region, *aws_service;
	char *client_cert_file, *client_key_file;
	char *ca_file; /* default: that of all destinations */
	char *proxy;
	int max_files, max_mb; /* of a directory */
};

/* Of all destinations. */
struct fgt_destination_defaults {
	const char *ca_file; /* NULL: the system's authorities */
	bool is_http_allowed;
	bool is_sentry_v1; /* profiles of version 1 */
};

/*
 * Whether the settings fit each other; reads no file. -EINVAL; why has the key
 * and the remedy.
 */
int fgt_destination_settings_check(
	const struct fgt_destination_settings *settings,
	const struct fgt_destination_defaults *defaults, struct fgt_why *why);

/* The destination, with its secrets out of their files. The errors of _check()
 * and of credentials.h. */
int fgt_destination_load(const struct fgt_destination_settings *settings,
			 const struct fgt_destination_defaults *defaults,
			 struct fgt_destination **ret_destination,
			 struct fgt_why *why);

/* The same for a file that holds a DSN. */
int fgt_destination_load_dsn(const char *dsn_file,
			     const struct fgt_destination_defaults *defaults,
			     struct fgt_destination **ret_destination,
			     struct fgt_why *why);

#endif
