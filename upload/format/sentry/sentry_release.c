/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Release and environment of what is sent to Sentry: as they were given, else
 * as the program publishes them, in the form that Sentry accepts. Runs in any
 * thread.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "upload/format/sentry/sentry_envelope.h"

#define RELEASE_MAX	200
#define ENVIRONMENT_MAX 64

/* Sentry refuses a text that has one of these characters. */
static void replace_refused(char *text, const char *refused)
{
	for (char *c = text; *c; c++)
		if (iscntrl((unsigned char)*c) || strchr(refused, *c))
			*c = '_';
}

/* Ends before the character that does not fit. */
static void cut(char *text, size_t max)
{
	if (strlen(text) <= max)
		return;
	while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
		max--;
	text[max] = '\0';
}

/* "name@version", which Sentry sorts by version. */
static void put_version(struct fgt_json *json,
			const struct fgt_service *service)
{
	char text[2 * FGT_SERVICE_TEXT_MAX];

	if (!service->name[0] || !service->version[0])
		return;
	snprintf(text, sizeof(text), "%s@%s", service->name, service->version);
	replace_refused(text, "/\\");
	cut(text, RELEASE_MAX);
	fgt_json_put_string(json, "release", text);
}

static void put_environment(struct fgt_json *json,
			    const struct fgt_service *service)
{
	char text[FGT_SERVICE_TEXT_MAX];

	memcpy(text, service->environment, sizeof(text));
	replace_refused(text, "/ ");
	cut(text, ENVIRONMENT_MAX);
	if (text[0] && strcmp(text, "None") != 0)
		fgt_json_put_string(json, "environment", text);
}

void fgt_sentry_put_release(struct fgt_json *json,
			    const struct fgt_format_options *options,
			    const struct fgt_service *service)
{
	if (fgt_sentry_given(options->release))
		fgt_json_put_string(json, "release", options->release);
	else
		put_version(json, service);
	if (fgt_sentry_given(options->environment))
		fgt_json_put_string(json, "environment", options->environment);
	else
		put_environment(json, service);
}
