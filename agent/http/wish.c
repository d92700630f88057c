/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of requests. Runs in the thread of a connection; must not depend
 * on the locale of the program.
 */
#include "agent/http/wish.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/nearest.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define SECONDS_MIN  0.001
#define NS	     1e9

/* One reading. */
struct wish_reader {
	const struct fgt_web_query *query;
	const struct fgt_web_defaults *defaults;
	unsigned int takes;
	struct fgt_now now;
	struct fgt_web_wish *wish;
	struct fgt_why *why;
};

static int refuse(struct wish_reader *reader, const char *name,
		  const char *value, const char *remedy)
{
	return fgt_why_set(reader->why, -EINVAL, "bad %s: \"%.60s\": %s", name,
			   value, remedy);
}

/* ---- Which parameters there are ------------------------------------------ */

static const struct {
	const char *name;
	unsigned int takes; /* any of these; 0: every route */
} known[] = {
	{ "token", 0 },
	{ "pid", FGT_WEB_TAKES_TARGET },
	{ "name", FGT_WEB_TAKES_TARGET },
	{ "children", FGT_WEB_TAKES_SEVERAL },
	{ "all", FGT_WEB_TAKES_SEVERAL },
	{ "thread", FGT_WEB_TAKES_FILTER },
	{ "state", FGT_WEB_TAKES_FILTER },
	{ "function", FGT_WEB_TAKES_FILTER },
	{ "running", FGT_WEB_TAKES_FILTER },
	{ "no_idle", FGT_WEB_TAKES_FILTER },
	{ "tid", FGT_WEB_TAKES_STATES | FGT_WEB_TAKES_LIVE },
	{ "state_frames", FGT_WEB_TAKES_STATES },
	{ "seconds", FGT_WEB_TAKES_SECONDS },
	{ "wait", FGT_WEB_TAKES_SECONDS },
	{ "hz", FGT_WEB_TAKES_HZ },
	{ "from", FGT_WEB_TAKES_RANGE },
	{ "to", FGT_WEB_TAKES_RANGE },
	{ "last", FGT_WEB_TAKES_RANGE },
	{ "format",
	  FGT_WEB_TAKES_FORMAT | FGT_WEB_TAKES_PROFILE | FGT_WEB_TAKES_LIVE },
};

static bool is_taken(size_t at, unsigned int takes)
{
	return !known[at].takes || (known[at].takes & takes);
}

static int refuse_unknown(struct wish_reader *reader, const char *name)
{
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, name);
	for (size_t i = 0; i < COUNT(known); i++)
		if (is_taken(i, reader->takes))
			fgt_nearest_offer(&nearest, known[i].name);
	return fgt_why_set(reader->why, -EINVAL,
			   "bad %.40s: this path has no such parameter: %s%s",
			   name,
			   nearest.best ? "did you mean " : "leave it out",
			   nearest.best ? nearest.best : "");
}

static int check_names(struct wish_reader *reader)
{
	for (unsigned int i = 0; i < reader->query->count; i++) {
		const char *name = reader->query->parameters[i].name;
		size_t at = 0;

		while (at < COUNT(known) && strcmp(known[at].name, name) != 0)
			at++;
		if (at == COUNT(known) || !is_taken(at, reader->takes))
			return refuse_unknown(reader, name);
	}
	return 0;
}

/* ---- Values -------------------------------------------------------------- */

/* A whole number; *ret_value stays if the parameter is not there. */
static int read_number(struct wish_reader *reader, const char *name,
		       int64_t max, int64_t *ret_value)
{
	const char *text = fgt_web_query_get(reader->query, name);
	char remedy[80];
	int64_t value;

	if (!text)
		return 0;
	if (fgt_number_parse(text, &value) == 0 && value >= 1 && value <= max) {
		*ret_value = value;
		return 0;
	}
	snprintf(remedy, sizeof(remedy),
		 "invalid value: give a whole number from 1 to %lld",
		 (long long)max);
	return refuse(reader, name, text, remedy);
}

