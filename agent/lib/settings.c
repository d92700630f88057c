/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and completes the options of a start. Runs in fgt_start() on a thread
 * of the program. Reads the environment, unless the program has more privileges
 * than its user.
 */
#include "agent/lib/settings.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upload/deliver/destination.h"
#include "upload/deliver/trusted_file.h"
#include "upload/deliver/url.h"

#define SIZE_FIRST_VERSION                                                     \
	(offsetof(struct fgt_options, context) + sizeof(void *))
#define SIZE_MAX_BYTES	 4096 /* no version will be larger */
#define HZ_MAX		 1000
#define NAME_MAX_BYTES	 63 /* of a destination */
#define RING_SECONDS_MAX 3600
#define RING_BYTES_MIN	 ((size_t)1 << 20)
#define RING_BYTES_MAX	 ((size_t)1 << 34)

/*
 * A program may be older than the library: missing members are zero. It may be
 * newer: members that the library does not know must be zero.
 */
static int copy_version(struct fgt_options *options,
			const struct fgt_options *given, struct fgt_why *why)
{
	const unsigned char *bytes = (const unsigned char *)given;
	size_t size = given->size;
	bool is_newer;

	/* Not logged: without a valid size the log member is unknown. */
	if (size < SIZE_FIRST_VERSION || size > SIZE_MAX_BYTES ||
	    size % sizeof(void *))
		return fgt_why_set(why, -EINVAL,
				   "options.size is of no version: set it to "
				   "sizeof(struct fgt_options)");
	memcpy(options, given,
	       size < sizeof(*options) ? size : sizeof(*options));
	options->size = sizeof(*options);
	is_newer = options->reserved != 0;
	for (size_t i = sizeof(*options); i < size; i++)
		is_newer |= bytes[i] != 0;
	return is_newer ? fgt_why_set(why, -EINVAL,
				      "the program sets options that this "
				      "libfgtrace.so does not know: install a "
				      "newer one")
			: 0;
}

int fgt_settings_copy_struct(void *ret_to, size_t size_min, const void *from,
			     size_t from_size)
{
	size_t size;

	if (!ret_to)
		return -EINVAL;
	memcpy(&size, ret_to, sizeof(size));
	if (size < size_min || size > SIZE_MAX_BYTES)
		return -EINVAL;
	memset(ret_to, 0, size);
	memcpy(ret_to, from, size < from_size ? size : from_size);
	memcpy(ret_to, &size, sizeof(size));
	return 0;
}

static int check_ranges(const struct fgt_options *options, struct fgt_why *why)
{
	if ((int)options->mode < FGT_AUTO || (int)options->mode > FGT_EMBEDDED)
		return fgt_why_set(why, -EINVAL,
				   "options.mode: unknown value %d: use one "
				   "of enum fgt_mode",
				   (int)options->mode);
	if ((int)options->threads < FGT_THREADS_ALL ||
	    (int)options->threads > FGT_THREADS_ADOPTED)
		return fgt_why_set(why, -EINVAL,
				   "options.threads: unknown value %d: use "
				   "one of enum fgt_threads",
				   (int)options->threads);
	if (options->hz > HZ_MAX)
		return fgt_why_set(why, -EINVAL, "options.hz: at most %d",
				   HZ_MAX);
	if (options->ring_seconds > RING_SECONDS_MAX)
		return fgt_why_set(why, -EINVAL,
				   "options.ring_seconds: at most %d",
				   RING_SECONDS_MAX);
	if (options->ring_bytes && (options->ring_bytes < RING_BYTES_MIN ||
				    options->ring_bytes > RING_BYTES_MAX))
		return fgt_why_set(why, -EINVAL,
				   "options.ring_bytes: from %zu (1 MiB) to "
				   "%zu (16 GiB)",
				   RING_BYTES_MIN, RING_BYTES_MAX);
	if (isnan(options->sample_rate) || options->sample_rate > 1)
		return fgt_why_set(why, -EINVAL,
				   "options.sample_rate: from 0 to 1, or "
				   "negative for none");
	return 0;
}

