/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings become a destination. Any thread; must not put a secret into a
 * message.
 */
#include "upload/deliver/settings/destination_settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "upload/deliver/dsn.h"
#include "upload/deliver/settings/credentials.h"
#include "upload/deliver/trusted_file.h"
#include "upload/deliver/url.h"
#include "upload/format/format.h"

/* ---- Checks -------------------------------------------------------------- */

static int find_kind(const char *name, uint32_t *ret_kind)
{
	for (uint32_t kind = 0; kind < FGT_DESTINATION_COUNT; kind++)
		if (!strcmp(name, fgt_destination_kind_name(
					  (enum fgt_destination_kind)kind))) {
			*ret_kind = kind;
			return 0;
		}
	return -EINVAL;
}

/* [scheme://]host[:port], as libcurl reads it. */
static int check_proxy(const char *proxy, struct fgt_why *why)
{
	static const char *const schemes[] = { "http",	  "https",  "socks4",
					       "socks4a", "socks5", "socks5h" };
	const char *host = strstr(proxy, "://");
	size_t len = host ? (size_t)(host - proxy) : 0;
	char url[FGT_URL_MAX + 8];
	bool is_known = !host;
	struct fgt_url parts;
	struct fgt_why part;

	if (strchr(proxy, '@'))
		return fgt_why_set(
			why, -EINVAL,
			"`proxy` holds a user or password, which are no part "
			"of a configuration; name this proxy in https_proxy "
			"and http_proxy of the daemon's environment");
	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		is_known |= strlen(schemes[i]) == len &&
			    strncasecmp(proxy, schemes[i], len) == 0;
	if (!is_known)
		return fgt_why_set(why, -EINVAL,
				   "`proxy`: the scheme must be http, https, "
				   "socks4, socks4a, socks5 or socks5h");
	snprintf(url, sizeof(url), "http://%s", host ? host + 3 : proxy);
	if (fgt_url_parse(url, &parts, &part) < 0)
		return fgt_why_set(why, -EINVAL, "`proxy`: %s", part.text);
	return 0;
}

static int check_place(const struct fgt_destination_settings *settings,
		       struct fgt_why *why)
{
	int given = !!settings->dsn_file + !!settings->url_file +
		    !!settings->url + !!settings->directory;

	if (given != 1)
		return fgt_why_set(why, -EINVAL,
				   "a destination needs exactly one of "
				   "`dsn_file`, `url`, `url_file`, "
				   "`directory`; this one has %d",
				   given);
	if (settings->directory && *settings->directory != '/')
		return fgt_why_set(why, -EINVAL,
				   "`directory` must be an absolute path; "
				   "begin it with /");
	if (settings->url && *settings->url == '/')
		return fgt_why_set(why, -EINVAL,
				   "`url` is a path; call it `directory`");
	if (settings->url && strchr(settings->url, '?'))
		return fgt_why_set(
			why, -EINVAL,
			"the query of a URL may be a secret: put the "
			"URL into a file of mode 0640 or 0600 and "
			"name that file with `url_file`");
	return settings->proxy ? check_proxy(settings->proxy, why) : 0;
}

/* Keys that have no meaning for where it goes. */
static int check_use(const struct fgt_destination_settings *settings,
		     struct fgt_why *why)
{
	bool is_url = settings->url || settings->url_file;
	bool is_server = is_url || settings->dsn_file;
	const struct {
		const char *key;
		bool is_given, is_of_use;
	} rows[] = {
		{ "kind", settings->kind, is_url },
		{ "method", settings->method, is_url },
		{ "shape", settings->shape, is_url },
		{ "headers_file", settings->headers_file, is_url },
		{ "aws_keys_file", settings->aws_keys_file, is_url },
		{ "client_cert_file", settings->client_cert_file, is_server },
		{ "format", settings->format, !settings->dsn_file },
		{ "proxy", settings->proxy, is_server },
		{ "max_files", settings->max_files, settings->directory },
		{ "max_mb", settings->max_mb, settings->directory },
		{ "aws_region", settings->aws_region, settings->aws_keys_file },
		{ "aws_service", settings->aws_service,
		  settings->aws_keys_file },
		{ "client_key_file", settings->client_key_file,
		  settings->client_cert_file },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].is_given && !rows[i].is_of_use)
			return fgt_why_set(why, -EINVAL,
					   "`%s` has no use for this "
					   "destination; leave it out",
					   rows[i].key);
	return 0;
}

static int set_text(char **place, const char *text, struct fgt_why *why)
{
	if (!text)
		return 0;
	free(*place);
	*place = strdup(text);
	return *place ? 0 : fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
}

