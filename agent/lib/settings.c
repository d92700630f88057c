/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and completes the options of a start. Runs in fgt_start() on the
 * program's thread; reads the environment, unless the program runs with more
 * rights than its user.
 */
#include "agent/lib/settings.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_FIRST_VERSION                                                     \
	(offsetof(struct fgt_options, context) + sizeof(void *))
#define SIZE_MAX_BYTES	 4096 /* no version will be larger */
#define HZ_MAX		 1000
#define RING_SECONDS_MAX 3600
#define RING_BYTES_MIN	 ((size_t)1 << 20)

/*
 * A program may be older than the library: what it does not know is zero; or
 * newer: what the library does not know must be zero.
 */
static int copy_version(struct fgt_options *options,
			const struct fgt_options *given)
{
	const unsigned char *bytes = (const unsigned char *)given;
	size_t size = given->size;

	if (size < SIZE_FIRST_VERSION || size > SIZE_MAX_BYTES)
		return -EINVAL;
	for (size_t i = sizeof(*options); i < size; i++)
		if (bytes[i])
			return -EINVAL;
	memcpy(options, given,
	       size < sizeof(*options) ? size : sizeof(*options));
	options->size = sizeof(*options);
	return 0;
}

static bool is_in_range(const struct fgt_options *options)
{
	return (int)options->mode >= FGT_AUTO &&
	       (int)options->mode <= FGT_EMBEDDED &&
	       (int)options->threads >= FGT_THREADS_ALL &&
	       (int)options->threads <= FGT_THREADS_ADOPTED &&
	       options->hz <= HZ_MAX &&
	       options->ring_seconds <= RING_SECONDS_MAX &&
	       (options->ring_bytes == 0 ||
		options->ring_bytes >= RING_BYTES_MIN) &&
	       !isnan(options->sample_rate) && options->sample_rate <= 1;
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

void fgt_settings_copy_text(char *to, size_t size, const char *from)
{
	size_t len = strnlen(from, size);

	if (len >= size) {
		len = size - 1;
		/* 10xxxxxx: the character began before. */
		while (len > 0 && ((unsigned char)from[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(to, from, len);
	to[len] = 0;
}

int fgt_settings_check_destination(const char *destination)
{
	if (strnlen(destination, FGT_SETTINGS_DESTINATION + 1) >
	    FGT_SETTINGS_DESTINATION)
		return -EINVAL;
	if (destination[0] == '/' || strncmp(destination, "https://", 8) == 0 ||
	    strncmp(destination, "http://", 7) == 0)
		return 0;
	return -EINVAL;
}

/* Of the environment, which a set-user-ID program must not believe. */
static const char *or_variable(const char *given, const char *name)
{
	if (!given || !*given)
		given = secure_getenv(name);
	return given && *given ? given : NULL;
}

static int take_socket(struct fgt_settings *settings)
{
	const char *path =
		or_variable(settings->options.socket, "FGTRACE_SOCKET");

	if (path &&
	    strnlen(path, sizeof(settings->socket)) >= sizeof(settings->socket))
		return -EINVAL;
	settings->options.socket = NULL;
	if (path) {
		strcpy(settings->socket, path);
		settings->options.socket = settings->socket;
	}
	return 0;
}

static int take_destination(struct fgt_settings *settings)
{
	const char *destination = or_variable(settings->options.destination,
					      "FGTRACE_DESTINATION");

	settings->options.destination = NULL;
	if (!destination)
		return 0;
	if (fgt_settings_check_destination(destination) < 0)
		return -EINVAL;
	strcpy(settings->destination, destination);
	settings->options.destination = settings->destination;
	return 0;
}

static const char *take_text(char *to, size_t size, const char *from)
{
	if (!from || !*from)
		return NULL;
	fgt_settings_copy_text(to, size, from);
	return to;
}

int fgt_settings_init(struct fgt_settings *settings,
		      const struct fgt_options *given)
{
	struct fgt_options *options = &settings->options;
	int r;

	memset(settings, 0, sizeof(*settings));
	options->size = sizeof(*options);
	r = given ? copy_version(options, given) : 0;
	if (r == 0 && !is_in_range(options))
		r = -EINVAL;
	if (r == 0)
		r = take_socket(settings);
	if (r == 0)
		r = take_destination(settings);
	if (r < 0)
		return r;
	fill_in(options);
	options->release = take_text(
		settings->release, sizeof(settings->release), options->release);
	options->environment = take_text(settings->environment,
					 sizeof(settings->environment),
					 options->environment);
	return 0;
}