/* NAN: no number. "nan", "inf" and hexadecimal numbers are none. */
static double to_double(const char *text)
{
	locale_t plain;
	double value;
	char *end;

	if (text[strspn(text, "0123456789.eE+-")] != '\0')
		return NAN;
	plain = newlocale(LC_ALL_MASK, "C", NULL);
	if (!plain)
		return NAN;
	value = strtod_l(text, &end, plain);
	freelocale(plain);
	return end == text || *end ? NAN : value;
}

static int read_seconds(struct wish_reader *reader, double *ret_seconds)
{
	const char *text = fgt_web_query_get(reader->query, "seconds");
	double seconds = text ? to_double(text) : reader->defaults->seconds;

	if (isnan(seconds) || seconds < SECONDS_MIN ||
	    seconds > FGT_WEB_SECONDS_MAX)
		return refuse(reader, "seconds", text,
			      "invalid value: give a number of seconds from "
			      "0.001 to 3600");
	*ret_seconds = seconds;
	return 0;
}

static int read_truth(struct wish_reader *reader, const char *name,
		      bool *ret_value)
{
	const char *text = fgt_web_query_get(reader->query, name);

	if (text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return refuse(reader, name, text, "invalid value: give 0 or 1");
	*ret_value = text && text[0] == '1';
	return 0;
}

/* The past seconds, or with wait=1 those that begin now. */
static int read_past(struct wish_reader *reader)
{
	struct fgt_range *range = &reader->wish->cut.range;
	bool is_wait;
	double seconds;
	int r = read_seconds(reader, &seconds);

	if (r == 0)
		r = read_truth(reader, "wait", &is_wait);
	if (r < 0)
		return r;
	range->last_ns = (uint64_t)(seconds * NS);
	range->has_to = is_wait;
	range->to = (struct fgt_time){
		.form = FGT_TIME_MONOTONIC,
		.ns = reader->now.mono_ns + range->last_ns,
	};
	return 0;
}

/* ---- from, to, last ------------------------------------------------------ */

static int read_time(struct wish_reader *reader, const char *name,
		     bool *ret_is_there, struct fgt_time *ret_time)
{
	const char *text = fgt_web_query_get(reader->query, name);
	struct fgt_why cause = { "" };

	*ret_is_there = text;
	if (!text || fgt_time_read(text, &reader->now, ret_time, &cause) == 0)
		return 0;
	/* A space in the query was a + as likely as not. */
	return fgt_why_set(reader->why, -EINVAL, "bad %s: %s%s", name,
			   cause.text,
			   strchr(text, ' ') ? "; write + as %2B" : "");
}

static int read_last(struct wish_reader *reader, uint64_t *ret_ns)
{
	const char *text = fgt_web_query_get(reader->query, "last");
	struct fgt_why cause = { "" };

	if (!text) {
		*ret_ns = (uint64_t)(reader->defaults->seconds * NS);
		return 0;
	}
	if (fgt_duration_parse(text, ret_ns, &cause) == 0)
		return 0;
	return fgt_why_set(reader->why, -EINVAL, "bad last: %s", cause.text);
}

static int read_range(struct wish_reader *reader)
{
	struct fgt_range *range = &reader->wish->cut.range;
	bool has_last = fgt_web_query_get(reader->query, "last");
	int r = read_time(reader, "from", &range->has_from, &range->from);

	if (r == 0)
		r = read_time(reader, "to", &range->has_to, &range->to);
	if (r == 0 && has_last && (range->has_from || range->has_to))
		return fgt_why_set(reader->why, -EINVAL,
				   "bad last: from and to exclude it: give "
				   "either");
	return r < 0 ? r : read_last(reader, &range->last_ns);
}

/* ---- format, state_frames, the target ------------------------------------ */

static int read_format(struct wish_reader *reader)
{
	const char *text = fgt_web_query_get(reader->query, "format");
	bool is_profile = reader->takes & FGT_WEB_TAKES_PROFILE;
	enum fgt_format_kind *format = &reader->wish->format;
	struct fgt_why cause = { "" };

	*format = reader->defaults->format;
	if (!text || (reader->takes & FGT_WEB_TAKES_LIVE))
		return 0;
	if (fgt_format_from_name(text, format, &cause) < 0)
		return is_profile ? refuse(reader, "format", text,
					   "unknown format: give pprof or "
					   "folded")
				  : fgt_why_set(reader->why, -EINVAL,
						"bad format: %s", cause.text);
	if (is_profile && *format != FGT_KIND_PPROF &&
	    *format != FGT_KIND_FOLDED)
		return refuse(reader, "format", text,
			      "this path has pprof and folded: use "
			      "/api/v1/slice");
	return 0;
}

static int read_state_frames(struct wish_reader *reader)
{
	const char *text = fgt_web_query_get(reader->query, "state_frames");
	enum fgt_state_frames *where = &reader->wish->state_frames;
	struct fgt_why cause = { "" };

	*where = reader->defaults->state_frames;
	if (!text || fgt_state_frames_from_name(text, where, &cause) == 0)
		return 0;
	return refuse(reader, "state_frames", text,
		      "invalid value: give auto, root, leaf or no");
}

static int read_target(struct wish_reader *reader)
{
	struct fgt_web_cut *cut = &reader->wish->cut;
	struct fgt_target_choice *choice = &cut->choice;
	int64_t pid = 0, tid = 0;
	int r = read_number(reader, "pid", INT32_MAX, &pid);

	if (r == 0)
		r = read_number(reader, "tid", INT32_MAX, &tid);
	if (r == 0)
		r = read_truth(reader, "children", &choice->with_children);
	if (r == 0)
		r = read_truth(reader, "all", &choice->is_all);
	if (r < 0)
		return r;
	choice->pid = (int32_t)pid;
	cut->tid = (int32_t)tid;
	choice->name = fgt_web_query_get(reader->query, "name");
	if ((choice->pid != 0) + (choice->name != NULL) + choice->is_all > 1)
		return fgt_why_set(reader->why, -EINVAL,
				   "bad target: give one of pid, name and all");
	if (choice->with_children && !choice->pid)
		return fgt_why_set(reader->why, -EINVAL,
				   "bad children: it is for a process: give "
				   "its pid");
	return 0;
}

static int read_filter(struct wish_reader *reader)
{
	struct fgt_filter *filter = &reader->wish->filter;
	int r = read_truth(reader, "running", &filter->is_running);

	filter->thread = fgt_web_query_get(reader->query, "thread");
	filter->state = fgt_web_query_get(reader->query, "state");
	filter->function = fgt_web_query_get(reader->query, "function");
	return r < 0 ? r : read_truth(reader, "no_idle", &filter->is_busy);
}

int fgt_web_wish_read(const struct fgt_web_query *query, unsigned int takes,
		      const struct fgt_web_defaults *defaults,
		      struct fgt_web_wish *ret_wish, struct fgt_why *why)
{
	struct fgt_web_wish wish = { .cut = { .client_fd = -1 } };
	struct wish_reader reader = { .query = query,
				      .defaults = defaults,
				      .takes = takes,
				      .wish = &wish,
				      .why = why };
	int64_t hz = 0;
	int r = check_names(&reader);

	fgt_now_read(&reader.now);
	/* As fgtrace does: seconds, then hz. */
	if (r == 0)
		r = takes & FGT_WEB_TAKES_RANGE ? read_range(&reader)
						: read_past(&reader);
	if (r == 0)
		r = read_number(&reader, "hz", FGT_WEB_HZ_MAX, &hz);
	if (r == 0)
		r = read_format(&reader);
	if (r == 0)
		r = read_state_frames(&reader);
	if (r == 0)
		r = read_target(&reader);
	if (r == 0)
		r = read_filter(&reader);
	if (r < 0)
		return r;
	wish.hz = (uint32_t)hz;
	*ret_wish = wish;
	return 0;
}