/* Pyroscope and OTLP take one format. */
static int set_format(const struct fgt_destination_settings *settings,
		      struct fgt_destination *destination, struct fgt_why *why)
{
	enum fgt_format_kind format;
	int r;

	if (!settings->format)
		return 0;
	r = fgt_format_from_name(settings->format, &format, why);
	if (r < 0)
		return r;
	if (destination->kind != FGT_DESTINATION_HTTP &&
	    destination->kind != FGT_DESTINATION_DIRECTORY &&
	    format != destination->format)
		return fgt_why_set(
			why, -EINVAL,
			"kind %s takes the format %s only; leave "
			"out `format`",
			fgt_destination_kind_name(
				(enum fgt_destination_kind)destination->kind),
			fgt_format_name(
				(enum fgt_format_kind)destination->format));
	destination->format = format;
	return 0;
}

static int set_kind(const struct fgt_destination_settings *settings,
		    struct fgt_destination *destination, struct fgt_why *why)
{
	static const char PPROF[] = "pprof", OTLP[] = "otlp";
	enum fgt_format_kind format;
	const char *name;
	int r;

	if (!settings->kind)
		return 0;
	if (find_kind(settings->kind, &destination->kind) < 0 ||
	    destination->kind == FGT_DESTINATION_SENTRY ||
	    destination->kind == FGT_DESTINATION_DIRECTORY)
		return fgt_why_set(why, -EINVAL,
				   "unknown kind '%.40s'; choose http, "
				   "pyroscope, pyroscope-push or otlp",
				   settings->kind);
	if (destination->kind == FGT_DESTINATION_HTTP)
		return 0;
	name = destination->kind == FGT_DESTINATION_OTLP ? OTLP : PPROF;
	destination->is_gzip = false;
	r = fgt_format_from_name(name, &format, why);
	if (r == 0)
		destination->format = format;
	return r;
}

static int set_method(const struct fgt_destination_settings *settings,
		      struct fgt_destination *destination, struct fgt_why *why)
{
	if (!settings->method)
		return 0;
	if (strcmp(settings->method, "PUT") && strcmp(settings->method, "POST"))
		return fgt_why_set(why, -EINVAL,
				   "unknown method '%.20s'; choose PUT or POST",
				   settings->method);
	destination->is_post = !strcmp(settings->method, "POST");
	return 0;
}

static int set_shape(const struct fgt_destination_settings *settings,
		     struct fgt_destination *destination, struct fgt_why *why)
{
	const char *shape = settings->shape;

	if (!shape)
		return 0;
	if (strcmp(shape, "sum") && strcmp(shape, "timestamps"))
		return fgt_why_set(
			why, -EINVAL,
			"unknown shape '%.20s'; choose timestamps or "
			"sum",
			shape);
	if (destination->kind != FGT_DESTINATION_OTLP)
		return fgt_why_set(why, -EINVAL,
				   "`shape` has no use for this destination; "
				   "leave it out, or set kind = \"otlp\"");
	destination->is_sum = !strcmp(shape, "sum");
	return 0;
}

/* What needs no file. */
static int set_all(const struct fgt_destination_settings *settings,
		   const struct fgt_destination_defaults *defaults,
		   struct fgt_destination *destination, struct fgt_why *why)
{
	int r = set_kind(settings, destination, why);

	if (r == 0)
		r = set_format(settings, destination, why);
	if (r == 0)
		r = set_method(settings, destination, why);
	if (r == 0)
		r = set_shape(settings, destination, why);
	if (r == 0)
		r = set_text(&destination->name, settings->name, why);
	if (r == 0)
		r = set_text(&destination->ca_file,
			     settings->ca_file ? settings->ca_file
					       : defaults->ca_file,
			     why);
	if (r == 0)
		r = set_text(&destination->proxy, settings->proxy, why);
	if (r == 0)
		r = set_text(&destination->aws_region, settings->aws_region,
			     why);
	if (r == 0)
		r = set_text(&destination->aws_service, settings->aws_service,
			     why);
	destination->is_v1 = defaults->is_sentry_v1;
	destination->max_files = (uint32_t)settings->max_files;
	destination->max_mb = (uint32_t)settings->max_mb;
	return r;
}

/* A URL with a key in it is a secret. */
static int parse_url(const char *text,
		     const struct fgt_destination_defaults *defaults,
		     struct fgt_destination **ret_destination,
		     struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	int r = fgt_destination_parse(text, defaults->is_http_allowed,
				      &destination, why);

	if (r < 0)
		return r;
	if (destination->kind == FGT_DESTINATION_SENTRY)
		return fgt_why_set(why, -EINVAL,
				   "a DSN is a secret: put it into a file of "
				   "mode 0640 or 0600 and name that file with "
				   "`dsn_file`");
	*ret_destination = FGT_TAKE(destination);
	return 0;
}

