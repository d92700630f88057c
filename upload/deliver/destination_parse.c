/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations from text. Any thread, also in libfgtrace: of libc only. Must
 * not put a key or a query into a message.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "upload/deliver/destination.h"
#include "upload/deliver/dsn.h"
#include "upload/deliver/url.h"
#include "upload/deliver/url_template.h"

#define QUERY_HIDDEN "?***"

const char *fgt_destination_kind_name(enum fgt_destination_kind kind)
{
#define KIND_NAME(id, name) name,
	static const char *const names[] = { FGT_DESTINATION_KINDS(KIND_NAME) };

	return (unsigned int)kind < FGT_DESTINATION_COUNT ? names[kind]
							  : "unknown";
}

void fgt_destination_free(struct fgt_destination *destination)
{
	if (!destination)
		return;
#define FREE_TEXT(member)                                                      \
	if (destination->member)                                               \
		explicit_bzero(destination->member,                            \
			       strlen(destination->member));                   \
	free(destination->member);
	FGT_DESTINATION_TEXTS(FREE_TEXT)
	free(destination);
}

/* ---- What a text is ----------------------------------------------------- */

static bool is_url(const char *text)
{
	return !strncmp(text, "https://", 8) || !strncmp(text, "http://", 7);
}

/* The length of a URL without query and fragment. */
static size_t path_end(const char *url)
{
	return strcspn(url, "?#");
}

static bool has_key(const char *url)
{
	const char *authority = strstr(url, "://") + 3;

	return memchr(authority, '@', strcspn(authority, "/?#"));
}

static bool ends_with(const char *text, size_t len, const char *ending)
{
	size_t ending_len = strlen(ending);

	return len >= ending_len &&
	       !strncmp(text + len - ending_len, ending, ending_len);
}

static enum fgt_destination_kind kind_of_url(const char *url)
{
	size_t len = path_end(url);

	if (has_key(url))
		return FGT_DESTINATION_SENTRY;
	if (ends_with(url, len, "/ingest"))
		return FGT_DESTINATION_PYROSCOPE;
	if (ends_with(url, len, "/push.v1.PusherService/Push"))
		return FGT_DESTINATION_PYROSCOPE_PUSH;
	if (ends_with(url, len, "/v1development/profiles"))
		return FGT_DESTINATION_OTLP;
	return FGT_DESTINATION_HTTP;
}

static int check_dsn(const char *text, bool is_http_allowed,
		     struct fgt_why *why)
{
	struct fgt_dsn *dsn = calloc(1, sizeof(*dsn));
	int r;

	if (!dsn)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	r = fgt_dsn_parse(text, is_http_allowed, dsn, why);
	explicit_bzero(dsn, sizeof(*dsn));
	free(dsn);
	return r;
}

int fgt_destination_check(const char *text, bool is_http_allowed,
			  struct fgt_why *why)
{
	if (*text == '/')
		return 0;
	if (!is_url(text))
		return fgt_why_set(why, -EINVAL,
				   "a destination is neither a URL (https://…) "
				   "nor the absolute path of a directory; give "
				   "one of them");
	if (has_key(text))
		return check_dsn(text, is_http_allowed, why);
	return fgt_url_template_check(text, is_http_allowed, why);
}

/* ---- The destination ---------------------------------------------------- */

static void choose_format(struct fgt_destination *destination)
{
	const char *text = destination->target;
	size_t len = path_end(text);
	enum fgt_format_kind format = fgt_format_of_ending(text, len);

	if (format == FGT_KIND_COUNT && ends_with(text, len, ".gz")) {
		format = fgt_format_of_ending(text, len - strlen(".gz"));
		destination->is_gzip = format != FGT_KIND_COUNT;
	}
	destination->format = format == FGT_KIND_COUNT ? FGT_KIND_CHROME
						       : format;
}

static void choose_kind(struct fgt_destination *destination)
{
	const char *text = destination->target;

	destination->kind = *text == '/' ? FGT_DESTINATION_DIRECTORY
					 : kind_of_url(text);
	switch (destination->kind) {
	case FGT_DESTINATION_SENTRY:
	case FGT_DESTINATION_DIRECTORY:
		destination->format = FGT_KIND_SENTRY;
		break;
	case FGT_DESTINATION_HTTP:
		choose_format(destination);
		break;
	case FGT_DESTINATION_OTLP:
		destination->format = FGT_KIND_OTLP;
		break;
	default:
		destination->format = FGT_KIND_PPROF;
	}
}

int fgt_destination_parse(const char *text, bool is_http_allowed,
			  struct fgt_destination **ret_destination,
			  struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	int r = fgt_destination_check(text, is_http_allowed, why);

	if (r < 0)
		return r;
	destination = calloc(1, sizeof(*destination));
	if (destination)
		destination->target = strdup(text);
	if (!destination || !destination->target)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	destination->is_http_allowed = is_http_allowed;
	choose_kind(destination);
	*ret_destination = FGT_TAKE(destination);
	return 0;
}

/* ---- For messages -------------------------------------------------------- */

static void show_dsn(const char *text, char where[FGT_DESTINATION_WHERE_MAX])
{
	struct fgt_dsn *dsn = calloc(1, sizeof(*dsn));

	strcpy(where, "a DSN");
	if (!dsn)
		return;
	if (fgt_dsn_parse(text, true, dsn, NULL) == 0)
		snprintf(where, FGT_DESTINATION_WHERE_MAX, "%.500s",
			 dsn->redacted);
	explicit_bzero(dsn, sizeof(*dsn));
	free(dsn);
}

void fgt_destination_where_url(const char *url,
			       char ret_where[FGT_DESTINATION_WHERE_MAX])
{
	size_t end = path_end(url);

	snprintf(ret_where, FGT_DESTINATION_WHERE_MAX, "%.*s%s",
		 (int)(end < 500 ? end : 500), url,
		 url[end] ? QUERY_HIDDEN : "");
}

void fgt_destination_where(const struct fgt_destination *destination,
			   char ret_where[FGT_DESTINATION_WHERE_MAX])
{
	const char *text = destination->target;

	if (destination->kind == FGT_DESTINATION_SENTRY)
		show_dsn(text, ret_where);
	else if (destination->kind == FGT_DESTINATION_DIRECTORY)
		snprintf(ret_where, FGT_DESTINATION_WHERE_MAX, "%.500s", text);
	else
		fgt_destination_where_url(text, ret_where);
}