static void fill_in(struct fgt_options *options)
{
	if (options->timeout_ms == 0)
		options->timeout_ms = 1000;
	if (options->timeout_ms > INT_MAX)
		options->timeout_ms = INT_MAX;
	if (options->hz == 0)
		options->hz = 101;
	if (options->ring_seconds == 0)
		options->ring_seconds = 30;
	if (options->ring_bytes == 0)
		options->ring_bytes = (size_t)64 << 20;
	if (options->sample_rate == 0)
		options->sample_rate = 1;
	if (options->min_gap_ns == 0)
		options->min_gap_ns = 1000000000;
	if (options->max_per_hour == 0)
		options->max_per_hour = 120;
}

size_t fgt_settings_text_len(const char *text, size_t max)
{
	size_t len = text ? strnlen(text, max + 1) : 0;

	if (len <= max)
		return len;
	len = max;
	/* 10xxxxxx: the character began before. */
	while (len > max - 3 && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	return len;
}

void fgt_settings_copy_text(char *to, size_t size, const char *from)
{
	size_t len = fgt_settings_text_len(from, size - 1);

	memcpy(to, from, len);
	to[len] = 0;
}

/* Of a template, too. The URL is well formed. */
static bool is_plain_elsewhere(const char *url)
{
	struct fgt_url parts;
	bool is_elsewhere = fgt_url_parse(url, &parts, NULL) == 0 &&
			    !parts.is_https && !parts.is_loopback;

	explicit_bzero(parts.userinfo, sizeof(parts.userinfo));
	return is_elsewhere;
}

static int check_url(const char *url, bool is_http_allowed, struct fgt_why *why)
{
	int r = fgt_destination_check(url, true, why);

	if (r == 0 && !is_http_allowed && is_plain_elsewhere(url))
		r = fgt_why_set(why, -EINVAL,
				"the destination is plain http to another "
				"machine: use https, or set "
				"options.allow_http or "
				"FGTRACE_UPLOAD_ALLOW_HTTP=1");
	return r;
}

int fgt_settings_check_destination(const char *destination,
				   bool is_http_allowed, struct fgt_why *why)
{
	size_t len = strnlen(destination, FGT_SETTINGS_DESTINATION + 1);

	if (len > FGT_SETTINGS_DESTINATION)
		return fgt_why_set(
			why, -EINVAL,
			"options.destination or FGTRACE_DESTINATION is "
			"longer than %d bytes: use a shorter one",
			FGT_SETTINGS_DESTINATION);
	if (destination[0] == '/')
		return 0;
	if (!strncmp(destination, "https://", 8) ||
	    !strncmp(destination, "http://", 7))
		return check_url(destination, is_http_allowed, why);
	/* A name of the agent's configuration. */
	if (len > 0 && len <= NAME_MAX_BYTES && !strpbrk(destination, "/:"))
		return 0;
	return fgt_why_set(why, -EINVAL,
			   "options.destination or FGTRACE_DESTINATION is "
			   "neither a DSN (https://KEY@HOST/PROJECT) nor "
			   "another URL, the absolute path of a directory or "
			   "a name of the agent's configuration: give one of "
			   "them");
}

/* secure_getenv: a set-user-ID program must not use the environment. */
static const char *or_variable(const char *given, const char *name)
{
	if (!given || !*given)
		given = secure_getenv(name);
	return given && *given ? given : NULL;
}

static int take_socket(struct fgt_settings *settings, struct fgt_why *why)
{
	const char *path =
		or_variable(settings->options.socket, "FGTRACE_SOCKET");

	if (path &&
	    strnlen(path, sizeof(settings->socket)) >= sizeof(settings->socket))
		return fgt_why_set(why, -EINVAL,
				   "options.socket or FGTRACE_SOCKET is "
				   "longer than %d bytes: use a shorter path",
				   FGT_SETTINGS_PATH);
	settings->options.socket = NULL;
	if (path) {
		strcpy(settings->socket, path);
		settings->options.socket = settings->socket;
	}
	return 0;
}

static int take_destination(struct fgt_settings *settings, struct fgt_why *why)
{
	const char *destination = or_variable(settings->options.destination,
					      "FGTRACE_DESTINATION");
	int r;

	settings->options.destination = NULL;
	if (!destination)
		return 0;
	r = fgt_settings_check_destination(
		destination, settings->options.allow_http != 0, why);
	if (r < 0)
		return r;
	strcpy(settings->destination, destination);
	settings->options.destination = settings->destination;
	return 0;
}

/* An invalid variable fails the start only if the destination needs it. */
static int take_ca_file(struct fgt_settings *settings, struct fgt_why *why)
{
	const char *given = settings->options.ca_file;
	const char *path = or_variable(given, "FGTRACE_UPLOAD_CA_FILE");
	const char *destination = settings->options.destination;
	bool is_wanted = path == given || (destination && *destination != '/');
	struct fgt_why own_why;
	int r;

	settings->options.ca_file = NULL;
	if (!path)
		return 0;
	r = fgt_trusted_file_absolute("options.ca_file or "
				      "FGTRACE_UPLOAD_CA_FILE",
				      path, settings->ca_file,
				      sizeof(settings->ca_file), &own_why);
	if (r == 0)
		settings->options.ca_file = settings->ca_file;
	if (r == 0 || !is_wanted)
		return 0;
	*why = own_why;
	return r;
}

static int take_spool_dir(struct fgt_settings *settings, struct fgt_why *why)
{
	const char *path =
		or_variable(settings->options.spool_dir, "FGTRACE_SPOOL_DIR");

	settings->options.spool_dir = NULL;
	if (!path)
		return 0;
	if (path[0] != '/' || strlen(path) >= sizeof(settings->spool_dir))
		return fgt_why_set(why, -EINVAL,
				   "options.spool_dir or FGTRACE_SPOOL_DIR is "
				   "not an absolute path of at most %d bytes; "
				   "use one",
				   FGT_SETTINGS_SPOOL_DIR);
	strcpy(settings->spool_dir, path);
	settings->options.spool_dir = settings->spool_dir;
	return 0;
}

static void take_allow_http(struct fgt_settings *settings)
{
	const char *text = or_variable(NULL, "FGTRACE_UPLOAD_ALLOW_HTTP");

	if (text && (!strcmp(text, "1") || !strcmp(text, "true")))
		settings->options.allow_http = 1;
}

static const char *take_text(char *to, size_t size, const char *from)
{
	if (!from)
		return NULL;
	fgt_settings_copy_text(to, size, from);
	return to;
}

/* What release has before and behind its first '@', if it has one. */
static void name_by_release(struct fgt_settings *settings)
{
	struct fgt_options *options = &settings->options;
	char *name = settings->service_name, *at;

	if (options->service_name || !options->release)
		return;
	strcpy(name, options->release);
	at = strchr(name, '@');
	if (!at || at == name)
		return;
	*at = 0;
	options->service_name = name;
	if (!options->service_version && at[1])
		options->service_version =
			strcpy(settings->service_version, at + 1);
}

static void take_service(struct fgt_settings *settings)
{
	struct fgt_options *options = &settings->options;
	const char *name =
		or_variable(options->service_name, "FGTRACE_SERVICE_NAME");

	options->service_name = take_text(
		settings->service_name, sizeof(settings->service_name),
		or_variable(name, "OTEL_SERVICE_NAME"));
	options->service_namespace =
		take_text(settings->service_namespace,
			  sizeof(settings->service_namespace),
			  options->service_namespace);
	options->service_version = take_text(settings->service_version,
					     sizeof(settings->service_version),
					     options->service_version);
	options->service_instance = take_text(
		settings->service_instance, sizeof(settings->service_instance),
		options->service_instance);
	name_by_release(settings);
}

int fgt_settings_init(struct fgt_settings *settings,
		      const struct fgt_options *given, struct fgt_why *why)
{
	struct fgt_options *options = &settings->options;
	int r;

	memset(settings, 0, sizeof(*settings));
	options->size = sizeof(*options);
	r = given ? copy_version(options, given, why) : 0;
	if (r == 0)
		r = check_ranges(options, why);
	if (r == 0)
		r = take_socket(settings, why);
	take_allow_http(settings);
	if (r == 0)
		r = take_destination(settings, why);
	if (r == 0)
		r = take_ca_file(settings, why);
	if (r == 0)
		r = take_spool_dir(settings, why);
	if (r < 0)
		return r;
	fill_in(options);
	options->release =
		take_text(settings->release, sizeof(settings->release),
			  or_variable(options->release, "FGTRACE_RELEASE"));
	options->environment = take_text(
		settings->environment, sizeof(settings->environment),
		or_variable(options->environment, "FGTRACE_ENVIRONMENT"));
	take_service(settings);
	return 0;
}