int fgt_destination_settings_check(
	const struct fgt_destination_settings *settings,
	const struct fgt_destination_defaults *defaults, struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	int r = check_place(settings, why);

	if (r == 0)
		r = check_use(settings, why);
	if (r < 0 || settings->dsn_file || settings->url_file)
		return r;
	r = parse_url(settings->url ? settings->url : settings->directory,
		      defaults, &destination, why);
	return r < 0 ? r : set_all(settings, defaults, destination, why);
}

/* ---- With secrets -------------------------------------------------------- */

/* The DSN's text again: its parts are checked then. */
static int write_dsn(const struct fgt_dsn *dsn, char **ret_text)
{
	size_t key_len = strcspn(dsn->clean, "@");
	const char *colon = *dsn->secret_key ? ":" : "";

	return asprintf(ret_text, "%.*s%s%s%s", (int)key_len, dsn->clean, colon,
			dsn->secret_key, dsn->clean + key_len) < 0
		       ? -ENOMEM
		       : 0;
}

int fgt_destination_load_dsn(const char *dsn_file,
			     const struct fgt_destination_defaults *defaults,
			     struct fgt_destination **ret_destination,
			     struct fgt_why *why)
{
	char path[PATH_MAX];
	struct fgt_dsn dsn;
	char *text = NULL;
	int r = fgt_credentials_find(dsn_file, path, sizeof(path), why);

	if (r == 0)
		r = fgt_dsn_read_file(path, defaults->is_http_allowed, &dsn,
				      why);
	if (r < 0)
		return r;
	r = write_dsn(&dsn, &text);
	explicit_bzero(&dsn, sizeof(dsn));
	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	r = fgt_destination_parse(text, defaults->is_http_allowed,
				  ret_destination, why);
	explicit_bzero(text, strlen(text));
	free(text);
	if (r == 0)
		r = set_text(&(*ret_destination)->ca_file, defaults->ca_file,
			     why);
	if (r == 0)
		(*ret_destination)->is_v1 = defaults->is_sentry_v1;
	return r;
}

static int load_url_file(const struct fgt_destination_settings *settings,
			 const struct fgt_destination_defaults *defaults,
			 struct fgt_destination **ret_destination,
			 struct fgt_why *why)
{
	const char *name = fgt_trusted_file_name(settings->url_file);
	struct fgt_why part;
	char *line;
	int r = fgt_credentials_read_line(settings->url_file, &line, why);

	if (r < 0)
		return r;
	r = *line == '/' ? fgt_why_set(&part, -EINVAL, "not a URL; write one")
			 : parse_url(line, defaults, ret_destination, &part);
	explicit_bzero(line, strlen(line));
	free(line);
	return r < 0 ? fgt_why_set(why, r, "%s: %s", name, part.text) : 0;
}

static int load_secrets(const struct fgt_destination_settings *settings,
			struct fgt_destination *destination,
			struct fgt_why *why)
{
	int r = 0;

	if (settings->headers_file)
		r = fgt_credentials_read_headers(settings->headers_file,
						 &destination->headers, why);
	if (r == 0 && settings->aws_keys_file)
		r = fgt_credentials_read_aws(settings->aws_keys_file,
					     &destination->aws_keys,
					     &destination->aws_token, why);
	if (r == 0 && settings->client_cert_file)
		r = fgt_credentials_read_pem(settings->client_cert_file,
					     settings->client_key_file,
					     &destination->client_pem, why);
	return r;
}

int fgt_destination_load(const struct fgt_destination_settings *settings,
			 const struct fgt_destination_defaults *defaults,
			 struct fgt_destination **ret_destination,
			 struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	int r = fgt_destination_settings_check(settings, defaults, why);

	if (r < 0)
		return r;
	if (settings->dsn_file)
		r = fgt_destination_load_dsn(settings->dsn_file, defaults,
					     &destination, why);
	else if (settings->url_file)
		r = load_url_file(settings, defaults, &destination, why);
	else
		r = parse_url(settings->url ? settings->url
					    : settings->directory,
			      defaults, &destination, why);
	if (r == 0)
		r = set_all(settings, defaults, destination, why);
	if (r == 0)
		r = load_secrets(settings, destination, why);
	if (r < 0)
		return r;
	*ret_destination = FGT_TAKE(destination);
	return 0;
}
